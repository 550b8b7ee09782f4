"""Saving states and weights while a run trains. What a state's file is, and how it is read, is told by ``run_files.states``."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from bertlab.files import naming, sync_folder
from bertlab.run_files.parted_rows import PARTS, take_out, write_part
from bertlab.run_files.states import FORMAT, State, keep_newest
from bertlab.run_files.weight_files import write_weights
from bertlab.training.ranks import Ranks

KEPT = 2


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
    state, rows = take_out(state)
    if rows:
        state[PARTS] = ranks.collect(write_part(folder, step, ranks.rank, ranks.world, rows))
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


def save_weights(folder: Path, step: int, weights: dict[str, Tensor]) -> Path:
    """Keep the weights of one step as ``step-<n>.safetensors``; returns the file."""
    path = folder / f"step-{step:09d}.safetensors"
    write_weights(path, weights)
    return path
