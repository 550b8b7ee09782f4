"""What the model is fed: the real tokens of a batch laid flat, with the lengths of its sequences beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass
class Batch:
    """B sequences with T tokens in all, none of them padding; P of the positions are predicted.

    The order is that of the sequences: the tokens of sequence b are ``tokens[offsets[b]:offsets[b + 1]]``.
    """

    tokens: Tensor  # (T,) int64, the input ids, corrupted where masking did so
    segments: Tensor  # (T,) int64, 0 in [CLS] A [SEP], 1 in B [SEP]
    positions: Tensor  # (T,) int64, the place within the sequence, from 0
    offsets: Tensor  # (B + 1,) int64, starts of the sequences in the flat tokens, and T
    predicted: Tensor  # (P,) int64, flat indices whose token is predicted, ascending
    targets: Tensor  # (P,) int64, the original ids there (masked LM), the following ids (left-to-right LM) or those before (right-to-left)
    next_sentence: Tensor | None = None  # (B,) int64, 0: B follows A (BERT's isNext), 1: B is from another document
    zeroed: Tensor | None = None  # (Z,) int64, flat indices whose embedding is set to zero
    noised: Tensor | None = None  # (N,) int64, flat indices whose embedding gets Gaussian noise
    max_length: int = 0  # the longest of the B sequences, known without asking the device
    # The denominators of the loss: counts over the whole global batch of the step, not over this piece of it.
    predicted_in_step: int = 0
    sequences_in_step: int = 0
    place: int = 0  # of its first sequence in the global batch; of a validation batch its number. Noise is drawn by it
    ordinary_only: bool = False  # every target is an ordinary word, which has a neighbour on either side
    counts: bool = True  # False: it only keeps this rank in step with the others, which have one batch more

    @property
    def sequences(self) -> int:
        """B, the number of sequences."""
        return self.offsets.numel() - 1

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on ``device``."""
        return self._with_each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same batch in page-locked memory, so that copies to a GPU overlap with its work."""
        return self._with_each(Tensor.pin_memory)

    def _with_each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """A copy with ``change`` applied to every tensor."""
        changed: dict[str, Any] = {f.name: change(v) for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)}
        return replace(self, **changed)


@dataclass
class StepBatch:
    """The share of one rank in the global batch of one optimizer step, as micro-batches whose gradients are summed."""

    step: int
    length: int  # the stage's sequence length
    micro_batches: list[Batch]
    positions_in_step: int  # sequences * length of the global batch: what ``budget.tokens`` counts
    tokens_in_step: int  # real tokens of the global batch

    def pin_memory(self) -> Self:
        """The same with every micro-batch in page-locked memory."""
        return replace(self, micro_batches=[batch.pin_memory() for batch in self.micro_batches])
