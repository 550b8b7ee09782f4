"""The masked language model alone: the paper's "No NSP" row."""

from __future__ import annotations

from torch import Tensor

from bertlab.data.batches import Batch
from bertlab.models.bert import Bert
from bertlab.objectives.outcome import Outcome

predict = "masked"
pair = False


def loss(model: Bert, batch: Batch) -> Outcome:
    """The mean cross-entropy of the original words at the chosen positions."""
    states, words = model(batch, rows=batch.predicted, with_words=True)
    return language_outcome(model, states, words, batch)


def language_outcome(model: Bert, states: Tensor, words: Tensor, batch: Batch) -> Outcome:
    """The loss of predicting ``batch.targets`` from ``states`` (P, W), those of ``batch.predicted``; ``words`` (V, H) came with them."""
    denominator = max(1, batch.predicted_in_step)
    mean, correct = model.language_loss(states, batch.targets, denominator, words)
    return Outcome(mean, language_sums(mean, correct, denominator, batch))


def language_sums(mean: Tensor, correct: Tensor, denominator: float, batch: Batch) -> dict[str, Tensor]:
    """What an outcome reports of a loss that was divided by ``denominator``."""
    return {
        "language_loss": mean.detach() * denominator,
        "correct": correct,
        "predicted": correct.new_full((), batch.predicted.numel()),
    }
