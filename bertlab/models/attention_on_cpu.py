"""Attention with dropout on its weights, and its gradient by hand, for a CPU: PyTorch's kernels know no dropout there and are slower.

One matrix of weights (B * A, Q, S) is kept for the backward pass, and no mask. Q is S where every token has a query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertlab.models.attention_plans import PaddedPlan, Pieces
from bertlab.models.dropout import dropped_elements

# What a forbidden score becomes: far below any other, yet finite in every floating-point type in use.
FORBIDDEN = -1e30
# Hiding what a short sequence lacks costs as much time as a pass over so many scores.
SHORT_COSTS = 20_000

Vectors = Sequence[Tensor] | Tensor  # queries (B * A, Q, D), keys and values (B * A, S, D)


def attend_all(projected: Tensor, plan: PaddedPlan, dropout: float) -> Tensor:
    """What every token sees: (T, 3H), queries, keys and values side by side → (T, H)."""
    attended: Tensor = _Attention.apply(projected, plan, dropout)
    return attended


def attend_from(rows: Tensor, queries: Tensor, keys_values: Tensor, plan: PaddedPlan, dropout: float) -> Tensor:
    """What the tokens ``rows`` (R,) see of all: their queries (R, H), keys and values of all tokens side by side (T, 2H) → (R, H).

    Raises:
        ValueError: under this ``plan`` a token does not look at all of its sequence.
    """
    if plan.direction != "bidirectional":
        raise ValueError(f"attention that is {plan.direction} is computed for all tokens of a sequence")
    attended: Tensor = _AttentionOfRows.apply(queries, keys_values, plan, plan.queries_of(rows), plan.keys_and_values(), dropout)
    return attended


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, plan: PaddedPlan, dropout: float) -> Tensor:
        padded = plan.inputs.pad(projected)  # (3, B * A, S, D)
        flat, *weights = _mix(padded, plan, plan.places, dropout)
        ctx.save_for_backward(padded, flat, *weights)
        ctx.plan, ctx.dropout = plan, dropout
        return flat

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        padded, flat, *weights = ctx.saved_tensors
        of_padded = torch.empty_like(padded)
        _gradient(gradient, flat, ctx.plan.places, padded, weights, ctx.dropout, of_padded)
        return ctx.plan.inputs.unpad(of_padded), None, None


class _AttentionOfRows(torch.autograd.Function):
    """``asking`` and ``seen`` say how queries, and keys with values, move into rectangles."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys_values: Tensor, plan: PaddedPlan, asking: Pieces, seen: Pieces, dropout: float) -> Tensor:
        padded_queries, padded = asking.pad(queries)[0], seen.pad(keys_values)  # (B * A, Q, D), (2, B * A, S, D)
        flat, *weights = _mix((padded_queries, *padded), plan, asking.places, dropout)
        ctx.save_for_backward(padded_queries, padded, flat, *weights)
        ctx.asking, ctx.seen, ctx.dropout = asking, seen, dropout
        return flat

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        queries, padded, flat, *weights = ctx.saved_tensors
        of_queries, of_padded = torch.empty_like(queries), torch.empty_like(padded)
        _gradient(gradient, flat, ctx.asking.places, (queries, *padded), weights, ctx.dropout, (of_queries, *of_padded))
        return ctx.asking.unpad(of_queries), ctx.seen.unpad(of_padded), None, None, None, None


def _mix(vectors: Vectors, plan: PaddedPlan, places: Tensor, dropout: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What those at ``places`` of (B, A, Q) see, (R, H); and the weights (B * A, Q, S) after dropout, which were dropped, what they were.

    The queries are scaled in place.
    """
    queries, keys, values = vectors
    queries.mul_(1 / math.sqrt(queries.shape[-1]))
    weights = _scores(queries, keys, plan)
    torch.softmax(weights, -1, out=weights)
    dropped = dropped_elements(weights.numel(), dropout)
    # The dropped weights are kept beside the matrix: the gradient of the softmax needs them.
    lost = weights.view(-1).index_select(0, dropped)
    weights.view(-1).index_fill_(0, dropped, 0)
    mixed = torch.bmm(weights, values)
    flat = mixed.view(-1, mixed.shape[-1]).index_select(0, places).mul_(1 / (1 - dropout))
    return flat.view(-1, plan.heads * mixed.shape[-1]), weights, dropped, lost


def _gradient(
    gradient: Tensor, flat: Tensor, places: Tensor, vectors: Vectors, weights: Sequence[Tensor], dropout: float, out: Vectors
) -> None:
    """Into ``out`` the gradients of ``vectors``, from that of what ``_mix`` made of them, ``flat``; ``weights`` are what else it gave."""
    queries, keys, values = vectors
    kept, dropped, lost = weights
    size = queries.shape[-1]
    of_flat = gradient.reshape(-1, size) * (1 / (1 - dropout))
    of_mixed = torch.zeros_like(queries).view(-1, size).index_copy_(0, places, of_flat).view_as(queries)
    # sum_j P_ij dP_ij, which the gradient of the softmax P subtracts, is the product of output and gradient: a sum over D, not S.
    inner = torch.zeros(queries.shape[:-1].numel(), dtype=queries.dtype)
    inner.index_copy_(0, places, torch.linalg.vecdot(gradient.reshape(-1, size), flat.view(-1, size)))
    torch.bmm(kept.transpose(1, 2), of_mixed, out=out[2])
    of_scores = torch.bmm(of_mixed, values.transpose(1, 2)).sub_(inner.view(*queries.shape[:-1], 1)).mul_(kept)
    # A dropped weight gets no gradient from the output, but its score still moves the others: P_ij (0 - sum).
    row = dropped.double().add_(0.5).mul_(1 / kept.shape[-1]).long()  # dropped // S, faster; doubles hold it exactly
    of_scores.view(-1).index_copy_(0, dropped, inner.index_select(0, row).mul_(lost).neg_())
    torch.bmm(of_scores, keys, out=out[0])
    out[0].mul_(1 / math.sqrt(size))
    torch.bmm(of_scores.transpose(1, 2), queries, out=out[1])


def _scores(queries: Tensor, keys: Tensor, plan: PaddedPlan) -> Tensor:
    """Q Kᵀ (B * A, Q, S) of scaled queries, with what a position may not look at far below everything else."""
    layout = plan.layout
    scores = torch.bmm(queries, keys.transpose(1, 2))
    if plan.direction != "bidirectional":
        allowed = torch.ones(layout.width, layout.width, dtype=torch.bool)
        allowed = allowed.tril() if plan.direction == "causal" else allowed.triu()
        return scores.add_(torch.zeros(layout.width, layout.width, dtype=scores.dtype).masked_fill_(~allowed, FORBIDDEN))
    by_sequence = scores.unflatten(0, (layout.sequences, plan.heads))
    if len(plan.short) * SHORT_COSTS > scores.numel():  # most are short, as in fine-tuning: one pass over all scores
        unseen = torch.arange(layout.width) >= layout.lengths[:, None]  # (B, S)
        by_sequence.add_(torch.zeros(unseen.shape, dtype=scores.dtype).masked_fill_(unseen, FORBIDDEN)[:, None, None, :])
        return scores
    for sequence, length in plan.short:  # few are, as in pre-training, where that pass would cost more
        by_sequence[sequence, :, :, length:] = FORBIDDEN
    return scores
