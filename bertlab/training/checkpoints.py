"""Saved states: whole or not there, recognisable when damaged, the last two kept.

A state's file is ``last-<step>-<sha256, first 16 digits>.ckpt``. It is written under a temporary name, flushed and renamed, and since its
digest is in the name, a file cut short or changed later is recognised and the one before it used. The damaged one is put aside as
``damaged-last-…``: under its own name it would count among the newest two. Weights that are parted among processes have files of their own
beside it (see ``parted``).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import torch
from safetensors.torch import save as serialised
from torch import Tensor

from bertlab.errors import UserError
from bertlab.files import naming, sync_folder, write_atomically
from bertlab.training import parted
from bertlab.training.launched import process_rank
from bertlab.training.ranks import Ranks

NAME = re.compile(r"last-(\d+)-([0-9a-f]{16})\.ckpt")
KEPT = 2
WEIGHTS_HASH = "sha256"  # in the metadata of a file of weights
FORMAT = 1  # of a state; to be raised when an older one can no longer be gone on from

State = dict[str, Any]


class _HashingFile:
    """Hashes what is written through it, so that the file need not be read again."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        """``path``: what an error of writing is about; PyTorch makes an error of its own of it, and it can only be told here."""
        self._file, self._path = file, path
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        with naming(self._path):
            return self._file.write(data)

    def flush(self) -> None:
        with naming(self._path):
            self._file.flush()


def save_state(folder: Path, step: int, state: State, ranks: Ranks | None = None) -> Path | None:
    """Save the complete ``state`` (of this ``FORMAT``) after ``step`` updates and delete all but the newest two; returns the file.

    All ``ranks`` call it, and on all but the first it returns None; what is not parted is written once the rows of what is are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ranks = ranks or Ranks(0, 1)
    state, rows = parted.take_out(state)
    if rows:
        state[parted.PARTS] = ranks.collect(parted.write_part(folder, step, ranks.rank, ranks.world, rows))
    if not ranks.first:
        return None
    path = _write(folder, step, state)
    keep_newest(folder, KEPT)
    return path


def _write(folder: Path, step: int, state: State) -> Path:
    temporary = folder / ".last.part"
    try:
        with naming(folder), temporary.open("wb") as file:
            hashing = _HashingFile(file, folder)
            torch.save({"format": FORMAT, **state}, hashing)  # type: ignore[arg-type]  # it writes and flushes: all that is asked of it
            file.flush()
            os.fsync(file.fileno())
    except BaseException:  # a full disk most often: what could not be written whole must not fill the rest of it
        temporary.unlink(missing_ok=True)
        raise
    path = folder / f"last-{step:09d}-{hashing.digest.hexdigest()[:16]}.ckpt"
    os.replace(temporary, path)
    sync_folder(folder)
    return path


def keep_newest(folder: Path, count: int) -> None:
    """Delete the states older than the newest ``count``."""
    states = _newest_first(folder)
    for path in states[count:]:
        path.unlink(missing_ok=True)
    parted.delete_parts(folder, {_step_of(path) for path in states[:count]})


def load_newest(folder: Path, say: Callable[[str], None], *, put_aside: bool = False, in_memory: bool = True) -> State | None:
    """The newest state that is whole, on the CPU; None where there is none.

    ``say`` hears of a damaged one, from the first process of a run alone, and ``put_aside`` renames it: of several processes only the first
    should. Without ``in_memory`` parted tensors are left on the disk, as ``parted.Rows``.

    Raises:
        UserError: the state was saved by a version of bertlab that writes it otherwise.
    """
    candidates = _newest_first(folder)
    for index, path in enumerate(candidates):
        try:
            if (state := _read_whole(path)) is not None:
                state = parted.put_back(state, folder)
                return parted.in_memory(state) if in_memory else state
        except FileNotFoundError:  # the first process has put it aside in this moment, or a training has deleted it for newer ones
            continue
        if process_rank() == 0:
            rest = "the one before it is used" if index + 1 < len(candidates) else "there is none before it: the run starts anew"
            say(f"The checkpoint {path} is damaged; {rest}.")
        if put_aside:
            path.rename(path.with_name(f"damaged-{path.name}"))
    return None


def _read_whole(path: Path) -> State | None:
    """The state in a file, with marks for what is parted; None where the file or one of its parts is damaged.

    Raises:
        FileNotFoundError: the file is gone.
        UserError: as ``load_newest``.
    """
    if not _is_whole(path):
        return None
    state = _of_this_format(dict(torch.load(path, map_location="cpu", weights_only=True)), path)
    return state if parted.are_whole(path.parent, state.get(parted.PARTS, ())) else None


def _of_this_format(state: State, path: Path) -> State:
    if state.get("format") != FORMAT:
        raise UserError(
            f"The checkpoint {path} was made by another version of bertlab: go on with that version, or delete {path.parent} to begin anew."
        )
    return state


def save_weights(folder: Path, step: int, weights: dict[str, Tensor]) -> Path:
    """Keep the weights of one step as ``step-<n>.safetensors``; returns the file."""
    path = folder / f"step-{step:09d}.safetensors"
    write_weights(path, weights)
    return path


def write_weights(path: Path, weights: dict[str, Tensor]) -> None:
    """Write a safetensors file atomically, with a hash of its tensors; its bytes depend on the weights alone."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_atomically(path, serialised(plain, metadata={WEIGHTS_HASH: hash_of_weights(plain)}))


def hash_of_weights(weights: Mapping[str, Tensor]) -> str:
    """A hash of names, types, shapes and numbers, of tensors that are contiguous and on the CPU."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _newest_first(folder: Path) -> list[Path]:
    found = [(int(match[1]), path) for path in folder.glob("last-*.ckpt") if (match := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


def _step_of(path: Path) -> int:
    return int(path.name.split("-")[1])


def _is_whole(path: Path) -> bool:
    match = NAME.fullmatch(path.name)
    with path.open("rb") as file:
        return match is not None and hashlib.file_digest(file, "sha256").hexdigest().startswith(match[2])
