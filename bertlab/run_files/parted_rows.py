"""The tensors of a saved state that were parted among the processes of a run: their rows on the disk.

Such a state is the file that every state is (see ``states``), with a mark in the place of each parted tensor, and a file of rows from
each process beside it: ``part-<step>-<rank>-of-<world>-<sha256, first 16 digits>.safetensors``. The state names its parts, and its own name
is a hash, so a damaged part is recognised. Rows are found by their numbers: any number of processes goes on from the state, also one, and
processes that do not part their weights.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as serialised
from torch import Tensor
from torch.distributed.tensor import DTensor

from bertlab.files import write_atomically

NAME = re.compile(r"part-(\d+)-(\d+)-of-(\d+)-([0-9a-f]{16})\.safetensors")
PARTS = "parts"  # in a state: the names of its files of rows, in the order of the processes
_MARK = "parted"


@dataclass(frozen=True)
class Rows:
    """A tensor whose rows lie in several files, one after the other; nothing is read but what is asked for."""

    name: str
    files: tuple[Path, ...]
    count: int

    def __len__(self) -> int:
        return self.count

    def dim(self) -> int:
        """At least 1: a number has no rows."""
        return 1

    def between(self, first: int, end: int) -> Tensor:
        """The rows from ``first`` to ``end``."""
        found, begin = [], 0
        for file in self.files:
            with safe_open(file, framework="pt") as opened:
                piece = opened.get_slice(self.name)
                size = piece.get_shape()[0]
                found.append(piece[max(first - begin, 0) : max(min(end - begin, size), 0)] if size else opened.get_tensor(self.name))
                begin += size
        return torch.cat(found)


def take_out(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The state with marks for its parted tensors, and of these the rows of this process, by the names in the marks."""
    rows: dict[str, Tensor] = {}

    def mark(value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        name = f"{len(rows):06d}"
        rows[name] = value.to_local().detach().cpu().contiguous()
        return {_MARK: name, "rows": len(value)}

    return _changed(state, mark), rows


def write_part(folder: Path, step: int, rank: int, world: int, rows: dict[str, Tensor]) -> str:
    """Write the rows of this process; returns the file's name."""
    content = serialised(rows)
    name = f"part-{step:09d}-{rank:05d}-of-{world:05d}-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    write_atomically(folder / name, content)
    return name


def are_whole(folder: Path, names: Sequence[str]) -> bool:
    """Whether the parts of a state are there, as they were written."""
    for name in names:
        match, path = NAME.fullmatch(name), folder / name
        if match is None or not path.is_file():
            return False
        with path.open("rb") as file:
            if not hashlib.file_digest(file, "sha256").hexdigest().startswith(match[4]):
                return False
    return True


def put_back(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The state with ``Rows`` in the place of the marks."""
    files = tuple(folder / name for name in state.get(PARTS, ()))
    found: dict[str, Any] = _changed(state, lambda value: Rows(value[_MARK], files, value["rows"]) if _is_mark(value) else value)
    return found


def in_memory(state: dict[str, Any]) -> dict[str, Any]:
    """The state with whole tensors in the place of ``Rows``."""
    found: dict[str, Any] = _changed(state, lambda value: value.between(0, len(value)) if isinstance(value, Rows) else value)
    return found


def delete_parts(folder: Path, kept: set[int]) -> None:
    """Delete the parts of states of other steps."""
    for path in folder.glob("part-*.safetensors"):
        if (match := NAME.fullmatch(path.name)) and int(match[1]) not in kept:
            path.unlink(missing_ok=True)


def _is_mark(value: Any) -> bool:
    return isinstance(value, dict) and _MARK in value


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """``value`` with every leaf of its dictionaries, lists and tuples changed."""
    if isinstance(value, dict) and not _is_mark(value):
        return {key: _changed(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_changed(each, change) for each in value)
    return change(value)
