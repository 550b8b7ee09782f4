"""What a run measures of itself: sums that grow on the device, the rows made of them, and the files of rows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertlab.files import naming

Row = dict[str, Any]

# What an objective counts in a micro-batch (``Outcome.sums``), then what an optimizer step adds.
COUNTED = ("language_loss", "correct", "predicted", "nsp_loss", "nsp_correct", "sequences", "opposite_loss", "opposite_correct")
OF_UPDATES = ("gradient_norm", "updates")


class Sums:
    """Running sums over micro-batches, held in one float64 vector on the device so that adding never waits for it."""

    def __init__(self, device: torch.device | str = "cpu", counted: tuple[str, ...] = COUNTED) -> None:
        self.counted = counted
        self.names = (*counted, *OF_UPDATES)
        self.values = torch.zeros(len(self.names), dtype=torch.float64, device=device)

    def add(self, sums: Mapping[str, Tensor]) -> None:
        """Add what was counted in one micro-batch; what was not is 0."""
        zero = self.values.new_zeros(())
        self.values[: len(self.counted)] += torch.stack([sums[name].detach().double() if name in sums else zero for name in self.counted])

    def add_update(self, gradient_norm: Tensor) -> None:
        """Count one optimizer step and the norm of its gradient."""
        self.values[-2:] += torch.stack([gradient_norm.detach().to(torch.float64), torch.ones_like(gradient_norm, dtype=torch.float64)])

    def take(self, world: int = 1) -> dict[str, float]:
        """The sums over all ranks since the last call, on the host; they start again from 0.

        Every rank counts every update and has the same norm, so these two are averaged where the others are added.
        """
        total = self.values.clone()
        if world > 1:
            torch.distributed.all_reduce(total)
            total[-2:] /= world
        self.values.zero_()
        return dict(zip(self.names, total.tolist(), strict=True))

    def restore(self, saved: Tensor, rank: int, world: int) -> None:
        """Go on from the sums (W, K) of as many ranks as there were; where that is another number, the first rank takes them all."""
        if len(saved) == world:
            self.values.copy_(saved[rank])
        elif rank == 0:
            self.values.copy_(saved.sum(0))
            self.values[-2:] *= world / len(saved)  # of which every rank had counted the same


def losses(sums: Mapping[str, float]) -> Row:
    """Means of sums: nats a predicted position, the share of right predictions; the same of sentence pairs and of a second direction.

    ``loss`` is what was minimised: the sum of the losses.
    """
    predicted = max(1.0, sums["predicted"])
    row: Row = {"language_loss": sums["language_loss"] / predicted, "accuracy": sums["correct"] / predicted}
    if sums["sequences"] > 0:
        row |= {"nsp_loss": sums["nsp_loss"] / sums["sequences"], "nsp_accuracy": sums["nsp_correct"] / sums["sequences"]}
    if sums["opposite_loss"] != 0:  # which holds of NaN too
        row |= {"opposite_loss": sums["opposite_loss"] / predicted, "opposite_accuracy": sums["opposite_correct"] / predicted}
    return {"loss": row["language_loss"] + row.get("nsp_loss", 0.0) + row.get("opposite_loss", 0.0), **row}


def perplexity(loss: float) -> float:
    """exp(loss), infinite where that is beyond a float."""
    return math.exp(loss) if loss < 700 else math.inf


class RowFile:
    """A file of one JSON object a line, in the order of their ``step``, that survives a kill at any moment."""

    def __init__(self, path: Path, keep_until: int) -> None:
        """Open for appending, with the rows past step ``keep_until`` (and a torn last line) cut off.

        A run that resumes at that step writes them anew, so the file ends as if it had never been interrupted.
        """
        self._path = path
        self._file = path.open("ab")
        self._file.truncate(_bytes_until(path, keep_until))

    def append(self, row: Row) -> None:
        """Add a row and hand it to the system. JSON has no word for a number that is infinite or none: it is null."""
        plain = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        with naming(self._path):
            self._file.write((json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n").encode())
            self._file.flush()

    def sync(self) -> None:
        """Flush to the disk: a checkpoint must not be newer than the rows before it."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush and close; the file is closed also where it cannot be flushed."""
        try:
            self.sync()
        finally:
            self._file.close()


def read_rows(path: Path) -> list[Row]:
    """The complete rows of a file; none where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _bytes_until(path: Path, step: int) -> int:
    """How many bytes the complete rows up to and including ``step`` take."""
    size = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            row = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            row = None
        if not isinstance(row, dict) or row.get("step", math.inf) > step:
            break
        size += len(line)
    return size
