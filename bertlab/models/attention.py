"""Multi-head self-attention (Vaswani et al. 2017, section 3.2) over flat tokens, each sequence by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bertlab.data.batches import Batch
from bertlab.models.architecture import Architecture
from bertlab.models.dropout import dropped_elements
from bertlab.models.padding import PaddedLayout
from bertlab.models.ragged_rows import part_of_each_row

# What a forbidden score becomes: far below any other, yet finite in every floating-point type in use.
FORBIDDEN = -1e30
# Hiding what a short sequence lacks costs as much time as a pass over so many scores.
SHORT_COSTS = 20_000


class SelfAttention(nn.Module):
    """Queries, keys and values by one product, attention, and the output projection. Residual and norm are the block's."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        hidden = architecture.hidden
        self.queries_keys_values = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.dropout = architecture.attention_dropout

    def forward(self, x: Tensor, plan: AttentionPlan) -> Tensor:
        """(T, H) → (T, H)."""
        mixed = attend(self.queries_keys_values(x), plan, self.dropout if self.training else 0.0)
        return self.output(mixed)


@dataclass
class JaggedPlan:
    """For kernels that take sequences of unequal length as they lie: flash attention on a GPU."""

    heads: int  # A
    direction: str  # bidirectional | causal | anticausal
    batch: Batch


@dataclass
class PaddedPlan:
    """Where in a rectangle of scores the tokens of a batch lie; shared by all layers."""

    heads: int  # A
    direction: str
    layout: PaddedLayout
    rows: Tensor  # (T * A,) where a head's piece of a token lies among (B, A, S)
    rows_of_parts: Tensor  # (T * 3 * A,) the same for a token's queries, keys and values among (3, B, A, S)
    origin: Tensor  # (3 * B * A * S,) which piece among (T, 3, A) fills a place of (3, B, A, S)
    short: list[tuple[int, int]]  # sequences, with their lengths, that leave slots of their row without a token


AttentionPlan = JaggedPlan | PaddedPlan


def plan_attention(batch: Batch, architecture: Architecture) -> AttentionPlan:
    """What all layers share about ``batch``: where its tokens lie, and what each may look at."""
    heads, direction = architecture.heads, architecture.attention
    # Flash attention wants half precision and heads of a multiple of 8 features.
    if batch.tokens.is_cuda and torch.is_autocast_enabled("cuda") and architecture.hidden // heads % 8 == 0:
        return JaggedPlan(heads, direction, batch)
    return plan_padded(batch, heads, direction)


def plan_padded(batch: Batch, heads: int, direction: str) -> PaddedPlan:
    """The plan for kernels that want rectangles."""
    # Right-aligned sequences make padding to the past of every token what left-aligned ones make it to the future: unseen.
    layout = PaddedLayout.of(batch, right=direction == "anticausal")
    device = batch.tokens.device
    token, head = torch.arange(batch.tokens.numel(), device=device), torch.arange(heads, device=device)
    slots = token if layout.slots is None else layout.slots
    # A slot without a token holds a copy of the first one: finite, never looked at.
    cells = layout.sequences * layout.width
    token_of_slot = torch.zeros(cells, dtype=torch.int64, device=device).index_copy_(0, slots, token)
    part = torch.arange(3, device=device)
    token_of_slot = token_of_slot.view(layout.sequences, 1, layout.width)
    origin = (token_of_slot * 3 + part.view(3, 1, 1, 1)) * heads + head.view(heads, 1)  # (3, B, A, S)
    rows = (slots // layout.width * heads)[:, None] + head  # (T, A), counting (B, A)
    rows = rows * layout.width + (slots % layout.width)[:, None]
    rows_of_parts = rows[:, None] + part[:, None] * (cells * heads)  # (T, 3, A)
    full = layout.slots is None or device.type != "cpu"
    short = [] if full else [(row, length) for row, length in enumerate(layout.lengths.tolist()) if length < layout.width]
    return PaddedPlan(heads, direction, layout, rows.reshape(-1), rows_of_parts.reshape(-1), origin.reshape(-1), short)


def attend(projected: Tensor, plan: AttentionPlan, dropout: float) -> Tensor:
    """softmax(Q Kᵀ / √D) V of every sequence and head; ``projected`` (T, 3H) holds Q, K and V side by side → (T, H).

    ``dropout`` is the probability with which an attention weight is dropped, as in the released BERT.
    """
    if isinstance(plan, JaggedPlan):
        return _attend_jagged(projected, plan, dropout)
    if not projected.is_cuda and (dropout or projected.requires_grad):
        return _Attention.apply(projected, plan, dropout)
    return _attend_padded(projected, plan, dropout)


def _attend_jagged(projected: Tensor, plan: JaggedPlan, dropout: float) -> Tensor:
    """By PyTorch's fused kernels over sequences of unequal length."""
    batch, reverse = plan.batch, None
    if plan.direction == "anticausal":  # the kernels know causal only: turn every sequence round, and back
        row = part_of_each_row(batch.offsets.diff(), len(projected))
        reverse = batch.offsets[row + 1] - 1 - batch.positions
        projected = projected[reverse]
    parts = projected.view(len(projected), 3, plan.heads, -1).unbind(1)  # each (T, A, D)
    queries, keys, values = (
        torch.nested.nested_tensor_from_jagged(part.contiguous(), batch.offsets, min_seqlen=1, max_seqlen=batch.max_length).transpose(1, 2)
        for part in parts
    )  # (B, A, lengths, D)
    causal = plan.direction != "bidirectional"
    mixed = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=causal)
    flat = mixed.transpose(1, 2).values().reshape(len(projected), -1)
    return flat if reverse is None else flat[reverse]


def _attend_padded(projected: Tensor, plan: PaddedPlan, dropout: float) -> Tensor:
    """By PyTorch's fused kernels over a rectangle; on a CPU they know no dropout, and their gradient is slower than ours."""
    queries, keys, values = _padded(projected, plan)  # (B, A, S, D)
    layout, device, allowed = plan.layout, projected.device, None
    if plan.direction == "anticausal":
        allowed = torch.ones(layout.width, layout.width, dtype=torch.bool, device=device).triu()
    elif plan.direction == "bidirectional" and layout.slots is not None:
        allowed = (torch.arange(layout.width, device=device) < layout.lengths[:, None])[:, None, None, :]
    mixed = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=allowed, dropout_p=dropout, is_causal=plan.direction == "causal"
    )
    return mixed.reshape(-1, mixed.shape[-1]).index_select(0, plan.rows).view(len(projected), -1)


def _padded(projected: Tensor, plan: PaddedPlan) -> Tensor:
    """(T, 3H) → queries, keys, values (3, B, A, S, D)."""
    layout, size = plan.layout, projected.shape[1] // (3 * plan.heads)
    return projected.reshape(-1, size).index_select(0, plan.origin).view(3, layout.sequences, plan.heads, layout.width, size)


class _Attention(torch.autograd.Function):
    """Attention with dropout on the weights, and its gradient by hand: one (B, A, S, S) matrix is kept, and no mask."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, plan: PaddedPlan, dropout: float) -> Tensor:
        padded = _padded(projected, plan).flatten(1, 2)  # (3, B * A, S, D)
        queries, keys, values = padded
        queries.mul_(1 / math.sqrt(queries.shape[-1]))
        weights = _scores(queries, keys, plan)
        torch.softmax(weights, -1, out=weights)
        dropped = dropped_elements(weights.numel(), dropout)
        # The dropped weights are kept beside the matrix: the gradient of the softmax needs them.
        lost = weights.view(-1).index_select(0, dropped)
        weights.view(-1).index_fill_(0, dropped, 0)
        mixed = torch.bmm(weights, values)
        flat = mixed.view(-1, mixed.shape[-1]).index_select(0, plan.rows).mul_(1 / (1 - dropout)).view(len(projected), -1)
        ctx.save_for_backward(padded, weights, dropped, lost, flat)
        ctx.plan, ctx.dropout = plan, dropout
        return flat

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        padded, weights, dropped, lost, flat = ctx.saved_tensors
        plan: PaddedPlan = ctx.plan
        queries, keys, values = padded  # (B * A, S, D), the queries scaled
        size, width = queries.shape[-1], queries.shape[-2]
        of_flat = gradient.reshape(-1, size) * (1 / (1 - ctx.dropout))
        of_mixed = torch.zeros_like(queries).view(-1, size).index_copy_(0, plan.rows, of_flat).view_as(queries)
        # sum_j P_ij dP_ij, which the gradient of the softmax P subtracts, is the product of output and gradient: a sum over D, not S.
        inner = torch.zeros(len(queries) * width, dtype=queries.dtype)
        inner.index_copy_(0, plan.rows, torch.linalg.vecdot(gradient.reshape(-1, size), flat.view(-1, size)))
        of_padded = torch.empty_like(padded)
        torch.bmm(weights.transpose(1, 2), of_mixed, out=of_padded[2])
        of_scores = torch.bmm(of_mixed, values.transpose(1, 2)).sub_(inner.view(len(queries), width, 1)).mul_(weights)
        # A dropped weight gets no gradient from the output, but its score still moves the others: P_ij (0 - sum).
        row = dropped.double().add_(0.5).mul_(1 / width).long()  # dropped // width, faster
        of_scores.view(-1).index_copy_(0, dropped, inner.index_select(0, row).mul_(lost).neg_())
        torch.bmm(of_scores, keys, out=of_padded[0])
        of_padded[0].mul_(1 / math.sqrt(size))
        torch.bmm(of_scores.transpose(1, 2), queries, out=of_padded[1])
        return _flattened(of_padded, plan), None, None


def _scores(queries: Tensor, keys: Tensor, plan: PaddedPlan) -> Tensor:
    """Q Kᵀ (B * A, S, S) of scaled queries, with what a position may not look at far below everything else."""
    layout = plan.layout
    scores = torch.bmm(queries, keys.transpose(1, 2))
    if plan.direction != "bidirectional":
        allowed = torch.ones(layout.width, layout.width, dtype=torch.bool)
        allowed = allowed.tril() if plan.direction == "causal" else allowed.triu()
        return scores.add_(torch.zeros(layout.width, layout.width, dtype=scores.dtype).masked_fill_(~allowed, FORBIDDEN))
    by_sequence = scores.view(layout.sequences, plan.heads, layout.width, layout.width)
    if len(plan.short) * SHORT_COSTS > scores.numel():  # most are short, as in fine-tuning: one pass over all scores
        unseen = torch.arange(layout.width) >= layout.lengths[:, None]  # (B, S)
        by_sequence.add_(torch.zeros(unseen.shape, dtype=scores.dtype).masked_fill_(unseen, FORBIDDEN)[:, None, None, :])
        return scores
    for sequence, length in plan.short:  # few are, as in pre-training, where that pass would cost more
        by_sequence[sequence, :, :, length:] = FORBIDDEN
    return scores


def _flattened(parts: Tensor, plan: PaddedPlan) -> Tensor:
    """(3, B * A, S, D) → (T, 3H), the inverse of ``_padded``."""
    tokens = len(plan.rows) // plan.heads
    return parts.view(-1, parts.shape[-1]).index_select(0, plan.rows_of_parts).view(tokens, -1)
