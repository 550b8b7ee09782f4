"""Multi-head self-attention (Vaswani et al. 2017, section 3.2) over flat tokens, each sequence by itself."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertlab.models.architecture import Architecture
from bertlab.models.attention_on_cpu import attend_all, attend_from
from bertlab.models.attention_plans import AttentionPlan, JaggedPlan, PaddedPlan
from bertlab.models.ragged_rows import part_of_each_row


class SelfAttention(nn.Module):
    """Queries, keys and values by one product, attention, and the output projection. Residual and norm are the block's."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        hidden = architecture.hidden
        self.queries_keys_values = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.dropout = architecture.attention_dropout

    def forward(self, x: Tensor, plan: AttentionPlan, rows: Tensor | None = None) -> Tensor:
        """(T, H) → (T, H), or (R, H) of what the tokens ``rows`` (R,) see of all tokens."""
        dropout = self.dropout if self.training else 0.0
        if rows is None:
            mixed = attend(self.queries_keys_values(x), plan, dropout)
        elif isinstance(plan, PaddedPlan) and plan.direction == "bidirectional" and x.device.type == "cpu" and 2 * len(rows) < len(x):
            mixed = self._attend_from(rows, x, plan, dropout)
        else:
            mixed = attend(self.queries_keys_values(x), plan, dropout).index_select(0, rows)
        return self.output(mixed)

    def _attend_from(self, rows: Tensor, x: Tensor, plan: PaddedPlan, dropout: float) -> Tensor:
        """(R, H) with queries of ``rows`` only."""
        weight, bias, hidden = self.queries_keys_values.weight, self.queries_keys_values.bias, x.shape[1]
        queries = F.linear(x.index_select(0, rows), weight[:hidden], bias[:hidden])
        keys_values = F.linear(x, weight[hidden:], bias[hidden:])
        return attend_from(rows, queries, keys_values, plan, dropout)


def attend(projected: Tensor, plan: AttentionPlan, dropout: float) -> Tensor:
    """softmax(Q Kᵀ / √D) V of every sequence and head; ``projected`` (T, 3H) holds Q, K and V side by side → (T, H).

    ``dropout`` is the probability with which an attention weight is dropped, as in the released BERT.
    """
    if isinstance(plan, JaggedPlan):
        return _attend_jagged(projected, plan, dropout)
    if projected.device.type == "cpu" and (dropout or projected.requires_grad):
        return attend_all(projected, plan, dropout)
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
    queries, keys, values = plan.inputs.pad(projected).unflatten(1, (-1, plan.heads))  # (B, A, S, D)
    layout, device, allowed = plan.layout, projected.device, None
    if plan.direction == "anticausal":
        allowed = torch.ones(layout.width, layout.width, dtype=torch.bool, device=device).triu()
    elif plan.direction == "bidirectional" and layout.slots is not None:
        allowed = (torch.arange(layout.width, device=device) < layout.lengths[:, None])[:, None, None, :]
    mixed = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=allowed, dropout_p=dropout, is_causal=plan.direction == "causal"
    )
    return mixed.reshape(-1, mixed.shape[-1]).index_select(0, plan.places).view(len(projected), -1)
