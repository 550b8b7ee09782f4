"""The same weights in Hugging Face transformers' implementation: the same states, logits, loss and gradients."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from toys import LENGTHS, TINY, padded, toy_batch, toy_model
from transformers import BertConfig, BertForPreTraining

from bertlab.data.batches import Batch
from bertlab.models.bert import Bert
from bertlab.models.dropout import drop, seed_dropout
from bertlab.objectives import mlm_nsp

torch.set_num_threads(1)
TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


def step_benchmark() -> ModuleType:
    """The map of the weights belongs to the benchmark, which shows by it that it compares like with like."""
    path = Path(__file__).parents[2] / "benchmarks" / "step.py"
    spec = importlib.util.spec_from_file_location("step", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(dropout: float = 0.0, attention_dropout: float = 0.0) -> tuple[Any, Bert]:
    """Theirs and ours, of the same weights."""
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=TINY.vocab_size,
        hidden_size=TINY.hidden,
        num_hidden_layers=TINY.layers,
        num_attention_heads=TINY.heads,
        intermediate_size=TINY.intermediate,
        max_position_embeddings=TINY.positions,
        initializer_range=0.2,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        attn_implementation="eager",  # the one that can be told how to drop
    )
    theirs, ours = BertForPreTraining(config).eval(), toy_model(dropout=dropout, attention_dropout=attention_dropout).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():  # biases and norms away from their trivial initial values
            parameter.add_(torch.randn_like(parameter) * 0.1)
    step_benchmark().copy_weights(theirs, ours)
    return theirs, ours


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Bert]:
    return built()


def as_theirs(batch: Batch) -> dict[str, torch.Tensor]:
    labels = torch.full_like(batch.tokens, -100).index_copy(0, batch.predicted, batch.targets)
    assert batch.next_sentence is not None
    return {
        "input_ids": padded(batch, batch.tokens),
        "attention_mask": padded(batch, torch.ones_like(batch.tokens)),
        "token_type_ids": padded(batch, batch.segments),
        "labels": padded(batch, labels, -100),
        "next_sentence_label": batch.next_sentence,
    }


@pytest.mark.parametrize("lengths", [LENGTHS, [24, 24, 24], [5]])
def test_states_and_logits(pair: tuple[Any, Bert], lengths: list[int]) -> None:
    theirs, ours = pair
    batch = toy_batch(lengths)
    with torch.no_grad():
        expected = theirs(**as_theirs(batch), output_hidden_states=True)
        hidden = ours(batch)
    real = padded(batch, torch.ones_like(batch.tokens)).bool()
    torch.testing.assert_close(hidden, expected.hidden_states[-1][real], **TOLERANCE)
    torch.testing.assert_close(ours.language_logits(hidden), expected.prediction_logits[real], **TOLERANCE)
    torch.testing.assert_close(ours.next_sentence_logits(hidden, batch.offsets), expected.seq_relationship_logits, **TOLERANCE)


def test_loss_and_every_gradient() -> None:
    compare_loss_and_gradients(*built(), toy_batch(LENGTHS))


def test_dropout_is_where_theirs_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their dropout draws our noise, so the numbers are the same only where the same things are dropped, in one order, at one rate.

    Of all tokens: what the highest layer makes of some only has its own tests.
    """
    theirs, ours = built(dropout=0.2, attention_dropout=0.35)
    batch = toy_batch([24, 24, 24])  # without padding, so that their elements lie as ours do
    without = loss_of_all_states(ours, batch)
    monkeypatch.setattr(F, "dropout", lambda x, p, training=True, inplace=False: drop(x, p, training))
    compare_loss_and_gradients(theirs.train(), ours.train(), batch, loss_of_all_states)
    seed_dropout(0, 0, 0)
    assert abs(loss_of_all_states(ours, batch) - without) > 0.01


def loss_of_all_states(model: Bert, batch: Batch) -> Tensor:
    """BERT's loss from the states of all tokens."""
    hidden = model(batch)
    assert batch.next_sentence is not None
    words = F.cross_entropy(model.language_logits(hidden[batch.predicted]), batch.targets)
    return words + F.cross_entropy(model.next_sentence_logits(hidden, batch.offsets), batch.next_sentence)


def loss_of_objective(model: Bert, batch: Batch) -> Tensor:
    return mlm_nsp.loss(model, batch).loss


def compare_loss_and_gradients(theirs: Any, ours: Bert, batch: Batch, loss: Callable[[Bert, Batch], Tensor] = loss_of_objective) -> None:
    seed_dropout(0, 0, 0)
    expected = theirs(**as_theirs(batch)).loss
    seed_dropout(0, 0, 0)
    found = loss(ours, batch)
    torch.testing.assert_close(found, expected, **TOLERANCE)
    expected.backward()
    found.backward()
    wanted = toy_model()  # takes their gradients by the map of the weights
    for parameter in theirs.parameters():
        parameter.data, parameter.grad = parameter.grad, None
    step_benchmark().copy_weights(theirs, wanted)
    for (name, parameter), want in zip(ours.named_parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, want.data, **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}")
