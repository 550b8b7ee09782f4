"""The vocabulary projection and its loss in one: the logits of all predictions are never held at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Logits held at once: 2^25 of them are 128 MiB in fp32. On a GPU more at once keeps its cores busy.
CHUNK_ON_CPU = 2**25
CHUNK_ON_GPU = 2**28
# On a CPU logits are made and turned into exponentials by blocks of columns that stay in its cache: 2^21 are 8 MiB.
BLOCK_ON_CPU = 2**21


def linear_cross_entropy(states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, denominator: float) -> tuple[Tensor, Tensor]:
    """The cross-entropy, in nats, of softmax(states weightᵀ + bias) against ``targets``, summed and divided by ``denominator``.

    ``states`` (P, H), ``weight`` (V, H), ``bias`` (V,), ``targets`` (P,) → the loss, a scalar, and the number of predictions whose
    target is the first of those with the highest logit, as ``argmax`` has it, a scalar that has no gradient. Under autocast the
    products are in its type and the rest in fp32.
    """
    device = states.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
    with torch.autocast(device, enabled=False):
        return _LinearCrossEntropy.apply(states, weight, bias, targets, denominator, kind, torch.is_grad_enabled())


class _LinearCrossEntropy(torch.autograd.Function):
    """The gradients are made in the forward pass, from logits that are still at hand, and only scaled in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, denominator: float, kind: torch.dtype, differentiate: bool
    ) -> tuple[Tensor, Tensor]:
        table = weight.to(kind)
        # Written by the first chunk, added to by the others: a table of zeros would cost a pass over it.
        allocate = torch.empty_like if len(states) else torch.zeros_like
        gradients = allocate(states), allocate(weight), allocate(bias)
        loss, correct = bias.new_zeros(()), targets.new_zeros(())
        for rows in _slices(len(states), (CHUNK_ON_GPU if states.is_cuda else CHUNK_ON_CPU) // len(weight)):
            chunk = _Chunk(states[rows].to(kind), table, bias, targets[rows])
            loss += chunk.losses.sum()
            correct += chunk.correct.sum()
            if differentiate:
                chunk.add_gradients(gradients[0][rows], gradients[1], gradients[2], denominator, first=rows.start == 0)
        ctx.gradients = gradients
        ctx.mark_non_differentiable(correct)
        return loss / denominator, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        # Handed over, not copied: whoever gets them may add to them in place.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError("the gradient of this loss was taken already: compute the loss again instead of keeping the graph")
        if gradient.is_cuda or gradient.item() != 1.0:  # asking costs nothing on a CPU, a pass over the table does
            gradients = [each.mul_(gradient) for each in gradients]
        return (*gradients, None, None, None, None)


class _Chunk:
    """The softmax of p rows, as numerators by blocks of columns, each relative to its own highest logit, and what relates them."""

    def __init__(self, states: Tensor, table: Tensor, bias: Tensor, targets: Tensor) -> None:
        self.states, self.table, self.targets = states, table, targets
        self.columns = _slices(len(table), len(table) if states.is_cuda else BLOCK_ON_CPU // len(states))
        self.numerators: list[Tensor] = []  # each (p, columns of the block), in the products' type
        tops, sums, of_target = [], [], bias.new_zeros(len(states))
        home = torch.zeros_like(targets)  # (p,) the block that has a row's target
        leads = torch.zeros_like(targets, dtype=torch.bool)  # (p,) whether the target is that block's first highest
        for number, part in enumerate(self.columns):
            logits = _logits(states, table[part], bias[part])
            place = targets - part.start
            here = (place >= 0) & (place < logits.shape[1])
            of_target = torch.where(here, logits.gather(1, place.clamp(0, logits.shape[1] - 1)[:, None]).view(-1), of_target)
            tops.append(logits.amax(1, keepdim=True))
            home = torch.where(here, number, home)
            leads |= _is_first_highest(logits, tops[-1].view(-1), of_target, place, here)
            logits.sub_(tops[-1]).exp_()
            sums.append(logits.sum(1, keepdim=True))
            self.numerators.append(logits.to(table.dtype))
        top_of_block = torch.cat(tops, 1)  # (p, blocks)
        top = top_of_block.amax(1, keepdim=True)
        self.scales = (top_of_block - top).exp_()
        self.total = (torch.cat(sums, 1) * self.scales).sum(1, keepdim=True)  # (p, 1)
        self.losses = (self.total.log() + top).view(-1) - of_target
        self.correct = leads & (top_of_block.argmax(1) == home)

    def add_gradients(self, of_states: Tensor, of_weight: Tensor, of_bias: Tensor, denominator: float, first: bool) -> None:
        """Write the gradient of these states, and add to those of weight and bias (or write them, if ``first``).

        The gradient of the logits is (softmax - one_hot(target)) / denominator.
        """
        shares = self.scales / (self.total * denominator)  # softmax / denominator = numerator * share
        states = self.states.to(shares.dtype)
        torch.mul(self.table.index_select(0, self.targets), -1 / denominator, out=of_states)
        for number, (part, numerators) in enumerate(zip(self.columns, self.numerators, strict=True)):
            share = shares[:, number : number + 1]
            of_states.addcmul_((numerators @ self.table[part]).to(of_states.dtype), share)
            _add_product(of_weight[part], numerators.t(), states * share, first)
            _add_product(of_bias[part, None], numerators.t(), share, first)
        of_weight.index_add_(0, self.targets, states, alpha=-1 / denominator)
        of_bias.index_add_(0, self.targets, of_bias.new_full((len(states),), -1 / denominator))


def _logits(states: Tensor, table: Tensor, bias: Tensor) -> Tensor:
    """(p, H), (v, H), (v,) → (p, v), in the type of ``bias``."""
    if states.dtype == bias.dtype:
        return torch.addmm(bias, states, table.t())
    return (states @ table.t()).to(bias.dtype).add_(bias)


def _is_first_highest(logits: Tensor, top: Tensor, of_target: Tensor, place: Tensor, here: Tensor) -> Tensor:
    """(p,) whether column ``place`` of (p, v) is a row's arg-max, where the row's target is ``here``."""
    if logits.is_cuda:
        return here & (logits.argmax(1) == place)
    # An arg-max takes six times as long as a maximum on a CPU; few rows can still be right, and few of them are here.
    rows = (here & (of_target == top)).nonzero().view(-1)
    first = logits.index_select(0, rows).argmax(1) == place.index_select(0, rows)
    return torch.zeros_like(here).index_copy_(0, rows, first)


def _add_product(total: Tensor, left: Tensor, right: Tensor, first: bool) -> None:
    """``total += left @ right``, or ``=`` if ``first``; the product in the type of ``left``, the sum in that of ``total``."""
    if left.dtype == total.dtype:
        total.addmm_(left, right, beta=0 if first else 1)
    elif first:
        total.copy_(left @ right.to(left.dtype))
    else:
        total.add_(left @ right.to(left.dtype))


def _slices(count: int, most: int) -> list[slice]:
    """Slices of about equal length, none longer than ``most`` (or 1), that cover ``count``."""
    pieces = -(-count // max(1, most))
    return [slice(count * i // pieces, count * (i + 1) // pieces) for i in range(pieces)]
