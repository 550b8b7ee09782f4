"""What a task model is fed: examples laid flat, with what is to be predicted of them beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from bertlab.data.batches import Batch


@dataclass
class TaskBatch:
    """What a task model is fed: E examples, laid flat as ``inputs``, with their targets."""

    inputs: Batch  # predicted and targets are empty
    examples: Tensor  # (E,) int64, which examples of the split these are
    sequences_per_example: Tensor  # (E,) int64: 1, or the number of choices or windows
    labels: Tensor | None = None  # (E,) int64 or float32
    word_tokens: Tensor | None = None  # (W,) flat indices into the batch's tokens
    words_per_example: Tensor | None = None  # (E,)
    tags: Tensor | None = None  # (W,)
    starts: Tensor | None = None  # (S,) place in the sequence
    ends: Tensor | None = None  # (S,)
    # (R, n, H) float32, frozen states kept from before, n of a row: of tagging a row a word, else a row a token
    features: Tensor | None = None
    # The denominators of the loss over the whole global batch of the step: examples; of tagging, words; of span, windows.
    count_in_step: int = 0

    def to(self, device: Any, non_blocking: bool = False) -> TaskBatch:
        """The same batch on ``device``."""
        raise NotImplementedError
