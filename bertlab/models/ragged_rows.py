"""Sums, means, maxima and softmaxes over parts of unequal lengths: rows of a tensor that lie one after another, without a loop over them.

On a CPU the results are deterministic: each part is added up in the order of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from bertlab.models.precision import at_least_fp32


@dataclass(frozen=True)
class RaggedRows:
    """n parts that cover R rows; none is empty, unless a function says that it may be."""

    offsets: Tensor  # (n + 1,) int64, where each begins, and R
    of_row: Tensor  # (R,) int64, the part of each row

    @classmethod
    def of(cls, offsets: Tensor, rows: int) -> Self:
        """The parts that begin at ``offsets`` (n + 1,) of ``rows`` rows, a number known without asking the device."""
        return cls(offsets, part_of_each_row(offsets.diff(), rows))

    @classmethod
    def of_lengths(cls, lengths: Tensor, rows: int) -> Self:
        """The same from the parts' ``lengths`` (n,)."""
        return cls.of(offsets_of(lengths), rows)

    @property
    def count(self) -> int:
        """The number n of parts."""
        return self.offsets.numel() - 1

    def sum(self, x: Tensor) -> Tensor:
        """(R, …) → (n, …); an empty part's sum is 0."""
        return x.new_zeros(self.count, *x.shape[1:]).index_add(0, self.of_row, x)

    def mean(self, x: Tensor) -> Tensor:
        """(R, …) → (n, …), in at least fp32; an empty part's mean is 0."""
        lengths = self.offsets.diff().clamp(min=1).view(-1, *[1] * (x.dim() - 1))
        return self.sum(at_least_fp32(x)) / lengths

    def max(self, x: Tensor) -> Tensor:
        """(R, …) → (n, …). Where several rows have the maximum the gradient is divided among them."""
        return torch.segment_reduce(x, "max", offsets=self.offsets, axis=0)

    def log_softmax(self, x: Tensor) -> Tensor:
        """The logarithm of each part's softmax, (R, …) → (R, …)."""
        below = x - self.max(x.detach()).index_select(0, self.of_row)  # relative to the part's maximum, for less rounding
        return below - self.sum(below.exp()).log().index_select(0, self.of_row)

    def argmax(self, x: Tensor) -> Tensor:
        """The place within each part, from 0, of its first highest element: (R,) → (n,)."""
        row = torch.arange(x.numel(), device=x.device)
        highest = x == self.max(x).index_select(0, self.of_row)
        first = torch.full((self.count,), x.numel(), device=x.device).scatter_reduce(
            0, self.of_row, torch.where(highest, row, x.numel()), "amin"
        )
        return first - self.offsets[:-1]


def part_of_each_row(lengths: Tensor, rows: int) -> Tensor:
    """(R,) the number of the part that each of R ``rows`` belongs to, of parts of these ``lengths`` (n,); the device is not asked."""
    return torch.repeat_interleave(torch.arange(lengths.numel(), device=lengths.device), lengths, output_size=rows)


def offsets_of(lengths: Tensor) -> Tensor:
    """(n + 1,) where parts of these ``lengths`` (n,) begin, and their sum."""
    return torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))
