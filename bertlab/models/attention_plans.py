"""What the layers of a model share about a batch: where its tokens lie, and what each may look at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bertlab.data.batches import Batch
from bertlab.models.architecture import Architecture
from bertlab.models.padding import PaddedLayout


@dataclass
class Pieces:
    """The heads' pieces, D features each, of ``parts`` vectors a token: how they move from flat tokens into a rectangle, and back."""

    parts: int
    heads: int  # A
    sequences: int  # B
    width: int  # S
    origin: Tensor  # (parts * B * A * S,) which piece among (T, parts, A) fills a place of (parts, B, A, S)
    places: Tensor  # (T * parts * A,) the other way: where a piece of (T, parts, A) lies among (parts, B, A, S)

    @classmethod
    def of(cls, slots: Tensor, sequences: int, width: int, heads: int, parts: int) -> Pieces:
        """Of tokens that lie in ``slots`` (T,) of a rectangle (B, S), row by row."""
        device = slots.device
        head, part = torch.arange(heads, device=device), torch.arange(parts, device=device)
        # A slot without a token holds a copy of the first one: finite, never looked at.
        token = torch.zeros(sequences * width, dtype=torch.int64, device=device)
        token = token.index_copy_(0, slots, torch.arange(len(slots), device=device)).view(sequences, 1, width)
        origin = (token * parts + part.view(parts, 1, 1, 1)) * heads + head.view(heads, 1)  # (parts, B, A, S)
        place = (slots // width * heads)[:, None] + head  # (T, A), counting (B, A)
        place = place * width + (slots % width)[:, None]
        places = place[:, None] + part[:, None] * (sequences * width * heads)  # (T, parts, A)
        return cls(parts, heads, sequences, width, origin.reshape(-1), places.reshape(-1))

    def pad(self, flat: Tensor) -> Tensor:
        """(T, parts * H) → (parts, B * A, S, D)."""
        size = flat.shape[1] // (self.parts * self.heads)
        return flat.reshape(-1, size).index_select(0, self.origin).view(self.parts, self.sequences * self.heads, self.width, size)

    def unpad(self, padded: Tensor) -> Tensor:
        """(parts, B * A, S, D) → (T, parts * H)."""
        size = padded.shape[-1]
        return padded.view(-1, size).index_select(0, self.places).view(-1, self.parts * self.heads * size)


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
    slots: Tensor  # (T,) the slot of each token
    inputs: Pieces  # of queries, keys and values
    places: Tensor  # (T * A,) where a head's piece of a token lies among (B, A, S)
    short: list[tuple[int, int]]  # sequences, with their lengths, that leave slots of their row without a token

    def keys_and_values(self) -> Pieces:
        """How keys and values alone move."""
        return Pieces.of(self.slots, self.layout.sequences, self.layout.width, self.heads, parts=2)

    def queries_of(self, rows: Tensor) -> Pieces:
        """How the queries of the tokens ``rows`` (R,), in any order, move into a rectangle as wide as one sequence has most of them."""
        sequence = self.slots.index_select(0, rows) // self.layout.width
        counts = torch.bincount(sequence, minlength=self.layout.sequences)
        order = torch.argsort(sequence, stable=True)
        before = torch.cumsum(counts, 0) - counts
        place = torch.empty_like(rows)  # among those of its sequence
        place[order] = torch.arange(len(rows), device=rows.device) - before[sequence[order]]
        width = int(counts.max())
        return Pieces.of(sequence * width + place, self.layout.sequences, width, self.heads, parts=1)


AttentionPlan = JaggedPlan | PaddedPlan


def plan_attention(batch: Batch, architecture: Architecture) -> AttentionPlan:
    """What all layers share about ``batch``."""
    heads, direction = architecture.heads, architecture.attention
    # Flash attention wants half precision and heads of a multiple of 8 features.
    if batch.tokens.is_cuda and torch.is_autocast_enabled("cuda") and architecture.hidden // heads % 8 == 0:
        return JaggedPlan(heads, direction, batch)
    return plan_padded(batch, heads, direction)


def plan_padded(batch: Batch, heads: int, direction: str) -> PaddedPlan:
    """The plan for kernels that want rectangles."""
    # Right-aligned sequences make padding to the past of every token what left-aligned ones make it to the future: unseen.
    layout = PaddedLayout.of(batch, right=direction == "anticausal")
    slots = torch.arange(batch.tokens.numel(), device=batch.tokens.device) if layout.slots is None else layout.slots
    inputs = Pieces.of(slots, layout.sequences, layout.width, heads, parts=3)
    places = inputs.places.view(-1, 3, heads)[:, 0].reshape(-1)
    full = layout.slots is None or slots.device.type != "cpu"
    short = [] if full else [(row, length) for row, length in enumerate(layout.lengths.tolist()) if length < layout.width]
    return PaddedPlan(heads, direction, layout, slots, inputs, places, short)
