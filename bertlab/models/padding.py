"""Padding: flat tokens (T, …) laid out in a rectangle of sequences (B, S, …), and back.

The S slots of a row hold a sequence left- or right-aligned. Attention, the LSTM and the bag of words need the rectangle; everything
else works on the flat tokens. Attention parts it further, by heads: see ``attention_plans``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertlab.data.batches import Batch
from bertlab.models.ragged_rows import part_of_each_row


@dataclass
class PaddedLayout:
    """Where each of the T flat tokens lies in a rectangle of B sequences by S slots."""

    sequences: int  # B
    width: int  # S, the longest sequence
    lengths: Tensor  # (B,)
    slots: Tensor | None  # (T,) the slot of each token, in row order; None where every slot is taken: slot t is token t

    @classmethod
    def of(cls, batch: Batch, *, reverse: bool = False, right: bool = False) -> PaddedLayout:
        """The layout of ``batch``, its sequences in their order or each ``reverse``d, at the left end of a row or at the ``right``."""
        lengths = batch.offsets.diff()
        sequences, width = batch.sequences, batch.max_length
        full = batch.tokens.numel() == sequences * width
        if full and not reverse:
            return cls(sequences, width, lengths, None)
        row = part_of_each_row(lengths, batch.tokens.numel())
        column = lengths[row] - 1 - batch.positions if reverse else batch.positions
        if right:
            column = column + (width - lengths)[row]
        return cls(sequences, width, lengths, row * width + column)

    def pad(self, flat: Tensor) -> Tensor:
        """(T, W) → (B, S, W), zero where no token is."""
        padded = flat if self.slots is None else _Scatter.apply(flat, self.slots, self.sequences * self.width)
        return padded.view(self.sequences, self.width, -1)

    def unpad(self, padded: Tensor) -> Tensor:
        """(B, S, W) → (T, W)."""
        rows = padded.reshape(self.sequences * self.width, -1)
        return rows if self.slots is None else _Gather.apply(rows, self.slots)


class _Scatter(torch.autograd.Function):
    """Rows to distinct places of a zero matrix."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(places)
        return rows.new_zeros(count, rows.shape[1]).index_copy_(0, places, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gradient.index_select(0, places), None, None


class _Gather(torch.autograd.Function):
    """Rows from distinct places: unlike ``index_select``, its gradient need not add, only copy."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.count = rows.shape[0]
        return rows.index_select(0, places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.count, gradient.shape[1]).index_copy_(0, places, gradient), None
