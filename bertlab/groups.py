"""The choices that configuration files offer: a folder is a group, a file in it a choice. Read without Hydra, for help and completion."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertlab.errors import UserError
from bertlab.yaml_files import read_yaml

_COMMAND = re.compile(r"^bertlab\s")  # by custom the first comment line of a file is the command that uses it
_SENTENCE_END = re.compile(r"[.?!][)\"'”]?$")
_OVERRIDE = re.compile(r"^override\s+/?(\S+)$")
MUST_BE_GIVEN = "???"  # stands for a value that has no default


def choices(folders: Sequence[Path]) -> dict[str, dict[str, Path]]:
    """Group → choice → file, over all ``folders``; where two have the same choice the first folder's file counts.

    A nested file ``corpus/wiki/en.yaml`` is both the choice ``wiki/en`` of ``corpus`` and the choice ``en`` of ``corpus/wiki``. A folder
    whose name begins with an underscore holds parts of other files, and no choices.
    """
    found: dict[str, dict[str, Path]] = {}
    for folder in folders:
        for file in sorted(folder.rglob("*.yaml")):
            parts = file.relative_to(folder).with_suffix("").parts
            if any(part.startswith("_") for part in parts):
                continue
            for depth in range(1, len(parts)):
                found.setdefault("/".join(parts[:depth]), {}).setdefault("/".join(parts[depth:]), file)
    return found


def description(file: Path) -> str:
    """What a choice is: the first comment line of its file that is not the command that uses it, and what that sentence goes on with."""
    said: list[str] = []
    for line in _leading_comments(file):
        if line and not _COMMAND.match(line) and not line.startswith("@package"):
            said.append(line)
        if said and (not line or _SENTENCE_END.search(line)):
            break
    return " ".join(said)


def default_choices(folders: Sequence[Path], primary: str) -> dict[str, str]:
    """Group → the choice that ``primary``.yaml takes when the command names none, with what the chosen files choose in turn."""
    chosen: dict[str, str] = {}
    _follow(_read(folders, f"{primary}.yaml"), folders, chosen)
    return chosen


def default_values(folders: Sequence[Path], primary: str) -> dict[str, Any]:
    """What the default choices set, as a nested mapping: a group's file under the group's name, a ``_global_`` file at the top."""
    values: dict[str, Any] = {}
    found = choices(folders)
    for group, choice in default_choices(folders, primary).items():
        file = found.get(group, {}).get(choice)
        if file is None:
            continue
        content = {key: value for key, value in _load(file).items() if key != "defaults"}
        is_global = any(line.startswith("@package _global_") for line in _leading_comments(file))
        _overlay(values, content if is_global else {group: content})
    return values


def _follow(defaults: list[Any], folders: Sequence[Path], chosen: dict[str, str], within: tuple[str, ...] = ()) -> None:
    """Enter what a defaults list chooses into ``chosen``, and what the chosen files override in turn. ``within``: whose list it is."""
    for entry in defaults:
        for key, choice in entry.items() if isinstance(entry, Mapping) else ():
            if choice is None or not isinstance(key, str) or key.startswith("optional "):
                continue
            overriding = _OVERRIDE.match(key)
            group = overriding.group(1) if overriding else key.removeprefix("/")
            chosen[group] = str(choice)
            file = f"{group}/{choice}.yaml"
            if not overriding and file not in within:  # files that choose each other are Hydra's to refuse
                _follow(_read(folders, file), folders, chosen, (*within, file))


def _read(folders: Sequence[Path], name: str) -> list[Any]:
    """The defaults list of the first file of that name."""
    for folder in folders:
        if (folder / name).is_file():
            return _defaults_list(folder / name)
    return []


def _defaults_list(file: Path) -> list[Any]:
    defaults = _load(file).get("defaults", [])
    if not isinstance(defaults, list):
        raise UserError(f"{file}: defaults takes a list like [override /model: tiny], not {defaults!r}.")
    return defaults


def _load(file: Path) -> dict[str, Any]:
    content = read_yaml(file)
    if content is not None and not isinstance(content, dict):
        raise UserError(f"{file} holds no mapping: a file of choices says key: value.")
    return content or {}


def _leading_comments(file: Path) -> Iterator[str]:
    """The lines of the comment that opens a file, without their ``#``."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.startswith("#"):
                return
            yield line.lstrip("#").strip()


def _overlay(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, Mapping):
            inner = below.setdefault(key, {})
            if isinstance(inner, dict):
                _overlay(inner, value)
                continue
        below[key] = value
