"""The transformer encoder (Vaswani et al. 2017), over flat tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bertlab.data.batches import Batch
from bertlab.models.architecture import Architecture
from bertlab.models.attention import AttentionPlan, SelfAttention, plan_attention
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

    def forward(self, x: Tensor, plan: AttentionPlan) -> Tensor:
        """(T, H) → (T, H)."""
        if self.pre:
            x = add_dropped(x, self.attention(self.attention_norm(x), plan), self.dropout, self.training)
            return add_dropped(x, self.feed_forward(self.feed_forward_norm(x)), self.dropout, self.training)
        x = self.attention_norm(add_dropped(x, self.attention(x, plan), self.dropout, self.training))
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

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """(T, H) → (T, H)."""
        plan = plan_attention(batch, self.architecture)
        for layer in self.layers:
            x = through(layer, self.recompute, x, plan)
        return x if self.norm is None else self.norm(x)

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
