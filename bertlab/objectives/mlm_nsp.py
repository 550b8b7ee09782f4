"""BERT's own objective: masked words and next-sentence prediction, their mean losses added."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from bertlab.data.batches import Batch
from bertlab.models.bert import Bert
from bertlab.models.pooling import tokens_read
from bertlab.objectives import mlm
from bertlab.objectives.outcome import Outcome

predict = "masked"
pair = True


def loss(model: Bert, batch: Batch) -> Outcome:
    """The mean masked-word loss over predicted positions plus the mean next-sentence loss over sequences."""
    if batch.next_sentence is None:
        raise ValueError("the batch has no next-sentence labels: it was not made of pairs")
    read, offsets = tokens_read(batch.offsets, model.architecture.pooling)
    states, words = model(batch, rows=torch.cat((batch.predicted, read)), with_words=True)
    predicted, standing = states.split((len(batch.predicted), len(read)))
    language = mlm.language_outcome(model, predicted, words, batch)
    logits = model.next_sentence_logits(standing, offsets).float()  # (B, 2)
    nsp_loss = F.cross_entropy(logits, batch.next_sentence, reduction="sum")
    correct = (logits.detach().argmax(1) == batch.next_sentence).sum()
    sums = language.sums | {
        "nsp_loss": nsp_loss.detach(),
        "nsp_correct": correct,
        "sequences": correct.new_full((), batch.sequences),
    }
    return Outcome(language.loss + nsp_loss / max(1, batch.sequences_in_step), sums)
