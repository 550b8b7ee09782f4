"""The vocabulary projection and its loss in one: the logits of all predictions are never held at once."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Logits held at once: 2^24 of them are 64 MiB in fp32. On a GPU more at once keeps its cores busy.
CHUNK_ON_CPU = 2**24
CHUNK_ON_GPU = 2**28


def linear_cross_entropy(states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, denominator: float) -> tuple[Tensor, Tensor]:
    """The cross-entropy, in nats, of softmax(states weightᵀ + bias) against ``targets``, summed and divided by ``denominator``.

    ``states`` (P, H), ``weight`` (V, H), ``bias`` (V,), ``targets`` (P,) → the loss, a scalar, and the number of predictions whose
    target has the highest logit, a scalar that has no gradient. Under autocast the products are in its type and the rest in fp32.
    """
    device = states.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
    with torch.autocast(device, enabled=False):
        return _LinearCrossEntropy.apply(states, weight, bias, targets, denominator, kind, torch.is_grad_enabled())  # type: ignore[no-any-return, no-untyped-call]


class _LinearCrossEntropy(torch.autograd.Function):
    """The gradients are made in the forward pass, from logits that are still at hand, and only scaled in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, denominator: float, kind: torch.dtype, differentiate: bool
    ) -> tuple[Tensor, Tensor]:
        table = weight.to(kind)
        of_states, of_weight, of_bias = torch.zeros_like(states), torch.zeros_like(weight), torch.zeros_like(bias)
        loss, correct = states.new_zeros((), dtype=bias.dtype), states.new_zeros((), dtype=torch.int64)
        for part in _chunks(len(states), len(weight), states.is_cuda):
            chunk, chunk_targets = states[part].to(kind), targets[part]
            exponentials, total, losses, right = _softmax(chunk, table, bias, chunk_targets)
            loss += losses.sum()
            correct += right.sum()
            if not differentiate:
                continue
            # The gradient of the logits is (softmax - one_hot(target)) / denominator; the softmax's division is left to the products.
            share = (1 / (total * denominator))[:, None]  # (p, 1)
            exponentials = exponentials.to(kind)
            of_chunk = (exponentials @ table).to(share.dtype).mul_(share)
            of_states[part] = of_chunk.sub_(weight.index_select(0, chunk_targets), alpha=1 / denominator)
            scaled = chunk.to(share.dtype) * share
            of_weight.addmm_(exponentials.t(), scaled) if kind == weight.dtype else of_weight.add_(exponentials.t() @ scaled.to(kind))
            of_weight.index_add_(0, chunk_targets, chunk.to(of_weight.dtype), alpha=-1 / denominator)
            of_bias += (share.t().to(kind) @ exponentials).view(-1)
            of_bias.index_add_(0, chunk_targets, of_bias.new_full((len(chunk),), -1 / denominator))
        ctx.save_for_backward(of_states, of_weight, of_bias)
        ctx.mark_non_differentiable(correct)
        return loss / denominator, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors
        if gradient.is_cuda or gradient.item() != 1.0:  # asking costs nothing on a CPU, a pass over the table does
            gradients = [each * gradient for each in gradients]
        return (*gradients, None, None, None, None)


def _softmax(states: Tensor, table: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The numerators (p, V) and denominators (p,) of the softmax, the losses (p,) and whether each target is the highest (p,)."""
    logits = (states @ table.t()).to(bias.dtype).add_(bias)  # (p, V)
    of_target = logits.gather(1, targets[:, None])
    highest = logits.amax(1, keepdim=True)
    exponentials = logits.sub_(highest).exp_()
    total = exponentials.sum(1)
    losses = total.log() + (highest - of_target).view(-1)
    return exponentials, total, losses, (of_target >= highest).view(-1)


def _chunks(rows: int, columns: int, on_gpu: bool) -> list[slice]:
    """Slices of about equal length that cover ``rows``, each of whose logits stay within the bound."""
    most = max(1, (CHUNK_ON_GPU if on_gpu else CHUNK_ON_CPU) // columns)
    count = -(-rows // most)
    edges = [rows * i // count for i in range(count + 1)] if count else [0]
    return [slice(start, end) for start, end in itertools.pairwise(edges)]
