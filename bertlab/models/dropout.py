"""Dropout whose noise is a function of (seed, step, place in the global batch), drawn sparsely on a CPU.

On a CPU the dropped elements are drawn, not the kept ones: the gaps between them are geometric, so one random number a dropped element
is enough, and dropping is a sparse write. The elements are independent and each is dropped with exactly the asked probability (to
2⁻²⁴). On a GPU PyTorch's own kernels, which draw inside the kernel, are used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_stream: np.random.SFC64 | None = None  # of this process's CPU noise


def seed_dropout(seed: int, step: int, place: int, stream: int = 0) -> None:
    """Make all dropout until the next call a function of these numbers; to be called before each forward pass in training.

    ``place`` is that of the micro-batch's first sequence in the global batch. So the noise of a step depends on how its batch is cut, and
    not on which process works on a piece, or on several after one another. ``stream``: for whoever wants further noise. PyTorch's global
    generators are seeded too: kernels on a GPU draw from them.
    """
    global _stream
    sequence = np.random.SeedSequence((seed, step, place, stream))
    _stream = np.random.SFC64(sequence)
    number = int(sequence.generate_state(1, np.uint64)[0] >> 1)
    torch.default_generator.manual_seed(number)  # not torch.manual_seed, which formats a stack for each GPU that is not in use yet
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


def noise_state() -> Any:
    """Where the CPU noise of this process is, for ``noise_from``; PyTorch's generators have states of their own."""
    return _the_stream().state


@contextmanager
def noise_from(state: Any) -> Iterator[None]:
    """Draw from ``state`` on inside the block, and after it as if nothing had been drawn."""
    global _stream
    before = _stream
    _stream = np.random.SFC64()
    _stream.state = state
    try:
        yield
    finally:
        _stream = before


def _the_stream() -> np.random.SFC64:
    """The stream of this process's CPU noise. Before any ``seed_dropout`` it begins here, as PyTorch's global seed says."""
    global _stream
    if _stream is None:
        _stream = np.random.SFC64(int(torch.randint(2**62, ()).item()))
    return _stream


def _random_words(count: int) -> Tensor:
    """(count,) int32, uniform over all its values."""
    return torch.from_numpy(_the_stream().random_raw((count + 1) // 2).view(np.int32)[:count])


def standard_normal(rows: int, columns: int, like: Tensor) -> Tensor:
    """(rows, columns) independent standard normal numbers on the device and in the type of ``like``, from the stream of the dropout."""
    if like.is_cuda:
        return torch.randn(rows, columns, device=like.device, dtype=like.dtype)
    uniform = (_random_words(2 * rows * columns).double() + (2**31 + 0.5)) / 2**32
    radius, angle = uniform.view(2, rows, columns)
    return (torch.sqrt(-2 * torch.log(radius)) * torch.cos(2 * math.pi * angle)).to(like.dtype)  # Box and Muller


def dropped_elements(count: int, rate: float) -> Tensor:
    """Ascending indices below ``count``, each of which is in with probability ``rate``, independently of all others."""
    if rate == 0:
        return torch.empty(0, dtype=torch.int64)
    dropped = _dropped_from(0, count, rate)
    while int(dropped[-1]) < count:  # once in a billion calls
        start = int(dropped[-1]) + 1
        dropped = torch.cat((dropped, _dropped_from(start, count - start, rate)))
    return dropped[: int(np.searchsorted(dropped.numpy(), count))]  # PyTorch's makes a tensor of the number first


def _dropped_from(start: int, count: int, rate: float) -> Tensor:
    """Dropped indices from ``start`` on, so many that they all but surely go past ``start + count``."""
    draws = int(count * rate + 6 * math.sqrt(count * rate) + 16)
    # In (0, 1]: as many bits as a float32 holds exactly, so that none is rounded to a 0 whose logarithm would be infinite.
    uniform = _random_words(draws).bitwise_and_(2**24 - 1).add_(1).float().mul_(2.0**-24)
    # What is kept between two dropped elements is geometric: at least k with probability (1 - rate)^k.
    kept_between = uniform.log_().mul_(1 / math.log1p(-rate)).long()
    return kept_between.add_(1).cumsum(0).add_(start - 1)


def drop(x: Tensor, rate: float, training: bool) -> Tensor:
    """Inverted dropout: zero with probability ``rate``, else scaled by 1 / (1 - rate)."""
    if not training or rate == 0:
        return x
    return F.dropout(x, rate) if x.is_cuda else _Drop.apply(x, rate)


def add_dropped(x: Tensor, update: Tensor, rate: float, training: bool) -> Tensor:
    """Add dropout(update) to ``x``: the end of every residual branch."""
    if not training or rate == 0:
        return x + update
    return x + F.dropout(update, rate) if x.is_cuda else _AddDropped.apply(x, update, rate)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        dropped = dropped_elements(x.numel(), rate)
        ctx.save_for_backward(dropped)
        ctx.scale = 1 / (1 - rate)
        return _zero_(x * ctx.scale, dropped)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (dropped,) = ctx.saved_tensors
        return _zero_(gradient * ctx.scale, dropped), None


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, update: Tensor, rate: float) -> Tensor:
        x = x.contiguous()
        dropped = dropped_elements(x.numel(), rate)
        ctx.save_for_backward(dropped)
        ctx.scale, ctx.types = 1 / (1 - rate), (x.dtype, update.dtype)
        total = torch.add(x, update, alpha=ctx.scale)
        total.view(-1).index_copy_(0, dropped, x.view(-1).index_select(0, dropped).to(total.dtype))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (dropped,) = ctx.saved_tensors
        of_x, of_update = ctx.types
        return gradient.to(of_x), _zero_((gradient * ctx.scale).to(of_update), dropped), None


def _zero_(x: Tensor, elements: Tensor) -> Tensor:
    """Write zeros at flat ``elements`` of a dense ``x``."""
    x = x.contiguous()
    x.view(-1).index_fill_(0, elements, 0)
    return x
