"""The same weights in Hugging Face transformers' task models: the same logits, loss and gradients."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_transformers_parity import TOLERANCE, step_benchmark
from toys import LENGTHS, TINY, padded, toy_model, toy_task_batch
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from bertlab.data.task_batch import TaskBatch
from bertlab.finetune_config import FeaturesConfig, HeadConfig
from bertlab.models.dropout import drop, seed_dropout
from bertlab.models.task_model import TaskModel

torch.set_num_threads(1)
CONFIG = BertConfig(
    vocab_size=TINY.vocab_size,
    hidden_size=TINY.hidden,
    num_hidden_layers=TINY.layers,
    num_attention_heads=TINY.heads,
    intermediate_size=TINY.intermediate,
    max_position_embeddings=TINY.positions,
    initializer_range=0.2,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
KINDS: dict[str, type[Any]] = {
    "classification": BertForSequenceClassification,
    "regression": BertForSequenceClassification,
    "choice": BertForMultipleChoice,
    "tagging": BertForTokenClassification,
    "span": BertForQuestionAnswering,
}


def classifier_of(theirs: Any) -> Any:
    return theirs.qa_outputs if hasattr(theirs, "qa_outputs") else theirs.classifier


def pair(kind: str, dropout: float = 0.0) -> tuple[Any, TaskModel]:
    """Theirs and ours, of the same weights; ``dropout`` is the head's."""
    torch.manual_seed(3)
    config = copy.deepcopy(CONFIG)
    config.classifier_dropout = dropout
    config.num_labels = {"classification": 3, "tagging": 3, "span": 2}.get(kind, 1)
    theirs = KINDS[kind](config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    ours = TaskModel(toy_model(), kind, 3, HeadConfig(dropout=dropout), FeaturesConfig()).eval()
    put(theirs, ours)
    return theirs, ours


def put(theirs: Any, ours: TaskModel) -> None:
    """Their weights into our model; where they have no pooler, zeros."""
    whole = BertForPreTraining(CONFIG)
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.zero_()
        whole.bert.load_state_dict(theirs.bert.state_dict(), strict=False)
        step_benchmark().copy_weights(whole, ours.bert)
        ours.head.classifier.load_state_dict(classifier_of(theirs).state_dict())


def as_theirs(kind: str, batch: TaskBatch) -> dict[str, torch.Tensor]:
    inputs = batch.inputs
    given = {
        "input_ids": padded(inputs, inputs.tokens),
        "attention_mask": padded(inputs, torch.ones_like(inputs.tokens)),
        "token_type_ids": padded(inputs, inputs.segments),
    }
    if kind == "choice":
        given = {name: value.view(len(batch.examples), -1, value.shape[1]) for name, value in given.items()}
    if kind == "tagging":
        tags = torch.full_like(inputs.tokens, -100).index_copy(0, batch.word_tokens, batch.tags)
        return given | {"labels": padded(inputs, tags, -100)}
    if kind == "span":
        return given | {"start_positions": batch.starts, "end_positions": batch.ends}
    return given | {"labels": batch.labels}


def drawn(kind: str, lengths: list[int]) -> TaskBatch:
    batch = toy_task_batch(kind, lengths)
    if kind == "choice":  # theirs takes the same number of choices of all examples
        batch.sequences_per_example, batch.labels = torch.tensor([2, 2]), torch.tensor([1, 0])
        batch.examples, batch.count_in_step = torch.arange(2), 2
    return batch


@pytest.mark.parametrize("kind", KINDS)
def test_logits_loss_and_every_gradient(kind: str) -> None:
    theirs, ours = pair(kind)
    batch = drawn(kind, [9, 24, 5, 13] if kind == "choice" else LENGTHS)
    given = as_theirs(kind, batch)
    if kind == "span":  # their loss would be over the padding's logits too
        given = {name: value for name, value in given.items() if "positions" not in name}
    expected = theirs(**given)
    real = padded(batch.inputs, torch.ones_like(batch.inputs.tokens)).bool()
    found = ours.outputs(batch)
    if kind == "span":
        torch.testing.assert_close(found.starts, expected.start_logits[real], **TOLERANCE)
        torch.testing.assert_close(found.ends, expected.end_logits[real], **TOLERANCE)
        losses = []
        for logits, targets in ((expected.start_logits, batch.starts), (expected.end_logits, batch.ends)):
            losses.append(torch.nn.functional.cross_entropy(logits.masked_fill(~real, -torch.inf), targets))
        loss = (losses[0] + losses[1]) / 2
    else:
        wanted = expected.logits
        wanted = wanted[real][batch.word_tokens] if kind == "tagging" else wanted
        torch.testing.assert_close(found.logits, wanted.reshape(found.logits.shape), **TOLERANCE)
        loss = expected.loss
    ours_loss = ours.loss(batch).loss
    torch.testing.assert_close(ours_loss, loss, **TOLERANCE)
    loss.backward()
    ours_loss.backward()
    wanted_gradients = copy.deepcopy(ours)
    for parameter in theirs.parameters():
        parameter.data, parameter.grad = parameter.grad, None
    put(theirs, wanted_gradients)
    trained = 0
    for (name, parameter), want in zip(ours.named_parameters(), wanted_gradients.parameters(), strict=True):
        if parameter.requires_grad:
            trained += 1
            torch.testing.assert_close(parameter.grad, want.data, **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}")
    assert trained == len(list(theirs.parameters())) - 4 * TINY.layers  # our queries, keys and values are one layer


def test_their_span_loss_is_ours_where_there_is_no_padding() -> None:
    theirs, ours = pair("span")
    batch = toy_task_batch("span", [12, 12, 12])
    given = as_theirs("span", batch)
    torch.testing.assert_close(ours.loss(batch).loss, theirs(**given).loss, **TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_where_theirs_is(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs draws our noise; without padding, and with every token a word, their elements lie as ours do."""
    theirs, ours = pair(kind, dropout=0.3)
    batch = drawn(kind, [12] * 4)
    if kind == "tagging":
        batch.word_tokens, batch.words_per_example, batch.tags = torch.arange(48), torch.tensor([12] * 4), torch.arange(48) % 3
        batch.count_in_step = 48
    without = ours.loss(batch).loss
    monkeypatch.setattr(F, "dropout", lambda x, p, training=True, inplace=False: drop(x, p, training))
    seed_dropout(0, 0, 0)
    expected = theirs.train()(**as_theirs(kind, batch)).loss
    seed_dropout(0, 0, 0)
    found = ours.train().loss(batch).loss
    torch.testing.assert_close(found, expected, **TOLERANCE)
    assert (abs(found - without) < 1e-6) == (kind == "span")  # whose last layer nothing is dropped before, as in the released code
