"""The left-to-right language model: every position predicts the next word."""

from __future__ import annotations

from bertlab.data.batches import Batch
from bertlab.models.bert import Bert
from bertlab.objectives.language_model import language_model_loss
from bertlab.objectives.outcome import Outcome

predict = "next"
pair = False


def loss(model: Bert, batch: Batch) -> Outcome:
    """The mean cross-entropy of the next words; of a pair of language models (ELMo) that of both directions, added."""
    return language_model_loss(model, batch, 1)
