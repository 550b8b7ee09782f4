"""What a task model is fed: examples laid flat, with what is to be predicted of them beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from bertlab.data.batches import Batch


@dataclass
class TaskBatch:
    """What a task model is fed: E examples, laid flat as ``inputs``, with their targets."""

    inputs: Batch  # predicted and targets are empty
    examples: Tensor  # (E,) int64, which examples of the split these are
    sequences_per_example: Tensor  # (E,) int64: 1, or the number of choices or windows, or of the pieces of a long sentence to tag
    labels: Tensor | None = None  # (E,) int64 or float32
    word_tokens: Tensor | None = None  # (W,) flat indices into the batch's tokens, ascending, of the words' first sub-tokens
    words_per_example: Tensor | None = None  # (E,)
    max_words: int = 0  # the most words of an example, known without asking the device; 0: not told
    tags: Tensor | None = None  # (W,)
    starts: Tensor | None = None  # (S,) place in the sequence
    ends: Tensor | None = None  # (S,)
    # (R, n, H) float32, frozen states kept from before, n of a row: of tagging a row a word, else a row a token
    features: Tensor | None = None
    # The denominators of the loss over the whole global batch of the step: examples; of tagging, words; of span, windows.
    count_in_step: int = 0

    @property
    def place(self) -> int:
        """Of its first example in the global batch: noise is drawn by it."""
        return self.inputs.place

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on ``device``."""
        return replace(
            self._with_each(lambda tensor: tensor.to(device, non_blocking=non_blocking)), inputs=self.inputs.to(device, non_blocking)
        )

    def pin_memory(self) -> Self:
        """The same batch in page-locked memory, so that copies to a GPU overlap with its work."""
        return replace(self._with_each(Tensor.pin_memory), inputs=self.inputs.pin_memory())

    def _with_each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """A copy with ``change`` applied to every tensor beside the inputs."""
        changed: dict[str, Any] = {f.name: change(v) for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)}
        return replace(self, **changed)
