"""Losses and predictions of the five kinds of tasks, from their logits. Every loss is a sum over the micro-batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bertlab.data.batches import Batch
from bertlab.data.task_batch import TaskBatch
from bertlab.models.crf import LinearChainCRF
from bertlab.models.ragged_rows import RaggedRows

UNKNOWN = -1  # a tag that the file does not tell


def summed_loss(kind: str, logits: Tensor, batch: TaskBatch, crf: LinearChainCRF | None) -> Tensor:
    """The loss, a scalar: a sum over examples; of tagging over words, of span over windows.

    Cross-entropy (classification; choice, among an example's choices; tagging, of each word), squared error (regression), a CRF's
    negative log-likelihood, or half the cross-entropies of an answer's first and of its last token among the tokens of a window.
    Words whose tag is -1 do not count; with a CRF there must be none.
    """
    if kind == "span":
        return _span_loss(logits, batch)
    if kind == "tagging":
        assert batch.tags is not None
        if crf is not None:
            return -crf.log_likelihood(logits, batch.tags, sentences_of(batch)).sum()
        return F.cross_entropy(logits, batch.tags, ignore_index=UNKNOWN, reduction="sum")
    assert batch.labels is not None
    if kind == "regression":
        return F.mse_loss(logits, batch.labels.to(logits.dtype), reduction="sum")
    if kind == "choice":
        choices = choices_of(logits, batch)
        return -choices.log_softmax(logits).index_select(0, choices.offsets[:-1] + batch.labels).sum()
    return F.cross_entropy(logits, batch.labels, reduction="sum")


def _span_loss(logits: Tensor, batch: TaskBatch) -> Tensor:
    assert batch.starts is not None
    assert batch.ends is not None
    windows = RaggedRows.of(batch.inputs.offsets, len(logits))
    probabilities = windows.log_softmax(logits)  # (T, 2)
    first = batch.inputs.offsets[:-1]
    return -(probabilities[first + batch.starts, 0].sum() + probabilities[first + batch.ends, 1].sum()) / 2


def items(kind: str, batch: TaskBatch) -> Tensor:
    """How many things of a micro-batch its loss is summed over, () int64 on its device: examples; words with a known tag; windows."""
    if kind == "tagging" and batch.tags is not None:
        return (batch.tags != UNKNOWN).sum()
    return batch.examples.new_full((), batch.inputs.sequences if kind == "span" else len(batch.examples))


def predictions(kind: str, logits: Tensor, batch: TaskBatch, crf: LinearChainCRF | None) -> Tensor:
    """What the logits say: classes (E,), numbers (E,), the place among an example's choices (E,), or tags (W,).

    A span's answer is another matter: many pairs of tokens compete, over several windows.
    """
    if kind == "regression":
        return logits
    if kind == "choice":
        return choices_of(logits, batch).argmax(logits)
    if kind == "tagging" and crf is not None:
        return crf.decode(logits, sentences_of(batch))
    if kind == "span":
        raise ValueError("an answer is not found in one window's logits alone")
    return logits.argmax(1)


def log_probabilities(kind: str, logits: Tensor, batch: TaskBatch) -> Tensor:
    """Of classification (E, classes); of choice (S,), among the choices of an example, one example after another."""
    if kind == "choice":
        return choices_of(logits, batch).log_softmax(logits)
    return F.log_softmax(logits, -1)


def choices_of(logits: Tensor, batch: TaskBatch) -> RaggedRows:
    """The sequences of each example."""
    return RaggedRows.of_lengths(batch.sequences_per_example, len(logits))


def sentences_of(batch: TaskBatch) -> Batch:
    """The words of each example as a sequence of their own: their first sub-tokens, one after another."""
    assert batch.word_tokens is not None
    assert batch.words_per_example is not None
    inputs, words = batch.inputs, len(batch.word_tokens)
    sentences = RaggedRows.of_lengths(batch.words_per_example, words)
    place = torch.arange(words, device=batch.word_tokens.device) - sentences.offsets[sentences.of_row]
    return Batch(
        tokens=inputs.tokens[batch.word_tokens],
        segments=inputs.segments[batch.word_tokens],
        positions=place,
        offsets=sentences.offsets,
        predicted=inputs.predicted,
        targets=inputs.targets,
        max_length=batch.max_words or max(1, int(batch.words_per_example.max())),
    )
