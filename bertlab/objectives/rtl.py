"""The right-to-left language model: every position predicts the previous word."""

from __future__ import annotations

from bertlab.data.batches import Batch
from bertlab.models.bert import Bert
from bertlab.objectives.ltr import pair_outcome
from bertlab.objectives.mlm import language_outcome
from bertlab.objectives.outcome import Outcome

predict = "previous"
pair = False


def loss(model: Bert, batch: Batch) -> Outcome:
    """The mean cross-entropy of the previous words; of a pair of language models that of both directions, added."""
    hidden, words = model(batch, with_words=True)
    if model.architecture.language_width == model.architecture.hidden:
        return language_outcome(model, hidden, words, batch)
    half = model.architecture.language_width
    return pair_outcome(model, (hidden[:, half:], hidden[:, :half]), -1, words, batch)
