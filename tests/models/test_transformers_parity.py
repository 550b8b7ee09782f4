"""The same weights in Hugging Face transformers' implementation: the same states, logits, loss and gradients."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from toys import LENGTHS, TINY, padded, toy_batch, toy_model
from transformers import BertConfig, BertForPreTraining

from bertlab.data.batches import Batch
from bertlab.models.bert import Bert
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


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Bert]:
    torch.manual_seed(3)
    config = BertConfig(
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
    theirs, ours = BertForPreTraining(config).eval(), toy_model().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():  # biases and norms away from their trivial initial values
            parameter.add_(torch.randn_like(parameter) * 0.1)
    step_benchmark().copy_weights(theirs, ours)
    return theirs, ours


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
    torch.testing.assert_close(ours.next_sentence_logits(hidden, batch), expected.seq_relationship_logits, **TOLERANCE)


def test_loss_and_every_gradient(pair: tuple[Any, Bert]) -> None:
    theirs, ours = pair
    batch = toy_batch(LENGTHS)
    theirs.zero_grad()
    ours.zero_grad()
    expected = theirs(**as_theirs(batch)).loss
    found = mlm_nsp.loss(ours, batch).loss
    torch.testing.assert_close(found, expected, **TOLERANCE)
    expected.backward()
    found.backward()
    wanted = toy_model()  # takes their gradients by the map of the weights
    for parameter in theirs.parameters():
        parameter.data, parameter.grad = parameter.grad, None
    step_benchmark().copy_weights(theirs, wanted)
    for (name, parameter), want in zip(ours.named_parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, want.data, **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}")
