"""Layers whose insides are computed once more in the backward pass: the same numbers, less kept."""

from __future__ import annotations

import pytest
import torch
from toys import LENGTHS, toy_batch, toy_model

from bertlab.config import PretrainConfig
from bertlab.models.bert import Bert
from bertlab.models.dropout import dropped_elements, noise_from, noise_state, seed_dropout
from bertlab.objectives import objective_of

VARIANTS = [
    {"norm": "layer", "placement": "post"},
    {"norm": "layer", "placement": "pre"},
    {"norm": "batch", "placement": "post"},
    {"backbone": "bilstm", "norm": "batch", "placement": "pre"},
    {"backbone": "bilstm", "norm": "layer", "attention": "causal", "directions": "pair", "next_sentence": False},
    {"backbone": "cbow"},
]


def trained(model: Bert, states: bool = False) -> tuple[float, list[torch.Tensor], list[torch.Tensor]]:
    """Loss, gradients and running statistics of two steps."""
    config = PretrainConfig()
    config.objective.kind = "mlm_nsp" if model.next_sentence_head is not None else "ltr"
    batch, loss = toy_batch(LENGTHS, predict="masked" if model.next_sentence_head is not None else "next"), torch.tensor(0.0)
    for step in range(2):
        seed_dropout(1, step, 0)
        if states:
            hidden = model.states(batch)
            loss = sum((layer.square().sum() for layer in hidden), torch.tensor(0.0))
        else:
            loss = objective_of(config).loss(model, batch).loss
        loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return float(loss.detach()), gradients, [buffer.clone() for buffer in model.buffers()]


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_numbers_are_the_same_bits(changes: dict[str, object], states: bool) -> None:
    kept, again = (toy_model(**{"dropout": 0.2, "attention_dropout": 0.2, **changes}) for _ in range(2))
    again.checkpoint_activations()
    expected, found = trained(kept, states), trained(again, states)
    assert found[0] == expected[0]
    for ours, theirs in zip(found[1] + found[2], expected[1] + expected[2], strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_without_a_seed_the_noise_is_the_same_twice_as_well(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first noise of a process is that of a layer, the stream has to begin before it."""
    found = []
    for recompute in (False, True):
        model = toy_model(dropout=dropout, attention_dropout=0.2)
        if recompute:
            model.checkpoint_activations()
        monkeypatch.setattr("bertlab.models.dropout._stream", None)
        torch.manual_seed(5)
        model(toy_batch(LENGTHS)).square().sum().backward()
        found.append([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


def kept_by_autograd(model: Bert) -> int:
    """Numbers behind the tensors that a forward pass keeps, parameters aside."""
    parameters = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in parameters:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = model(toy_batch(LENGTHS))
    assert hidden.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("backbone", ["transformer", "bilstm"])
def test_of_a_layer_its_input_is_kept_and_no_more(backbone: str) -> None:
    few, many = (toy_model(backbone=backbone, layers=layers) for layers in (2, 5))
    for model in (few, many):
        model.checkpoint_activations()
    tokens, hidden = sum(LENGTHS), few.architecture.hidden
    # The memory of a checkpointed layer's input lies with the closure that computes it again, where hooks of autograd do not see it.
    assert kept_by_autograd(many) - kept_by_autograd(few) <= 3 * tokens * hidden
    assert kept_by_autograd(toy_model(backbone=backbone, layers=5)) > 2 * kept_by_autograd(many)


def test_evaluation_and_training_without_gradients_are_untouched() -> None:
    plain, model = toy_model(), toy_model()
    model.checkpoint_activations()
    with torch.no_grad():
        torch.testing.assert_close(model(toy_batch(LENGTHS)), plain(toy_batch(LENGTHS)), rtol=0, atol=0)
    torch.testing.assert_close(model.eval()(toy_batch(LENGTHS)), plain.eval()(toy_batch(LENGTHS)), rtol=0, atol=0)


def test_noise_is_drawn_again_and_goes_on_where_it_was() -> None:
    seed_dropout(3, 4, 5)
    dropped_elements(100, 0.3)
    state = noise_state()
    first, second = dropped_elements(1000, 0.3), dropped_elements(1000, 0.3)
    seed_dropout(3, 4, 5)
    dropped_elements(100, 0.3)
    assert torch.equal(dropped_elements(1000, 0.3), first)
    with noise_from(state):
        assert torch.equal(dropped_elements(1000, 0.3), first)
    assert torch.equal(dropped_elements(1000, 0.3), second)
