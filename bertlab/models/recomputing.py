"""Activation checkpointing (Chen et al. 2016): of a layer only what goes in is kept, and the backward pass computes the rest once more.

The second time has to give the same numbers: dropout draws the same noise, and batch normalisation counts a batch once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertlab.models.dropout import noise_from, noise_state
from bertlab.models.norms import not_counted


def through(layer: nn.Module, recompute: bool, *arguments: Any) -> Tensor:
    """What ``layer`` makes of its ``arguments``; in training with ``recompute`` nothing inside it is kept."""
    if not (recompute and layer.training and torch.is_grad_enabled()):
        return layer(*arguments)
    return checkpoint(layer, *arguments, use_reentrant=False, context_fn=_the_same_twice)


def _the_same_twice() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """What is around the first computation, and around the second."""
    begun: list[Any] = []

    @contextmanager
    def first() -> Iterator[None]:
        begun.append(noise_state())
        yield

    @contextmanager
    def second() -> Iterator[None]:
        with noise_from(begun[0]), not_counted():
            yield

    return first(), second()
