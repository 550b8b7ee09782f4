"""What a state may not know does not move it: words are changed, and nothing that must not see them does."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import pytest
import torch
from torch import Tensor
from toys import LENGTHS, toy_batch

from bertlab.config import PretrainConfig
from bertlab.data.batches import Batch
from bertlab.errors import UserError
from bertlab.models import heads
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.models.cross_entropy import linear_cross_entropy
from bertlab.models.dropout import seed_dropout
from bertlab.objectives import objective_of

torch.set_num_threads(1)
BACKBONES = [("transformer", "auto"), ("bilstm", "auto"), ("bilstm", "one"), ("cbow", "auto")]
# In training the statistics of batch norm are over all tokens, which is why it is looked at in evaluation only.
CAUSAL = [
    (*choices, norm, training)
    for choices in itertools.product(("ltr", "rtl"), BACKBONES, ("post", "pre"))
    for norm, training in (("layer", False), ("layer", True), ("batch", False))
]
EVERY = [(objective, backbone) for objective in ("mlm_nsp", "mlm") for backbone in BACKBONES if backbone[1] == "auto"]
EVERY += list(itertools.product(("ltr", "rtl"), BACKBONES))


def built(objective: str, backbone: str, norm: str = "layer", placement: str = "post", directions: str = "auto", **model: object) -> Bert:
    config = PretrainConfig()
    config.objective.kind, config.backbone.kind, config.norm.kind, config.norm.placement = objective, backbone, norm, placement
    config.backbone.directions = {"one": "forward" if objective == "ltr" else "backward"}.get(directions, directions)
    config.model.layers, config.model.hidden, config.model.heads, config.model.positions = 2, 16, 4, 24
    config.model.initializer_range = 0.3
    for key, value in model.items():
        setattr(config.model, key, value)
    torch.manual_seed(1)
    return Bert(Architecture.of(config, 61))


def other_words(batch: Batch, where: Tensor) -> Batch:
    tokens = batch.tokens.clone()
    tokens[where] = (tokens[where] + 7) % 61
    return dataclasses.replace(batch, tokens=tokens)


def states(model: Bert, batch: Batch) -> Tensor:
    seed_dropout(1, 0, 0, 0)
    with torch.no_grad():
        return copy.deepcopy(model)(batch)  # a copy, so that running statistics stay as they are


def halves(model: Bert, hidden: Tensor) -> list[Tensor]:
    """States that predict, those of the objective's own direction first; only a pair has two."""
    width = model.architecture.language_width
    parts = list(hidden.split(width, 1))
    return parts if model.architecture.attention == "causal" else parts[::-1]


@pytest.mark.parametrize(("objective", "backbone", "placement", "norm", "training"), CAUSAL)
def test_the_words_to_come_move_nothing(objective: str, backbone: tuple[str, str], placement: str, norm: str, training: bool) -> None:
    model = built(objective, backbone[0], norm, placement, backbone[1]).train(training)
    batch = toy_batch(LENGTHS, predict="next")
    before = halves(model, states(model, batch))
    for place in (1, 5, 12):
        future = batch.positions > place if objective == "ltr" else batch.positions < place
        after = halves(model, states(model, other_words(batch, future)))
        seen = ~future
        assert torch.equal(before[0][seen], after[0][seen])
        assert not torch.equal(before[0], after[0])
        if len(before) == 2:  # of a pair, the one that reads the other way
            past = batch.positions < place if objective == "ltr" else batch.positions > place
            after = halves(model, states(model, other_words(batch, past)))
            assert torch.equal(before[1][~past], after[1][~past])


@pytest.mark.parametrize(("objective", "backbone"), EVERY)
@pytest.mark.parametrize("training", [False, True])
def test_sequences_do_not_touch_each_other(objective: str, backbone: tuple[str, str], training: bool) -> None:
    model = built(objective, backbone[0], directions=backbone[1]).train(training)
    batch = toy_batch(LENGTHS)
    inside = torch.zeros_like(batch.tokens, dtype=torch.bool)
    inside[batch.offsets[3] : batch.offsets[4]] = True
    before, after = states(model, batch), states(model, other_words(batch, inside))
    assert torch.equal(before[~inside], after[~inside])
    assert not torch.equal(before[inside], after[inside])


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("training", [False, True])
def test_a_bag_of_words_never_holds_the_word_to_be_predicted(window: int | None, training: bool) -> None:
    model = built("mlm", "cbow").train(training)
    model.backbone.window = window
    batch = toy_batch(LENGTHS)
    before = states(model, batch)
    for token in (0, 4, 20, 33, 40):
        after = states(model, other_words(batch, torch.tensor([token])))
        assert torch.equal(before[token], after[token])
        neighbours = (batch.positions - batch.positions[token]).abs() == 1
        row = int(torch.searchsorted(batch.offsets, token, right=True)) - 1
        neighbours[: batch.offsets[row]] = False
        neighbours[batch.offsets[row + 1] :] = False
        if not training:  # the words beside it do see it
            assert not torch.isclose(before[neighbours], after[neighbours]).all(1).any()


@pytest.mark.parametrize("ordinary_only", [False, True])
@pytest.mark.parametrize(("objective", "backbone"), [*itertools.product(("ltr", "rtl"), BACKBONES), ("rtl", ("bilstm", "both"))])
def test_no_prediction_can_read_its_answer(objective: str, backbone: tuple[str, str], ordinary_only: bool) -> None:
    """The gradient of each single prediction's loss, with respect to the embedding of the word that it is to predict, is zero.

    Of a pair each direction's loss is taken by itself: together they read every word.
    """
    model = built(objective, backbone[0], directions=backbone[1]).eval()
    batch = toy_batch([6, 9], predict="next" if objective == "ltr" else "previous")
    step = 1 if objective == "ltr" else -1
    pair = model.architecture.language_width < model.architecture.hidden
    for place in (1, 3, 7, 11):
        predicted = batch.predicted[place]
        single = dataclasses.replace(
            batch, predicted=predicted[None], targets=batch.targets[place][None], predicted_in_step=1, ordinary_only=ordinary_only
        )
        # A pair's second direction predicts the word that the first reads, or where only ordinary words count, the same one.
        answers = [predicted + step, predicted + (step if ordinary_only else 0)][: 1 + pair]
        seen = [predicted, predicted + (2 * step if ordinary_only else step)]
        losses, embedded = losses_and_embeddings(model, objective, single)
        assert len(losses) == len(answers)
        for loss, answer, neighbour in zip(losses, answers, seen, strict=False):
            (gradient,) = torch.autograd.grad(loss, embedded, retain_graph=True)
            assert not gradient[answer].any()
            assert gradient[neighbour].any()


def losses_and_embeddings(model: Bert, objective: str, batch: Batch) -> tuple[list[Tensor], Tensor]:
    """The loss of each direction, which add up to the objective's, and the output of the embeddings that they were computed from."""
    embedded: list[Tensor] = []
    losses: list[Tensor] = []
    handle = model.embeddings.register_forward_hook(lambda _module, _inputs, output: embedded.append(output[0]))

    def noting(*arguments: object) -> tuple[Tensor, Tensor]:
        losses.append((result := linear_cross_entropy(*arguments))[0])
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "linear_cross_entropy", noting)
        outcome = objective_of(config_with(objective)).loss(model, batch)
    handle.remove()
    torch.testing.assert_close(outcome.loss, sum(losses, torch.zeros(())))
    return losses, embedded[0]


def config_with(objective: str) -> PretrainConfig:
    config = PretrainConfig()
    config.objective.kind = objective
    return config


def test_directions_that_would_read_the_answer_are_refused() -> None:
    for objective, directions in (("ltr", "backward"), ("rtl", "forward")):
        with pytest.raises(UserError, match=r"backbone\.directions"):
            built(objective, "bilstm", directions=directions)
