from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from toys import LENGTHS, TINY, toy_batch, toy_model

from bertlab.config import PretrainConfig
from bertlab.errors import UserError
from bertlab.models import attention_on_cpu, dropout
from bertlab.models.architecture import Architecture, resolved_directions
from bertlab.models.bert import Bert
from bertlab.models.dropout import dropped_elements, seed_dropout

torch.set_num_threads(1)


def test_initial_weights_are_the_released_ones() -> None:
    torch.manual_seed(0)
    model = Bert(dataclasses.replace(TINY, vocab_size=5000, hidden=64, initializer_range=0.02))
    words = model.embeddings.words.weight
    assert words.abs().max() <= 0.04
    # A normal distribution cut off at two deviations has 0.8796 of its deviation left.
    assert words.std().item() == pytest.approx(0.8796 * 0.02, rel=0.01)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert torch.equal(parameter, torch.full_like(parameter, float("norm.weight" in name))), name


def test_an_lstm_starts_with_open_forget_gates_and_zero_biases() -> None:
    model = Bert(dataclasses.replace(TINY, backbone="bilstm"))
    lstm = model.backbone.stacks[0].layers[0].lstms["rightward"]
    assert torch.equal(lstm.bias_ih_l0 + lstm.bias_hh_l0, torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(8))


def test_the_output_embedding_is_the_input_embedding() -> None:
    model = toy_model()
    names = {name for name, parameter in model.named_parameters() if parameter.shape == (TINY.vocab_size, TINY.hidden)}
    assert names == {"embeddings.words.weight"}
    states = torch.randn(3, TINY.hidden)
    expected = model.language_head.transform(states) @ model.embeddings.words.weight.T + model.language_head.bias
    torch.testing.assert_close(model.language_logits(states), expected)


@pytest.mark.parametrize(
    ("backbone", "directions", "attention", "ends"),
    [
        ("transformer", "both", "bidirectional", "first"),
        ("transformer", "both", "causal", "last"),
        ("transformer", "both", "anticausal", "first"),
        ("cbow", "both", "causal", "last"),
        ("bilstm", "both", "bidirectional", "first"),
        ("bilstm", "forward", "causal", "last"),
        ("bilstm", "backward", "anticausal", "first"),
        ("bilstm", "pair", "causal", "halves"),
    ],
)
def test_the_state_that_saw_the_whole_sequence_stands_for_it(backbone: str, directions: str, attention: str, ends: str) -> None:
    model = toy_model(backbone=backbone, directions=directions, attention=attention, next_sentence=False)
    batch, hidden = toy_batch(LENGTHS), torch.randn(sum(LENGTHS), 16)
    firsts = torch.stack([sequence[0] for sequence in hidden.split(LENGTHS)])
    lasts = torch.stack([sequence[-1] for sequence in hidden.split(LENGTHS)])
    expected = {"first": firsts, "last": lasts, "halves": torch.cat((lasts[:, :8], firsts[:, 8:]), 1)}[ends]
    assert torch.equal(model.pool(hidden, batch.offsets), expected)


def test_the_pooler_is_dense_and_tanh() -> None:
    model, batch = toy_model(), toy_batch(LENGTHS)
    hidden = torch.randn(sum(LENGTHS), 16)
    firsts = hidden[batch.offsets[:-1]]
    assert model.pooler is not None
    torch.testing.assert_close(
        model.pool(hidden, batch.offsets), torch.tanh(F.linear(firsts, model.pooler.dense.weight, model.pooler.dense.bias))
    )


def test_a_zeroed_position_loses_its_word_and_nothing_else() -> None:
    model, batch = toy_model().eval(), toy_batch([4, 6])
    batch.zeroed = torch.tensor([2, 7])
    embedded = []
    for word in (3, 9):  # whatever the word was
        tokens = batch.tokens.index_fill(0, batch.zeroed, word)
        embedded.append(model.embeddings(dataclasses.replace(batch, tokens=tokens))[0])
    assert torch.equal(*embedded)
    own = model.embeddings
    assert own.positions is not None
    assert own.segments is not None
    expected = own.norm(own.positions.weight[2] + own.segments.weight[batch.segments[2]])
    torch.testing.assert_close(embedded[0][2], expected)


def test_noise_has_the_asked_spread_and_follows_the_seed() -> None:
    model = toy_model(backbone="cbow", placement="pre", noise_std=0.5, hidden=64, heads=4, intermediate=8).eval()
    batch = toy_batch([24] * 40)
    batch.noised = torch.arange(0, 960, 2)
    with torch.no_grad():
        seed_dropout(0, 0, 0, 0)
        noisy = model.embeddings(batch)[0]
        seed_dropout(0, 0, 0, 0)
        assert torch.equal(noisy, model.embeddings(batch)[0])
        noise = noisy - model.embeddings.words(batch.tokens)
    assert not noise[1::2].any()
    assert noise[::2].std().item() == pytest.approx(0.5 * model.embeddings.words.weight.std().item(), rel=0.05)


def test_dropout_is_a_function_of_its_seed() -> None:
    model, batch = toy_model(dropout=0.2, attention_dropout=0.2).train(), toy_batch(LENGTHS)
    results = []
    for step in (5, 5, 6):
        seed_dropout(1, step, 0, 0)
        results.append(model(batch).detach())
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


STATES, HALVES, WEIGHTS = (sum(LENGTHS) * 16, 0.2), (sum(LENGTHS) * 8, 0.2), (len(LENGTHS) * 4 * max(LENGTHS) ** 2, 0.35)


@pytest.mark.parametrize(
    ("changes", "in_layers"),
    [
        ({}, [WEIGHTS, STATES, STATES] * 2),
        ({"placement": "pre"}, [WEIGHTS, STATES, STATES] * 2),
        ({"backbone": "bilstm"}, [STATES] * 2),
        ({"backbone": "bilstm", "directions": "pair", "attention": "causal"}, [HALVES] * 4),
        ({"backbone": "cbow"}, []),
    ],
    ids=str,
)
def test_embeddings_attention_weights_and_branches_are_dropped_at_their_rates(
    changes: dict[str, Any], in_layers: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[int, float]] = []

    def noting(count: int, rate: float) -> torch.Tensor:
        drawn.append((count, rate))
        return dropped_elements(count, rate)

    for module in (dropout, attention_on_cpu):
        monkeypatch.setattr(module, "dropped_elements", noting)
    model = toy_model(dropout=0.2, attention_dropout=0.35, next_sentence=False, **changes)
    model.train()(toy_batch(LENGTHS))
    assert drawn == [STATES, *in_layers]
    model.eval()(toy_batch(LENGTHS))
    assert not any(rate for _, rate in drawn[1 + len(in_layers) :])


def test_of_a_few_tokens_the_highest_layer_drops_and_makes_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    for module in (dropout, attention_on_cpu):
        monkeypatch.setattr(module, "dropped_elements", lambda count, rate: drawn.append(count) or dropped_elements(count, rate))
    model = toy_model(dropout=0.2, attention_dropout=0.35, next_sentence=False).train()
    model(toy_batch(LENGTHS), rows=torch.tensor([40, 0, 8, 35, 36]))  # at most 3 of one sequence
    states, weights = STATES[0], WEIGHTS[0]
    assert drawn == [states, weights, states, states, weights * 3 // max(LENGTHS), 5 * 16, 5 * 16]


SHAPES = [
    {},
    {"placement": "pre"},
    {"attention": "causal", "next_sentence": False},
    {"attention": "anticausal", "next_sentence": False, "placement": "pre"},
    {"norm": "batch"},
    {"norm": "batch", "placement": "pre"},
    {"backbone": "bilstm"},
    {"backbone": "cbow"},
    {"layers": 1},
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_states_of_some_tokens_are_those_among_all(shape: dict[str, Any], training: bool) -> None:
    model, batch = toy_model(dtype=torch.float64, **shape).train(training), toy_batch(LENGTHS)
    rows = torch.cat((batch.predicted, batch.offsets[:-1])).flip(0)  # in no order; some twice
    found, expected = model(batch, rows=rows), model(batch)[rows]
    torch.testing.assert_close(found, expected)
    weighing = torch.randn_like(expected)
    parameters = [each for name, each in model.named_parameters() if name.startswith(("embeddings", "backbone"))]
    gradients = [torch.autograd.grad((y * weighing).sum(), parameters) for y in (found, expected)]
    torch.testing.assert_close(*gradients)
    with torch.no_grad():
        torch.testing.assert_close(model(batch, rows=rows), expected.detach())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_of_all_tokens_in_their_order_the_noise_is_the_same_too(shape: dict[str, Any]) -> None:
    model, batch = toy_model(dtype=torch.float64, dropout=0.2, attention_dropout=0.3, **shape).train(), toy_batch(LENGTHS)
    states = []
    for rows in (torch.arange(sum(LENGTHS)), None):
        seed_dropout(1, 2, 0)
        states.append(model(batch, rows=rows))
    torch.testing.assert_close(*states)
    weighing = torch.randn_like(states[0])
    parameters = [each for name, each in model.named_parameters() if name.startswith(("embeddings", "backbone"))]
    torch.testing.assert_close(*[torch.autograd.grad((y * weighing).sum(), parameters) for y in states])


def test_of_no_token_there_is_no_state() -> None:
    model, batch = toy_model(dropout=0.2, attention_dropout=0.3).train(), toy_batch(LENGTHS)
    states = model(batch, rows=batch.predicted[:0])
    assert states.shape == (0, 16)
    states.sum().backward()
    assert model.embeddings.words.weight.grad is not None
    assert not model.embeddings.words.weight.grad.any()


@pytest.mark.parametrize("backbone", ["transformer", "bilstm", "cbow"])
def test_bfloat16_stays_near_fp32(backbone: str) -> None:
    model, batch = toy_model(backbone=backbone).train(), toy_batch(LENGTHS)
    exact, _ = model.language_loss(model(batch, rows=batch.predicted), batch.targets, 10.0)
    wanted = torch.autograd.grad(exact, model.embeddings.words.weight)[0]
    with torch.autocast("cpu", torch.bfloat16):
        rounded, _ = model.language_loss(model(batch, rows=batch.predicted), batch.targets, 10.0)
    found = torch.autograd.grad(rounded, model.embeddings.words.weight)[0]
    assert rounded.item() == pytest.approx(exact.item(), rel=0.03)
    assert (found - wanted).norm() < 0.1 * wanted.norm()


def test_an_architecture_survives_json_and_names_unknown_keys() -> None:
    values = json.loads(json.dumps(dataclasses.replace(TINY, window=3).to_dict()))
    assert Architecture.from_dict(values) == dataclasses.replace(TINY, window=3)
    with pytest.raises(UserError, match=r"hiden.*hidden"):
        Architecture.from_dict({"hiden": 3})


def test_an_architecture_follows_the_configuration() -> None:
    config = PretrainConfig()
    config.masking.noise_std = 0.7
    default = Architecture.of(config, 30522)
    assert default == Architecture(noise_std=0.7)
    config.objective.kind = "ltr"
    causal = Architecture.of(config, 30522)
    assert (causal.attention, causal.next_sentence, causal.directions) == ("causal", False, "pair")


@pytest.mark.parametrize(
    ("directions", "objective", "expected"),
    [
        ("auto", "mlm", "both"),
        ("auto", "mlm_nsp", "both"),
        ("auto", "ltr", "pair"),
        ("both", "ltr", "pair"),
        ("forward", "ltr", "forward"),
        ("auto", "rtl", "backward"),
        ("both", "rtl", "pair"),
    ],
)
def test_directions_by_objective(directions: str, objective: str, expected: str) -> None:
    assert resolved_directions(directions, objective) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "multiple"),
        ({"activation": "gelo"}, "gelu"),
        ({"backbone": "bilstm", "hidden": 15}, "odd"),
        ({"backbone": "bilstm", "directions": "both", "attention": "causal"}, "use auto"),
    ],
)
def test_what_cannot_be_built_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        dataclasses.replace(TINY, **changes)
