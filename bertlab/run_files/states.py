"""Saved states: whole or not there, recognisable when damaged, the last two kept.

A state's file is ``last-<step>-<sha256, first 16 digits>.ckpt``. It is written under a temporary name, flushed and renamed, and since its
digest is in the name, a file cut short or changed later is recognised and the one before it used. The damaged one is put aside as
``damaged-last-…``: under its own name it would count among the newest two. Weights that are parted among processes have files of their own
beside it (see ``parted_rows``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertlab.errors import UserError
from bertlab.launched import process_rank
from bertlab.run_files import parted_rows
from bertlab.run_files.folder import RunFolder
from bertlab.run_files.parted_rows import PARTS, are_whole, delete_parts, put_back
from bertlab.run_files.weight_files import read_weights

NAME = re.compile(r"last-(\d+)-([0-9a-f]{16})\.ckpt")
FORMAT = 1  # of a state; to be raised when an older one can no longer be gone on from

State = dict[str, Any]


def keep_newest(folder: Path, count: int) -> None:
    """Delete the states older than the newest ``count``."""
    states = _newest_first(folder)
    for path in states[count:]:
        path.unlink(missing_ok=True)
    delete_parts(folder, {_step_of(path) for path in states[:count]})


def load_newest(folder: Path, say: Callable[[str], None], *, put_aside: bool = False, in_memory: bool = True) -> State | None:
    """The newest state that is whole, on the CPU; None where there is none.

    ``say`` hears of a damaged one, from the first process of a run alone, and ``put_aside`` renames it: of several processes only the first
    should. Without ``in_memory`` parted tensors are left on the disk, as ``parted_rows.Rows``.

    Raises:
        UserError: the state was saved by a version of bertlab that writes it otherwise.
    """
    candidates = _newest_first(folder)
    for index, path in enumerate(candidates):
        try:
            if (state := _read_whole(path)) is not None:
                state = put_back(state, folder)
                return parted_rows.in_memory(state) if in_memory else state
        except FileNotFoundError:  # the first process has put it aside in this moment, or a training has deleted it for newer ones
            continue
        if process_rank() == 0:
            rest = "the one before it is used" if index + 1 < len(candidates) else "there is none before it: the run starts anew"
            say(f"The checkpoint {path} is damaged; {rest}.")
        if put_aside:
            path.rename(path.with_name(f"damaged-{path.name}"))
    return None


def weights_of(run: RunFolder, say: Callable[[str], None]) -> dict[str, Tensor]:
    """The final weights of a run, or those of its newest saved state, which ``say`` hears of.

    Raises:
        UserError: it has not saved any yet, or they are damaged.
    """
    if run.weights.is_file():
        return read_weights(run.weights)
    state = load_newest(run.checkpoints, say)
    if state is None:
        raise UserError(f"The run {run.path} has no weights yet: train it first, with the command that began it.")
    say(f"{run.name} is not finished: its state after step {state['step']:,} is used.")
    weights: dict[str, Tensor] = state["weights"]
    return weights


def _read_whole(path: Path) -> State | None:
    """The state in a file, with marks for what is parted; None where the file or one of its parts is damaged.

    Raises:
        FileNotFoundError: the file is gone.
        UserError: as ``load_newest``.
    """
    if not _is_whole(path):
        return None
    state = _of_this_format(dict(torch.load(path, map_location="cpu", weights_only=True)), path)
    return state if are_whole(path.parent, state.get(PARTS, ())) else None


def _of_this_format(state: State, path: Path) -> State:
    if state.get("format") != FORMAT:
        raise UserError(
            f"The checkpoint {path} was made by another version of bertlab: go on with that version, or delete {path.parent} to begin anew."
        )
    return state


def _newest_first(folder: Path) -> list[Path]:
    found = [(int(match[1]), path) for path in folder.glob("last-*.ckpt") if (match := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


def _step_of(path: Path) -> int:
    return int(path.name.split("-")[1])


def _is_whole(path: Path) -> bool:
    match = NAME.fullmatch(path.name)
    with path.open("rb") as file:
        return match is not None and hashlib.file_digest(file, "sha256").hexdigest().startswith(match[2])
