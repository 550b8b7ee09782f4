"""One vector for a sequence, out of the states of its tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from bertlab.models.ragged_rows import RaggedRows


def pooled_width(width: int, pooling: str, directions: int) -> int:
    """How wide what ``pool`` makes of states of ``width`` is."""
    return 2 * width if pooling == "mean_max" or (pooling == "ends" and directions == 0) else width


def pool(states: Tensor, offsets: Tensor, pooling: str, directions: int) -> Tensor:
    """One vector a sequence: (T, W) → (B, ``pooled_width``). The states of sequence b are those from ``offsets[b]`` to ``offsets[b + 1]``.

    first, last: that token's state. ends: where the states are ``directions`` pairs of halves, side by side, that read rightward and
    leftward, the last token's of the one and the first token's of the other, each of which has read everything; where they are no such
    pairs (``directions`` 0), the first token's state beside the last one's. mean, max: over the sequence's tokens; mean_max: both, side
    by side.
    """
    first, last = offsets[:-1], offsets[1:] - 1
    if pooling in ("first", "last"):
        return states.index_select(0, first if pooling == "first" else last)
    if pooling == "ends":
        begin, end = states.index_select(0, first), states.index_select(0, last)
        if directions == 0:
            return torch.cat((begin, end), -1)
        begin, end = (each.view(len(each), directions, 2, -1) for each in (begin, end))
        return torch.stack((end[:, :, 0], begin[:, :, 1]), 2).flatten(1)
    rows = RaggedRows.of(offsets, len(states))
    parts = {"mean": [rows.mean], "max": [rows.max], "mean_max": [rows.mean, rows.max]}[pooling]
    return torch.cat([part(states) for part in parts], -1)


def tokens_read(offsets: Tensor, pooling: str) -> tuple[Tensor, Tensor]:
    """The tokens whose states ``pool`` reads, sequence after sequence, and the offsets of the sequences among those alone.

    Of pooling by first, last or ends: by these offsets ``pool`` makes of their states what it makes of all.
    """
    first, last = offsets[:-1], offsets[1:] - 1
    tokens = {"first": first, "last": last, "ends": torch.stack((first, last), 1).flatten()}[pooling]
    each = 2 if pooling == "ends" else 1
    return tokens, torch.arange(0, len(tokens) + 1, each, device=offsets.device)
