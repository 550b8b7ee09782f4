"""Reading YAML that somebody else may have written: plain values alone, bounded, and nothing in it that names code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from bertlab.errors import UserError

MOST_VALUES = 200_000  # once aliases are written out: a few lines of them can stand for more than any memory holds
LARGEST_FILE = 1 << 25  # bytes
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_OF_HYDRA = ("hydra", "_target_", "_partial_", "_args_", "_recursive_", "_convert_")  # keys that decide what is called


def read_yaml(path: Path) -> Any:
    """The values of a YAML file.

    Raises:
        UserError: it cannot be read, is no YAML, is nested without end, or stands for more than any configuration holds.
    """
    text = _text(path)
    try:
        _composed(path, text)
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: of a date that there is not
        raise _unreadable(path, error) from error


def read_nodes(path: Path) -> Any:
    """The same file before its values are made: yaml's nodes, with their lines. Raises UserError alike."""
    try:
        return _composed(path, _text(path))
    except yaml.YAMLError as error:
        raise _unreadable(path, error) from error


def _composed(path: Path, text: str) -> Any:
    """Yaml's nodes. Raises UserError where they are too many or too deep, and YAMLError where it is no YAML."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError as error:
        raise UserError(f"Cannot read {path}: it is nested too deeply.") from error
    if node is not None and _extent(node, {}, set()) > MOST_VALUES:
        raise UserError(f"Cannot read {path}: with its aliases written out it holds more than {MOST_VALUES:,} values, or itself.")
    _refuse_base_60(path, node)
    return node


def _refuse_base_60(path: Path, node: Any) -> None:
    """Refuse a time without quotes: YAML 1.1 reads 12:00:00 as the number 43200, and nobody means that."""
    for scalar in _scalars(node, set()) if node is not None else ():
        if ":" in scalar.value and scalar.tag in _NUMBERS:
            line = scalar.start_mark.line + 1
            raise UserError(f"{path}:{line}: {scalar.value} without quotes is a number in base 60: write '{scalar.value}'.")


def refuse_code(folder: Path) -> None:
    """Refuse a folder of choices in which a file says anything of Hydra itself, which can be had to call any function.

    Hydra calls what ``_target_`` names in its own configuration (callbacks, launchers), and so does Python's logging, which Hydra sets up.
    What is no YAML is passed over here: it cannot be chosen. What is too large to be looked at is refused.

    Raises:
        UserError: with the file and the line.
    """
    for path in _yaml_files(folder):
        if any(Path(part).stem == "hydra" for part in path.relative_to(folder).parts):  # a package can be named after its file
            raise _code(path, 1, "the name hydra")
        text = _text(path)
        try:
            node = _composed(path, text)
        except yaml.YAMLError:
            continue
        for number, line in enumerate(text.splitlines(), 1):  # Hydra reads @package out of any of the first comments
            if line.strip().startswith("#") and "@" in line and "hydra" in line:
                raise _code(path, number, line.strip("# "))
        for key, value in _pairs(node, set()):
            if key.value.startswith(_OF_HYDRA):
                raise _code(path, key.start_mark.line + 1, key.value)
            if key.value == "defaults":
                _check_defaults(path, value)


def refuse_overrides_of_code(words: Sequence[str]) -> None:
    """The same of overrides that stand in a file. Raises UserError."""
    for word in words:
        key = word.partition("=")[0]
        if "hydra" in key or any(part in key for part in _OF_HYDRA):
            raise UserError(f"{key}=… cannot stand in a file: settings of Hydra itself belong on the command line.")


def _check_defaults(path: Path, node: Any) -> None:
    """What a file chooses in turn: a list, which chooses nothing for Hydra and nothing from outside the folder."""
    if not isinstance(node, yaml.SequenceNode):
        raise UserError(f"{path}:{node.start_mark.line + 1}: defaults takes a list like [override /model: tiny].")
    for scalar in _scalars(node, set()):
        if "hydra" in scalar.value or ".." in scalar.value:
            raise _code(path, scalar.start_mark.line + 1, scalar.value)


def _code(path: Path, line: int, what: str) -> UserError:
    return UserError(
        f"{path}:{line}: {what!r} belongs to Hydra's own configuration, which can call any code: no file of choices may contain it."
    )


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(f"Cannot read {path}: it is larger than {LARGEST_FILE >> 20} MiB, and no configuration.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(f"Cannot read {path}: {' '.join(str(error).split())}.")


def _extent(node: Any, known: dict[int, float], open_: set[int]) -> float:
    """How many values a node stands for, those of aliases counted where they stand; infinity for one that holds itself."""
    if id(node) in open_:
        return float("inf")
    if id(node) not in known:
        open_.add(id(node))
        known[id(node)] = 1 + sum(_extent(child, known, open_) for child in _children(node))
        open_.remove(id(node))
    return known[id(node)]


def _children(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _pairs(node: Any, seen: set[int]) -> Iterator[tuple[yaml.ScalarNode, Any]]:
    """Every key of every mapping, with its value's node."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield from ((key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode))
    for child in _children(node):
        yield from _pairs(child, seen)


def _scalars(node: Any, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        yield node
    for child in _children(node):
        yield from _scalars(child, seen)


def _yaml_files(folder: Path) -> Iterator[Path]:
    """Those that Hydra would find, through links as well."""
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        yield from (Path(parent, name) for name in sorted(names) if name.endswith((".yaml", ".yml")))
