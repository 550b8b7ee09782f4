"""What language models of both directions share: the loss of the next word on the way that they read."""

from __future__ import annotations

from torch import Tensor

from bertlab.data.batches import Batch
from bertlab.models.bert import Bert
from bertlab.objectives.mlm import language_outcome, language_sums
from bertlab.objectives.outcome import Outcome


def language_model_loss(model: Bert, batch: Batch, step: int) -> Outcome:
    """The mean cross-entropy of the words ``step`` tokens further on (1 or -1); of a pair of language models (ELMo) that of both, added."""
    half = model.architecture.language_width
    if half == model.architecture.hidden:
        states, words = model(batch, rows=batch.predicted, with_words=True)
        return language_outcome(model, states, words, batch)
    hidden, words = model(batch, with_words=True)
    rightward, leftward = hidden[:, :half], hidden[:, half:]
    return _pair_outcome(model, (rightward, leftward) if step > 0 else (leftward, rightward), step, words, batch)


def _pair_outcome(model: Bert, halves: tuple[Tensor, Tensor], step: int, words: Tensor, batch: Batch) -> Outcome:
    """The losses of two language models that share the word table and the head, but no state.

    The first of ``halves``, each (T, H / 2), predicts the batch's own targets, ``step`` tokens further on (1 or -1): what is reported as
    the language loss, so that it compares with that of one-directional models. The second predicts, from the other side, every token that
    the first has for input; where only ordinary words count, the very targets of the first, as a model of that direction alone would.
    """
    denominator = max(1, batch.predicted_in_step)
    # State t + 1 of a backward model has read everything after token t and nothing else: it predicts token t. Of a forward one t - 1 does.
    if batch.ordinary_only:
        positions, targets = batch.predicted + 2 * step, batch.targets
    else:
        positions, targets = batch.predicted + step, batch.tokens.index_select(0, batch.predicted)
    parts = [(halves[0].index_select(0, batch.predicted), batch.targets), (halves[1].index_select(0, positions), targets)]
    (mean, correct), (opposite_mean, opposite_correct) = model.language_head.losses(parts, words, denominator)
    sums = language_sums(mean, correct, denominator, batch)
    sums |= {"opposite_loss": opposite_mean.detach() * denominator, "opposite_correct": opposite_correct}
    return Outcome(mean + opposite_mean, sums)
