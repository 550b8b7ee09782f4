"""Which sequence of which document stands at which place of an endless stream: computed for any place, never listed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertlab.arrays import Int64s
from bertlab.data.ragged import offsets_of
from bertlab.data.randomness import mix, permute


@dataclass(frozen=True)
class Places:
    """Where n places of the stream lead; all (n,) int64."""

    rows: Int64s  # the document, as a row of the sampled documents
    chunks: Int64s  # its chunk, from 0
    passes: Int64s  # how often all of the document's source had been used before


class EpochOrder:
    """The order in which the chunks of weighted sources come, epoch after epoch.

    An epoch has round(weight * N) slots for a source with N chunks, and every epoch mixes the slots of all sources by a random
    permutation of its own. The slots of a source take its chunks one after another, pass after pass, where the last epoch left
    off; with a weight that is no integer an epoch ends within a pass, so then each pass has a random order, lest the documents at
    a source's beginning be seen more often.
    """

    def __init__(self, chunks: Int64s, source_rows: list[tuple[int, int]], weights: list[float], key: np.uint64) -> None:
        """``chunks``: (D,) of each document; ``source_rows``: the contiguous range of documents of each source."""
        self._first_chunks = offsets_of(chunks)  # (D + 1,)
        used = [(first, end, weight) for (first, end), weight in zip(source_rows, weights, strict=True) if self._count(first, end)]
        self._source_starts = np.array([self._first_chunks[first] for first, _, _ in used], np.int64)  # (C,)
        self._source_chunks = np.array([self._count(first, end) for first, end, _ in used], np.int64)
        slots = [max(1, round(weight * self._count(first, end))) for first, end, weight in used]
        self._slots = np.array(slots, np.int64)
        self._slot_edges = offsets_of(self._slots)  # (C + 1,)
        self._shuffles_passes = bool((self._slots % self._source_chunks).any())
        self._key = key
        self.length = int(self._slot_edges[-1])  # places in an epoch
        self.chunks = int(self._first_chunks[-1])  # different chunks in a pass through every document

    def _count(self, first: int, end: int) -> int:
        return int(self._first_chunks[end] - self._first_chunks[first])

    def locate(self, places: Int64s) -> Places:
        """The chunks at these places of the stream."""
        epoch, place = np.divmod(places, self.length)
        slot = permute(mix(self._key, epoch), place, np.broadcast_to(np.int64(self.length), place.shape))
        source = np.searchsorted(self._slot_edges, slot, side="right") - 1
        use = epoch * self._slots[source] + slot - self._slot_edges[source]
        passes, chunk = np.divmod(use, self._source_chunks[source])
        if self._shuffles_passes:
            pass_keys = mix(mix(~self._key, source), passes)
            chunk = permute(pass_keys, chunk, self._source_chunks[source])
        rows, within = self.rows_of(self._source_starts[source] + chunk)
        return Places(rows, within, passes)

    def rows_of(self, chunks: Int64s) -> tuple[Int64s, Int64s]:
        """The document (its row) that has each of these of all ``chunks``, and the chunk's number within it."""
        rows = np.searchsorted(self._first_chunks, chunks, side="right") - 1
        return rows, chunks - self._first_chunks[rows]
