"""LSTM backbones: a bidirectional encoder, plain language models, and ELMo's pair of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from bertlab.data.batches import Batch
from bertlab.models.architecture import Architecture
from bertlab.models.dropout import add_dropped, drop
from bertlab.models.norms import make_norm
from bertlab.models.padding import PaddedLayout
from bertlab.models.recomputing import through

FORWARD, BACKWARD = "rightward", "leftward"  # the way an LSTM reads


def layouts_of(batch: Batch) -> dict[str, PaddedLayout]:
    """The sequences of ``batch`` in the order in which each way of reading meets their tokens: padding comes last and reaches none."""
    return {FORWARD: PaddedLayout.of(batch), BACKWARD: PaddedLayout.of(batch, reverse=True)}


def read(lstms: nn.ModuleDict, x: Tensor, layouts: dict[str, PaddedLayout]) -> Tensor:
    """(T, inputs) → the states of one LSTM a way, side by side: (T, their widths together)."""
    states = []
    for way, lstm in lstms.items():
        hidden, _ = lstm(layouts[way].pad(x).transpose(0, 1))  # (S, B, width of a way)
        states.append(layouts[way].unpad(hidden.transpose(0, 1)))
    return states[0] if len(states) == 1 else torch.cat(states, -1)


class Recurrence(nn.Module):
    """One layer: an LSTM for each of ``ways`` over the same inputs, their states side by side, then residual and norm.

    The residual sum and the norm stand where a transformer block has them, so that ``norm`` and ``placement`` mean the same for both.
    Where the width changes (the first layer of a pair's halves) there is no residual.
    """

    def __init__(self, architecture: Architecture, inputs: int, width: int, ways: tuple[str, ...]) -> None:
        super().__init__()
        self.lstms = nn.ModuleDict({way: nn.LSTM(inputs, width // len(ways)) for way in ways})
        self.pre = architecture.placement == "pre"
        self.norm = make_norm(architecture, inputs if self.pre else width)
        self.residual = inputs == width
        self.dropout = architecture.dropout

    def forward(self, x: Tensor, layouts: dict[str, PaddedLayout]) -> Tensor:
        """(T, inputs) → (T, width)."""
        update = read(self.lstms, self.norm(x) if self.pre else x, layouts)
        x = add_dropped(x, update, self.dropout, self.training) if self.residual else drop(update, self.dropout, self.training)
        return x if self.pre else self.norm(x)


class Stack(nn.Module):
    """Layers on one another; where a layer reads both ways, the next one sees both."""

    def __init__(self, architecture: Architecture, width: int, ways: tuple[str, ...]) -> None:
        super().__init__()
        inputs = [architecture.hidden] + [width] * (architecture.layers - 1)
        self.layers = nn.ModuleList(Recurrence(architecture, each, width, ways) for each in inputs)
        self.norm = make_norm(architecture, width) if architecture.placement == "pre" else None
        self.recompute = False  # whether the backward pass computes once more what layers have computed

    def forward(self, x: Tensor, layouts: dict[str, PaddedLayout]) -> Tensor:
        """(T, H) → (T, width)."""
        for layer in self.layers:
            x = through(layer, self.recompute, x, layouts)
        return x if self.norm is None else self.norm(x)

    def states(self, x: Tensor, layouts: dict[str, PaddedLayout]) -> list[Tensor]:
        """(T, H) → what each layer makes of it, the last after the final norm if there is one."""
        states = []
        for layer in self.layers:
            x = through(layer, self.recompute, x, layouts)
            states.append(x)
        if self.norm is not None:
            states[-1] = self.norm(states[-1])
        return states


class BiLSTM(nn.Module):
    """The backbone, H wide in all.

    ``directions`` both: one stack whose layers read both ways, H / 2 each, and exchange what they read. forward, backward: one
    stack that reads one way. pair: a forward stack and a backward one, H / 2 each, that share nothing but the embeddings; their
    states stand side by side only in the result (ELMo, Peters et al. 2018).
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        stacks: dict[str, list[tuple[str, ...]]] = {
            "both": [(FORWARD, BACKWARD)],
            "forward": [(FORWARD,)],
            "backward": [(BACKWARD,)],
            "pair": [(FORWARD,), (BACKWARD,)],
        }
        ways = stacks[architecture.directions]
        self.stacks = nn.ModuleList(Stack(architecture, architecture.hidden // len(ways), each) for each in ways)

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """(T, H) → (T, H)."""
        layouts = layouts_of(batch)
        states = [stack(x, layouts) for stack in self.stacks]
        return states[0] if len(states) == 1 else torch.cat(states, -1)

    def states(self, x: Tensor, batch: Batch) -> list[Tensor]:
        """(T, H) → what each layer makes of it; those of a pair's two stacks side by side."""
        layouts = layouts_of(batch)
        layers = zip(*(stack.states(x, layouts) for stack in cast(Iterable[Stack], self.stacks)), strict=True)
        return [states[0] if len(states) == 1 else torch.cat(states, -1) for states in layers]

    def parts(self) -> list[list[nn.Module]]:
        """The modules of each layer, from the lowest; the final norms are the highest one's."""
        stacks = list(cast(Iterable[Stack], self.stacks))
        parts = [list(layers) for layers in zip(*(stack.layers for stack in stacks), strict=True)]
        parts[-1] += [stack.norm for stack in stacks if stack.norm is not None]
        return parts
