"""Index arithmetic on sequences of unequal lengths that lie one after another."""

from __future__ import annotations

import numpy as np

from bertlab.arrays import Int64s


def ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """The integers of all ranges [start, start + length), one range after another: (sum of lengths,)."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    flat: Int64s = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return flat


def offsets_of(lengths: Int64s) -> Int64s:
    """(n + 1,) the starts of ranges of these lengths laid flat, and the total."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
