"""Which examples a step takes, and their inputs as tensors: nothing is shuffled, everything is computed from (seed, step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertlab.arrays import Int64s
from bertlab.data.assembly import share_of
from bertlab.data.batches import Batch
from bertlab.data.ragged import offsets_of, ranges
from bertlab.data.randomness import derive, permute
from bertlab.data.task_batch import TaskBatch
from bertlab.tasks.inputs import Inputs

BATCHES_SORTED_TOGETHER = 50  # a longer stretch makes batches more alike in length, a shorter one leaves more to chance which examples meet


class TaskBatches:
    """The examples of every step of a training: batch s is a function of (seed, s), whatever was asked for before, and by whichever rank.

    An epoch takes every example exactly once, in an order of its own; its last batch may be smaller.
    """

    def __init__(self, inputs: Inputs, batch: int, seed: int, group_by_length: bool = True) -> None:
        """``batch`` examples a step; ``group_by_length`` lets those meet that are alike in length, which spares attention's padding."""
        self._longest = longest_sequences(inputs)
        self._batch, self._seed, self._group_by_length = batch, seed, group_by_length
        self._latest: tuple[int, Int64s] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch, the smaller one included."""
        return -(-self._longest.size // self._batch)

    def at(self, step: int) -> Int64s:
        """The examples of the global batch of a step, counted from 0 over all epochs: (batch,), or fewer at the end of an epoch."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._latest is None or self._latest[0] != epoch:
            self._latest = epoch, self._order(epoch)
        return self._latest[1][place * self._batch : (place + 1) * self._batch]

    def _order(self, epoch: int) -> Int64s:
        """The examples of an epoch in the order in which they are taken: (E,)."""
        order = _permutation(self._longest.size, derive(self._seed, "examples", epoch))
        if not self._group_by_length:
            return order
        # The smaller batch is set apart before anything is sorted, else it would always hold the longest examples of its stretch.
        whole = order.size // self._batch
        grouped, rest = order[: whole * self._batch], order[whole * self._batch :]
        stretch = np.arange(grouped.size) // (BATCHES_SORTED_TOGETHER * self._batch)
        batches = grouped[np.lexsort((self._longest[grouped], stretch))].reshape(whole, self._batch)
        return np.concatenate([batches[_permutation(whole, derive(self._seed, "batches", epoch))].reshape(-1), rest])


def _permutation(size: int, key: np.uint64) -> Int64s:
    """The random permutation of range(``size``) that belongs to ``key``."""
    return permute(np.full(size, key), np.arange(size), np.full(size, size))


def longest_sequences(inputs: Inputs) -> Int64s:
    """(E,) tokens of the longest sequence of each example."""
    if not inputs.examples:
        return np.zeros(0, np.int64)
    longest: Int64s = np.maximum.reduceat(inputs.lengths, inputs.first_sequence[:-1])
    return longest


def step_share(inputs: Inputs, examples: Int64s, rank: int = 0, world: int = 1, micro: int | None = None) -> list[TaskBatch]:
    """The share of one rank in a step's global batch, as micro-batches of at most ``micro`` examples, as equal as can be.

    The shares of all ranks together are ``examples``, each once, and every micro-batch carries the denominator of the whole: so the sum of
    all gradients is that of one large batch. Where there are fewer examples than ranks, some ranks get an empty list.
    """
    largest = -(-examples.size // world)  # of any rank, so that all ranks have as many micro-batches wherever that is possible
    count = -(-largest // (micro or largest)) if largest else 0
    whole = count_of(inputs, examples)
    # Cut over all ranks at once: one rank with two micro-batches has the same as two with one.
    parts = [share_of(examples.size, rank * count + part, world * count) for part in range(count)]
    return [collate(inputs, examples[first:last], whole, first) for first, last in parts if first < last]


def evaluation_batches(inputs: Inputs, tokens_per_batch: int, rank: int = 0, world: int = 1) -> list[Int64s]:
    """The batches that one rank evaluates, as examples: over all ranks every example exactly once, the longest first.

    A batch holds at most ``tokens_per_batch`` tokens, or a single example. Which examples share one does not depend on the number of ranks.
    """
    order = np.argsort(-longest_sequences(inputs), kind="stable")
    ends = np.cumsum(inputs.tokens_per_example[order])
    cuts = [0]
    while cuts[-1] < order.size:
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        fitting = int(np.searchsorted(ends, before + tokens_per_batch, side="right"))
        cuts.append(max(fitting, cuts[-1] + 1))
    return [order[first:end] for first, end in list(pairwise(cuts))[rank::world]]


def count_of(inputs: Inputs, examples: Int64s | Sequence[int]) -> int:
    """What the loss of these examples is divided by: the number of examples; of tagging, of words; of span, of windows."""
    chosen = np.asarray(examples, np.int64)
    offsets = inputs.word_offsets
    if offsets is None:
        offsets = inputs.first_sequence if inputs.characters is not None else None
    return chosen.size if offsets is None else int((offsets[chosen + 1] - offsets[chosen]).sum())


def token_indices(inputs: Inputs, examples: Int64s | Sequence[int]) -> Int64s:
    """Where the tokens of these examples lie in ``inputs.tokens``, in the order in which ``collate`` lays them out."""
    chosen = np.asarray(examples, np.int64)
    edges = inputs.offsets[inputs.first_sequence]
    return ranges(edges[chosen], edges[chosen + 1] - edges[chosen])


def collate(inputs: Inputs, examples: Int64s | Sequence[int], count_in_step: int | None = None, place: int = 0) -> TaskBatch:
    """These examples as tensors; of a part of a step ``count_in_step`` is the denominator of the whole and ``place`` where it begins."""
    chosen = np.asarray(examples, np.int64)
    counts = inputs.first_sequence[chosen + 1] - inputs.first_sequence[chosen]
    sequences = ranges(inputs.first_sequence[chosen], counts)
    words = None if inputs.word_offsets is None else ranges(inputs.word_offsets[chosen], np.diff(inputs.word_offsets)[chosen])
    return TaskBatch(
        inputs=replace(_batch_of(inputs, sequences), place=place),
        examples=torch.from_numpy(chosen.copy()),
        sequences_per_example=torch.from_numpy(counts),
        labels=_taken(inputs.labels, chosen),
        word_tokens=None if words is None else torch.from_numpy(_local_words(inputs, chosen, words)),
        words_per_example=None if inputs.word_offsets is None else _taken(np.diff(inputs.word_offsets), chosen),
        max_words=0 if inputs.word_offsets is None else int(np.diff(inputs.word_offsets)[chosen].max(initial=0)),
        tags=_taken(inputs.tags, words),
        starts=_taken(inputs.starts, sequences),
        ends=_taken(inputs.ends, sequences),
        count_in_step=count_of(inputs, chosen) if count_in_step is None else count_in_step,
    )


def _batch_of(inputs: Inputs, sequences: Int64s) -> Batch:
    """These sequences, with nothing to predict."""
    begins = inputs.offsets[sequences]
    lengths = inputs.offsets[sequences + 1] - begins
    places = ranges(np.zeros_like(lengths), lengths)
    nothing = torch.zeros(0, dtype=torch.int64)
    return Batch(
        tokens=torch.from_numpy(inputs.tokens[ranges(begins, lengths)].astype(np.int64)),
        segments=torch.from_numpy((places >= np.repeat(inputs.boundaries[sequences], lengths)).astype(np.int64)),
        positions=torch.from_numpy(places),
        offsets=torch.from_numpy(offsets_of(lengths)),
        predicted=nothing,
        targets=nothing.clone(),
        max_length=int(lengths.max(initial=0)),
        sequences_in_step=sequences.size,
    )


def _local_words(inputs: Inputs, examples: Int64s, words: Int64s) -> Int64s:
    """Where the first sub-tokens of ``words``, which are those of ``examples``, lie in the batch's tokens: (W,)."""
    assert inputs.word_tokens is not None
    assert inputs.word_offsets is not None
    edges = inputs.offsets[inputs.first_sequence]
    begins = edges[examples]
    shifts = offsets_of(edges[examples + 1] - begins)[:-1] - begins  # an example's tokens stay together: all move as far
    local: Int64s = inputs.word_tokens[words] + np.repeat(shifts, np.diff(inputs.word_offsets)[examples])
    return local


def _taken(values: NDArray[np.generic] | None, index: Int64s | None) -> Tensor | None:
    """``values[index]`` as a tensor."""
    return None if values is None or index is None else torch.from_numpy(values[index])
