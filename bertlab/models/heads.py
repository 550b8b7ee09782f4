"""What stands on top of a backbone: the word predictor, the pooler and the next-sentence classifier."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertlab.models.architecture import Architecture
from bertlab.models.cross_entropy import linear_cross_entropy
from bertlab.models.norms import make_norm


def activate(x: Tensor, name: str) -> Tensor:
    """The activation ``name``: gelu (exact, by erf, as in the released BERT) | gelu_tanh (its approximation) | relu."""
    return F.relu(x) if name == "relu" else F.gelu(x, approximate="tanh" if name == "gelu_tanh" else "none")


class LanguageHead(nn.Module):
    """A transformation of the states, then the product with the word table itself (tied), plus a bias of its own."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(architecture.language_width, architecture.hidden)
        self.norm = make_norm(architecture)
        self.bias = nn.Parameter(torch.zeros(architecture.vocab_size))
        self.activation = architecture.activation

    def transform(self, states: Tensor) -> Tensor:
        """(P, W) → (P, H), the vectors that are compared with the words'."""
        return self.norm(activate(self.dense(states), self.activation))

    def forward(self, states: Tensor, words: Tensor) -> Tensor:
        """States (P, W), table (V, H) → logits (P, V)."""
        return F.linear(self.transform(states), words, self.bias)

    def loss(self, states: Tensor, words: Tensor, targets: Tensor, denominator: float) -> tuple[Tensor, Tensor]:
        """Cross-entropy summed over ``targets`` (P,) and divided by ``denominator``; how many are predicted right."""
        return linear_cross_entropy(self.transform(states), words, self.bias, targets, denominator)

    def losses(self, parts: list[tuple[Tensor, Tensor]], words: Tensor, denominator: float) -> list[tuple[Tensor, Tensor]]:
        """As ``loss``, of several ``parts``, each with states (P, W) and targets (P,) of its own, whose states are transformed together.

        Batch normalisation then has one mean and variance for all of them in training, as it has in evaluation.
        """
        transformed = self.transform(torch.cat([states for states, _ in parts])).split([len(states) for states, _ in parts])
        return [
            linear_cross_entropy(states, words, self.bias, targets, denominator)
            for states, (_, targets) in zip(transformed, parts, strict=True)
        ]


class Pooler(nn.Module):
    """A dense layer and tanh on the state that stands for a sequence."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(architecture.hidden, architecture.hidden)

    def forward(self, states: Tensor) -> Tensor:
        """(B, H) → (B, H)."""
        return torch.tanh(self.dense(states))
