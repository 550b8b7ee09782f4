"""The feature-based approach (Devlin et al. 2018, section 5.3): states of a frozen model, made once and kept on disk.

kind                    states read
embeddings              the embeddings' output, layer 0
second_to_last          layer L - 1: of a model with one layer, the embeddings
last                    layer L
weighted_sum_last_4     layers L - 3 to L, so of a model with four layers or more; a learned weighted sum
concat_last_4           the same, side by side
weighted_sum_all        layers 1 to L; a learned weighted sum. As in the paper, the embeddings are no layer
concat_all              the same, side by side
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertlab.arrays import Int64s
from bertlab.data.batches import Batch
from bertlab.data.made_once import to_be_made
from bertlab.data.mapping import let_go
from bertlab.data.task_batch import TaskBatch
from bertlab.errors import UserError, unknown
from bertlab.files import written_atomically
from bertlab.messages import say
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.models.precision import at_least_fp32
from bertlab.models.task_checks import FEATURES, check_depth, layers_of

FORMAT = 1  # of the files; a change of what the numbers mean needs a new one


def is_weighted(kind: str) -> bool:
    """Whether features of this ``kind`` are a learned sum over layers."""
    return kind.startswith("weighted_sum")


def layers_read(kind: str, architecture: Architecture) -> range:
    """Which layers' states features of this ``kind`` are made of; 0 is the embeddings' output."""
    top = layers_of(architecture)
    layers = {
        "embeddings": range(1),
        "second_to_last": range(top - 1, top),
        "last": range(top, top + 1),
        "weighted_sum_last_4": range(top - 3, top + 1),
        "concat_last_4": range(top - 3, top + 1),
        "weighted_sum_all": range(1, top + 1),
        "concat_all": range(1, top + 1),
    }
    if kind not in layers:
        raise unknown("kind of features", kind, [each for each in FEATURES if each != "none"])
    check_depth(kind, architecture)
    return layers[kind]


def frozen_states(bert: Bert, batch: Batch, kind: str, rows: Tensor | None = None) -> Tensor:
    """The states (R, n, H) that features of this ``kind`` are made of, without gradient, of all tokens or of ``rows``; in at least fp32.

    ``bert`` should be in evaluation mode. Autocast does not reach it: kept states are made outside of it, and those that are made on the
    spot, as for a submission, have to be the same.
    """
    with torch.no_grad(), torch.autocast(batch.tokens.device.type, enabled=False):
        states = bert.states(batch)
        chosen = [states[layer] if rows is None else states[layer].index_select(0, rows) for layer in layers_read(kind, bert.architecture)]
        return at_least_fp32(torch.stack(chosen, 1))


class FeatureSource:
    """Frozen states of a whole split, read from disk as they are needed."""

    def __init__(self, path: Path, row_offsets: Int64s) -> None:
        """``row_offsets`` (E + 1,): where the rows of each example begin in the file."""
        self.path = path
        self.states: NDArray[np.float32] = _mapped(path, int(row_offsets[-1]))  # (R, n, H)
        self._offsets = row_offsets

    def attach(self, batch: TaskBatch) -> TaskBatch:
        """The batch with the states of its examples, so that the model need not run for them."""
        return replace(batch, features=self.rows(batch.examples))

    def rows(self, examples: Tensor) -> Tensor:
        """The states (R', n, H) of ``examples``, one after another."""
        numbers = examples.tolist()
        parts = [self.states[self._offsets[each] : self._offsets[each + 1]] for each in numbers]
        copied = np.concatenate(parts) if parts else np.empty((0, *self.states.shape[1:]), np.float32)
        let_go(self.states)
        return torch.from_numpy(copied)


def kept_features(
    folder: Path,
    made_from: Mapping[str, object],
    shape: tuple[int, int, int],
    row_offsets: Int64s,
    batches: Callable[[], Iterable[TaskBatch]],
    states_of: Callable[[TaskBatch], Tensor],
    advance: Callable[[int], None] = lambda rows: None,
) -> FeatureSource:
    """The features of a split from ``folder``, made first where they are not there yet; of several processes one makes them.

    Args:
        folder: Where they are kept, under a name that is the hash of ``made_from``.
        made_from: All that can change a number, as plain values: see ``TaskModel.kept_features``.
        shape: (R, n, H) in all.
        row_offsets: (E + 1,), where each example's rows begin: of tagging its words, else its tokens.
        batches: Gives batches that hold every example of the split exactly once, in any order.
        states_of: The states (R', n, H) of a batch, see ``TaskModel.frozen_states``.
        advance: Told how many rows were made, again and again.

    Raises:
        UserError: there is not enough room on the disk.
    """
    described = json.dumps({"format": FORMAT, "shape": shape, **made_from}, sort_keys=True)
    path = folder / f"{hashlib.blake2b(described.encode(), digest_size=16).hexdigest()}.npy"
    with to_be_made(path, say) as missing:
        if missing:
            _check_room(path, shape)
            with written_atomically(path) as file:
                _write(file, shape, row_offsets, batches(), states_of, advance)
    return FeatureSource(path, row_offsets)


def _mapped(path: Path, rows: int) -> NDArray[np.float32]:
    """The array of a .npy file; nothing of it is read. UserError where it is another one, or not as long as it says."""
    try:
        found: NDArray[np.float32] = np.load(path, mmap_mode="r")
        if found.dtype != np.dtype("<f4") or found.ndim != 3 or len(found) != rows:
            raise ValueError(f"it holds {found.shape} of {found.dtype}")
    except (ValueError, OverflowError, EOFError, AttributeError, TypeError) as error:
        raise UserError(f"The features {path} are damaged ({error}): delete that file, and they are made anew.") from error
    return found


def _check_room(path: Path, shape: tuple[int, int, int]) -> None:
    needed, free = 4 * int(np.prod(shape)), shutil.disk_usage(path.parent).free
    if needed > free:
        raise UserError(
            f"The features take {needed / 1e9:.1f} GB and {path.parent} has room for {free / 1e9:.1f} GB: set paths.cache to a folder on a "
            "larger disk, or choose features of fewer layers."
        )


def _write(
    file: IO[bytes],
    shape: tuple[int, int, int],
    row_offsets: Int64s,
    batches: Iterable[TaskBatch],
    states_of: Callable[[TaskBatch], Tensor],
    advance: Callable[[int], None],
) -> None:
    """A .npy file, example by example at its place: no more than a batch's states is in memory."""
    np.lib.format.write_array_header_2_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    begin, size, written = file.tell(), 4 * shape[1] * shape[2], 0
    for batch in batches:
        states, done = states_of(batch).cpu().numpy().astype("<f4", copy=False), 0
        for example in batch.examples.tolist():
            first, end = row_offsets[example : example + 2].tolist()
            file.seek(begin + first * size)
            file.write(states[done : done + end - first].tobytes())
            done += end - first
        if done != len(states):
            raise ValueError(f"a batch has {len(states)} rows, its examples have {done}")
        written += done
        advance(done)
    if written != shape[0]:
        raise ValueError(f"the batches held {written} of the split's {shape[0]} rows")
