from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from toys import LENGTHS, toy_batch, toy_model

from bertlab.config import PretrainConfig
from bertlab.data.batches import Batch
from bertlab.errors import UserError
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.models.dropout import seed_dropout
from bertlab.models.norms import TokenBatchNorm
from bertlab.objectives import objective_of
from bertlab.objectives.outcome import Objective

torch.set_num_threads(1)
OBJECTIVES, BACKBONES = ("mlm_nsp", "mlm", "ltr", "rtl"), ("transformer", "bilstm", "cbow")


def choice(objective: str, backbone: str, norm: str = "layer", placement: str = "post", **model: float) -> tuple[Objective, Bert]:
    config = PretrainConfig()
    config.objective.kind, config.backbone.kind, config.norm.kind, config.norm.placement = objective, backbone, norm, placement
    config.model.layers, config.model.hidden, config.model.heads, config.model.positions = 2, 16, 4, 24
    for key, value in model.items():
        setattr(config.model, key, value)
    torch.manual_seed(0)
    return objective_of(config), Bert(Architecture.of(config, 61))


@pytest.mark.parametrize(
    ("objective", "backbone", "norm", "placement"), itertools.product(OBJECTIVES, BACKBONES, ("layer", "batch"), ("post", "pre"))
)
def test_every_combination_learns(objective: str, backbone: str, norm: str, placement: str) -> None:
    chosen, model = choice(objective, backbone, norm, placement)
    batch = toy_batch(LENGTHS, predict=chosen.predict)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(12):
        seed_dropout(0, step, 0, 0)
        outcome = chosen.loss(model, batch)
        optimizer.zero_grad()
        outcome.loss.backward()
        optimizer.step()
        losses.append(outcome.loss.item())
        assert not any(value.requires_grad for value in outcome.sums.values())
    assert losses[-1] < 0.85 * losses[0]
    assert all(parameter.grad is not None for parameter in model.parameters())  # nothing is built that is not trained


def test_mlm_nsp_is_the_sum_of_two_means() -> None:
    chosen, model = choice("mlm_nsp", "transformer")
    model.eval()
    batch = toy_batch(LENGTHS)
    batch.predicted_in_step, batch.sequences_in_step = 100, 20  # of the global batch, of which this is a part
    outcome = chosen.loss(model, batch)
    hidden = model(batch)
    language = F.cross_entropy(model.language_logits(hidden[batch.predicted]), batch.targets, reduction="sum")
    logits = model.next_sentence_logits(hidden, batch.offsets)
    assert batch.next_sentence is not None
    sentences = F.cross_entropy(logits, batch.next_sentence, reduction="sum")
    torch.testing.assert_close(outcome.loss, language / 100 + sentences / 20)
    torch.testing.assert_close(outcome.sums["language_loss"], language.detach())
    torch.testing.assert_close(outcome.sums["nsp_loss"], sentences.detach())
    assert outcome.sums["nsp_correct"] == (logits.argmax(1) == batch.next_sentence).sum()
    assert (outcome.sums["predicted"], outcome.sums["sequences"]) == (batch.predicted.numel(), 6)


def halved(batch: Batch) -> list[Batch]:
    """The first three sequences and the rest, which know the counts of the whole."""
    cut, result = int(batch.offsets[3]), []
    assert batch.next_sentence is not None
    for tokens, rows in ((slice(0, cut), slice(0, 3)), (slice(cut, None), slice(3, None))):
        start = tokens.start
        stop = len(batch.tokens) if tokens.stop is None else tokens.stop
        chosen = (batch.predicted >= start) & (batch.predicted < stop)
        offsets = batch.offsets[(batch.offsets >= start) & (batch.offsets <= stop)] - start
        result.append(
            dataclasses.replace(
                batch,
                tokens=batch.tokens[tokens],
                segments=batch.segments[tokens],
                positions=batch.positions[tokens],
                offsets=offsets,
                predicted=batch.predicted[chosen] - start,
                targets=batch.targets[chosen],
                next_sentence=batch.next_sentence[rows],
                max_length=int(offsets.diff().max()),
            )
        )
    return result


@pytest.mark.parametrize(("objective", "backbone"), itertools.product(OBJECTIVES, BACKBONES))
def test_micro_batches_add_up_to_the_big_batch(objective: str, backbone: str) -> None:
    chosen, model = choice(objective, backbone, dropout=0.0, attention_dropout=0.0)
    model = model.double()
    batch = toy_batch(LENGTHS, predict=chosen.predict)
    whole = chosen.loss(model, batch)
    whole.loss.backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    parts = [chosen.loss(model, part) for part in halved(batch)]
    for part in parts:
        part.loss.backward()
    torch.testing.assert_close(parts[0].loss + parts[1].loss, whole.loss)
    for name, value in whole.sums.items():
        torch.testing.assert_close(parts[0].sums[name] + parts[1].sums[name], value)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name])


@pytest.mark.parametrize("objective", ["ltr", "rtl"])
def test_a_pair_of_language_models_has_a_loss_in_each_direction(objective: str) -> None:
    """ELMo's two losses, from the states by hand: each half predicts its own neighbour."""
    chosen, _ = choice(objective, "bilstm")
    attention = {"ltr": "causal", "rtl": "anticausal"}[objective]
    model = toy_model(backbone="bilstm", directions="pair", attention=attention, next_sentence=False).eval()
    batch = toy_batch(LENGTHS, predict=chosen.predict)
    outcome, hidden = chosen.loss(model, batch), model(batch)
    rightward = leftward = torch.zeros(())
    for states, words in zip(hidden.split(LENGTHS), batch.tokens.split(LENGTHS), strict=True):
        rightward = rightward + F.cross_entropy(model.language_logits(states[:-1, :8]), words[1:], reduction="sum")
        leftward = leftward + F.cross_entropy(model.language_logits(states[1:, 8:]), words[:-1], reduction="sum")
    main, other = (rightward, leftward) if objective == "ltr" else (leftward, rightward)
    torch.testing.assert_close(outcome.sums["language_loss"], main.detach())
    torch.testing.assert_close(outcome.sums["opposite_loss"], other.detach())
    torch.testing.assert_close(outcome.loss, (main + other) / batch.predicted.numel())


@pytest.mark.parametrize("objective", ["ltr", "rtl"])
@pytest.mark.parametrize("ordinary_only", [False, True])
def test_a_pair_s_directions_share_the_statistics_of_the_head(objective: str, ordinary_only: bool) -> None:
    """Those of training are what the running ones, which evaluation uses for both directions, are means of."""
    chosen, _ = choice(objective, "bilstm")
    attention = {"ltr": "causal", "rtl": "anticausal"}[objective]
    model = toy_model(backbone="bilstm", directions="pair", attention=attention, norm="batch", next_sentence=False)
    norm, batch = model.language_head.norm, toy_batch([9, 24, 13], predict=chosen.predict)
    if ordinary_only:  # targets that have a neighbour on either side
        target = batch.predicted + (1 if objective == "ltr" else -1)
        inner = (batch.positions[target] > 0) & (batch.positions[target] < torch.tensor([8] * 9 + [23] * 24 + [12] * 13)[target])
        batch = dataclasses.replace(batch, predicted=batch.predicted[inner], targets=batch.targets[inner], ordinary_only=True)
    assert isinstance(norm, TokenBatchNorm)
    norm.momentum = 1.0  # the running statistics are those of the newest call
    seen: list[torch.Tensor] = []
    norm.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].detach()))
    outcome = chosen.loss(model, batch)
    (rows,) = seen
    assert len(rows) == 2 * len(batch.predicted)
    torch.testing.assert_close(norm.running_mean, rows.mean(0))
    torch.testing.assert_close(norm.running_var, rows.var(0))
    norm.eval()  # with these statistics, up to the divisor of the variance
    evaluated = chosen.loss(model, batch)
    for name in ("language_loss", "opposite_loss"):
        torch.testing.assert_close(evaluated.sums[name], outcome.sums[name], rtol=1e-3, atol=0)


@pytest.mark.parametrize("objective", ["ltr", "rtl"])
@pytest.mark.parametrize("backbone", ["transformer", "cbow"])
def test_language_models_predict_their_neighbours(objective: str, backbone: str) -> None:
    chosen, model = choice(objective, backbone)
    model.eval()
    batch = toy_batch(LENGTHS, predict=chosen.predict)
    expected = torch.zeros(())
    for states, words in zip(model(batch).split(LENGTHS), batch.tokens.split(LENGTHS), strict=True):
        known, answers = (states[:-1], words[1:]) if objective == "ltr" else (states[1:], words[:-1])
        expected = expected + F.cross_entropy(model.language_logits(known), answers, reduction="sum")
    torch.testing.assert_close(chosen.loss(model, batch).sums["language_loss"], expected.detach())


def test_objectives_say_what_they_need() -> None:
    config = PretrainConfig()
    found = {}
    for kind in OBJECTIVES:
        config.objective.kind = kind
        objective = objective_of(config)
        found[kind] = (objective.predict, objective.pair)
    assert found == {"mlm_nsp": ("masked", True), "mlm": ("masked", False), "ltr": ("next", False), "rtl": ("previous", False)}
    config.objective.segments = "pair"
    assert objective_of(config).pair
    config.objective.kind = "mln"
    with pytest.raises(UserError, match="mlm"):
        objective_of(config)


def test_a_batch_without_labels_cannot_feed_next_sentence_prediction() -> None:
    chosen, model = choice("mlm_nsp", "transformer")
    with pytest.raises(ValueError, match="next-sentence labels"):
        chosen.loss(model, toy_batch(LENGTHS, labels=False))


def plain_states(model: Bert, batch: Batch) -> torch.Tensor:
    """The hidden states, the words looked up by PyTorch."""
    own = model.embeddings
    assert own.positions is not None
    assert own.segments is not None
    return model.backbone(own.norm(own.words(batch.tokens) + own.positions(batch.positions) + own.segments(batch.segments)), batch)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_tied_table_gets_the_gradients_of_both_its_uses(objective: str) -> None:
    chosen, model = choice(objective, "transformer", dropout=0.0, attention_dropout=0.0)
    batch = toy_batch(LENGTHS, predict=chosen.predict)
    words = model.embeddings.words.weight
    chosen.loss(model, batch).loss.backward()
    hidden = plain_states(model, batch)
    logits = model.language_logits(hidden[batch.predicted])
    expected = F.cross_entropy(logits, batch.targets)
    if objective == "mlm_nsp":
        assert batch.next_sentence is not None
        expected = expected + F.cross_entropy(model.next_sentence_logits(hidden, batch.offsets), batch.next_sentence)
    torch.testing.assert_close(words.grad, torch.autograd.grad(expected, words)[0])


def test_the_tables_gradient_is_right_without_a_language_loss_and_with_two() -> None:
    _, model = choice("mlm_nsp", "transformer", dropout=0.0, attention_dropout=0.0)
    batch, words = toy_batch(LENGTHS), model.embeddings.words.weight
    found = torch.autograd.grad(model(batch).square().sum(), words)[0]
    expected = torch.autograd.grad(plain_states(model, batch).square().sum(), words)[0]
    torch.testing.assert_close(found, expected)
    states, table = model(batch, rows=batch.predicted, with_words=True)
    twice = sum(model.language_loss(states, batch.targets, 2.0, table)[0] for _ in range(2))
    once = model.language_loss(model(batch)[batch.predicted], batch.targets, 1.0)[0]
    torch.testing.assert_close(*(torch.autograd.grad(loss, words)[0] for loss in (twice, once)))
