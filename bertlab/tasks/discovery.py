"""The files of a task's splits, wherever people keep them.

``task.path`` may be the task's own folder, a folder of many tasks (the GLUE download with its MRPC/, SST-2/, …, or a collection that
holds such a download), or a flat folder where the task's name opens the files' names (mrpc_train.tsv). Upper and lower case of folders
do not matter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertlab.errors import UserError, nearest
from bertlab.task_config import TaskConfig

PLACE = "BERTLAB_TASKS"  # the environment's default for task.path
_COLLECTIONS = ("", "glue", "glue_data")  # folders of a collection that a download of many tasks may be
_JOINTS = ("_", "-", ".")


def find_files(task: TaskConfig) -> dict[str, Path]:
    """Split → file, of every split that has one.

    All files come from one place, the first that holds a file of any split: a folder named as the task, then files named after it,
    then the folder itself.

    Raises:
        UserError: no place is given, it is not there, or it holds none of the files.
    """
    root = _root(task)
    if not task.files:
        raise UserError(f"task={task.name} names no files: set task.files, as in 'task.files={{train: [train.tsv], dev: [dev.tsv]}}'.")
    for place in _places(root, [*task.folders, task.name]):
        found = {split: file for split, names in task.files.items() if (file := _first_file(place, names))}
        if any(place.is_told_by(name) and place.file(name) == found.get(split) for split, names in task.files.items() for name in names):
            return found
    if found := {split: file for split, names in task.files.items() if (file := _first_file(_Place(root), names))}:
        return found
    raise UserError(f"task={task.name}: {root} holds none of its files: {_expected(task, list(task.files))}.{_hint(root, task)}")


def training_file(task: TaskConfig) -> str:
    """Where the training examples stand, in words."""
    if task.format == "probe":
        return f"task={task.name}"
    if task.format == "huggingface":
        return f"task.dataset={task.dataset}"
    found = find_files(task)
    return str(found.get("train") or found.get("dev") or f"task={task.name}")


def missing_split(task: TaskConfig, split: str, found: dict[str, Path]) -> UserError:
    """The error for a split that has no file beside those that were ``found``."""
    if split not in task.files:
        known = ", ".join(task.files)
        return UserError(f"task={task.name} has no split {split!r}: it has {known}; name the files of another split in task.files.")
    folder = next(iter(found.values())).parent
    remedy = " (or task.held_out=0.1, to divide the other file into train and dev)" if split in ("train", "dev") else ""
    return UserError(f"task={task.name}: {folder} has no file for {split}: expected {_expected(task, [split])}{remedy}.")


def _root(task: TaskConfig) -> Path:
    given = task.path or os.environ.get(PLACE)
    if not given:
        folder = f"{task.folders[0]}/" if task.folders else ""
        first = next((names[0] for names in task.files.values() if names), "train.tsv")
        places = f"{folder}{first} or {first}" if folder else first
        raise UserError(f"task={task.name} needs task.path=DIR, a folder that holds {places} (or set ${PLACE}).")
    root = Path(os.path.expanduser(given))
    if not root.exists():
        raise UserError(f"{'task.path' if task.path else '$' + PLACE}={given}: there is no such folder.")
    if not root.is_dir():
        raise UserError(f"task.path={given} is a file: name the folder, and the file in task.files, as in 'task.files.dev=[{root.name}]'.")
    return root


class _Place:
    """A folder, and what the names of the task's files begin with in it."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        self.folder, self.prefix = folder, prefix

    def file(self, name: str) -> Path:
        """Where a file of this name would be; a name with a folder in it has no prefix."""
        return self.folder / os.path.expanduser(name) if os.sep in name else self.folder / (self.prefix + name)

    def is_told_by(self, name: str) -> bool:
        """Whether a file of this name can only be in this place: one named in full, or in another folder, is found from several."""
        return not os.path.isabs(os.path.expanduser(name)) and not (self.prefix and os.sep in name)


def _places(root: Path, folders: Sequence[str]) -> Iterator[_Place]:
    collections = [root / name for name in _COLLECTIONS if (root / name).is_dir()]
    for collection in collections:
        inside = sorted(child.name for child in collection.iterdir() if child.is_dir())
        for wanted in folders:
            yield from (_Place(collection / name) for name in inside if name.casefold() == wanted.casefold())
    for collection in collections:
        names = dict.fromkeys(name for wanted in folders for name in (wanted, wanted.lower()))
        yield from (_Place(collection, name + joint) for name in names for joint in _JOINTS)
    yield _Place(root)


def _first_file(place: _Place, names: Sequence[str]) -> Path | None:
    return next((file for name in names if (file := place.file(name)).is_file()), None)


def _expected(task: TaskConfig, splits: Sequence[str]) -> str:
    names = list(dict.fromkeys(name for split in splits for name in task.files.get(split, [])))
    return " or ".join(names) if len(names) <= 6 else " or ".join(names[:6]) + ", …"


def _hint(root: Path, task: TaskConfig) -> str:
    """What is there instead: a few names, first those that look like the wanted ones."""
    present = sorted(child.name for child in root.iterdir() if not child.name.startswith("."))
    wanted = [*task.folders, *(name for names in task.files.values() for name in names)]
    alike = [near for name in wanted for near in nearest(name, present, 1)]
    shown = list(dict.fromkeys([*alike, *present]))
    return f" It holds {', '.join(shown[:6])}{', …' if len(shown) > 6 else ''}." if shown else " It is empty."
