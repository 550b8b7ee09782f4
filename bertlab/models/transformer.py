"""The transformer encoder (Vaswani et al. 2017), over flat tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bertlab.data.batches import Batch
from bertlab.models.architecture import Architecture
from bertlab.models.attention import SelfAttention
from bertlab.models.attention_plans import AttentionPlan, plan_attention
from bertlab.models.dropout import add_dropped
from bertlab.models.heads import activate
from bertlab.models.norms import make_norm
from bertlab.models.recomputing import through


class FeedForward(nn.Module):
    """Two dense layers with the activation between them."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.inner = nn.Linear(architecture.hidden, architecture.intermediate)
        self.outer = nn.Linear(architecture.intermediate, architecture.hidden)
        self.activation = architecture.activation

    def forward(self, x: Tensor) -> Tensor:
        """(T, H) → (T, H)."""
        return self.outer(activate(self.inner(x), self.activation))


class Block(nn.Module):
    """Attention and feed-forward, each a residual branch with its norm after the sum (post, the paper) or before the branch (pre)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.attention = SelfAttention(architecture)
        self.attention_norm = make_norm(architecture)
        self.feed_forward = FeedForward(architecture)
        self.feed_forward_norm = make_norm(architecture)
        self.pre = architecture.placement == "pre"
        self.dropout = architecture.dropout

    def forward(self, x: Tensor, plan: AttentionPlan, rows: Tensor | None = None) -> Tensor:
        """(T, H) → (T, H), or the states (R, H) of ``rows`` (R,) only: the other tokens are looked at, and nothing is made of them."""
        own = x if rows is None else x.index_select(0, rows)
        if self.pre:
            x = add_dropped(own, self.attention(self.attention_norm(x), plan, rows), self.dropout, self.training)
            return add_dropped(x, self.feed_forward(self.feed_forward_norm(x)), self.dropout, self.training)
        x = self.attention_norm(add_dropped(own, self.attention(x, plan, rows), self.dropout, self.training))
        x = add_dropped(x, self.feed_forward(x), self.dropout, self.training)
        return self.feed_forward_norm(x)


class Transformer(nn.Module):
    """A stack of blocks; under placement "pre" with a norm on top, for its residual stream is never normalised."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(architecture) for _ in range(architecture.layers))
        self.norm = make_norm(architecture) if architecture.placement == "pre" else None
        self.architecture = architecture
        self.recompute = False  # whether the backward pass computes once more what blocks have computed

    def forward(self, x: Tensor, batch: Batch, rows: Tensor | None = None) -> Tensor:
        """(T, H) → (T, H), or (R, H) of the tokens ``rows`` (R,): nobody reads what the highest block would make of any other token."""
        plan = plan_attention(batch, self.architecture)
        *lower, highest = self.layers
        for layer in lower:
            x = through(layer, self.recompute, x, plan)
        all_made = rows is None or self.architecture.norm == "batch"  # whose statistics are those of all tokens
        x = through(highest, self.recompute, x, plan, None if all_made else rows)
        x = x if self.norm is None else self.norm(x)
        return x.index_select(0, rows) if all_made and rows is not None else x

    def states(self, x: Tensor, batch: Batch) -> list[Tensor]:
        """(T, H) → what each layer makes of it, the last after the final norm if there is one."""
        plan, states = plan_attention(batch, self.architecture), []
        for layer in self.layers:
            x = through(layer, self.recompute, x, plan)
            states.append(x)
        if self.norm is not None:
            states[-1] = self.norm(states[-1])
        return states

    def parts(self) -> list[list[nn.Module]]:
        """The modules of each layer, from the lowest; the final norm is the highest one's."""
        parts = [[layer] for layer in self.layers]
        if self.norm is not None:
            parts[-1].append(self.norm)
        return parts

    def compile_blocks(self, **options: Any) -> None:
        """Have PyTorch compile the blocks with ``torch.compile``'s options; parameters keep their names.

        Attention is left out: its kernels are fused already, and what they are told differs from batch to batch.
        """
        for layer in self.layers:
            attention = layer.get_submodule("attention")
            attention.forward = torch.compiler.disable(attention.forward)
            layer.compile(dynamic=True, **options)
