"""What is trained, when, and at what rate: seen in the weights after real optimizer steps."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from test_task_model import task_model
from toys import LENGTHS, toy_model, toy_task_batch

from bertlab.config import OptimizerConfig
from bertlab.errors import UserError
from bertlab.finetune_config import FeaturesConfig, TuningConfig
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.models.dropout import seed_dropout
from bertlab.models.freezing import lowest_trained, parts_of, reinitialise, set_trained
from bertlab.models.task_checks import check_tuning
from bertlab.models.task_model import TaskModel
from bertlab.training.optimizers import LOG_ODDS_SCALE, BertAdam, task_parameter_groups

torch.set_num_threads(1)
LAYERS = 3
BACKBONES = [
    {"backbone": "transformer"},
    {"backbone": "transformer", "placement": "pre"},
    {"backbone": "bilstm", "placement": "pre"},
    {"backbone": "bilstm", "directions": "pair", "attention": "causal"},
    {"backbone": "cbow"},
]


def built(kind: str = "classification", **changes: object) -> TaskModel:
    return task_model(toy_model(layers=LAYERS, **changes), kind, crf=kind == "tagging")


def moved(model: TaskModel, tuning: TuningConfig, share: float = 0.0) -> list[bool]:
    """For each part from the embeddings up, then the head: whether a step moved every weight of it (True) or none (False)."""
    set_trained(model, tuning, share)
    model.train()
    optimizer = BertAdam(task_parameter_groups(model, OptimizerConfig(), tuning), lr=1e-3, fused=True)
    parts = [[each for module in modules for each in module.parameters()] for modules in parts_of(model.bert)]
    parts.append(model.head_parameters())
    before = [[parameter.detach().clone() for parameter in part] for part in parts]
    for step in range(2):
        seed_dropout(0, step, 0, 0)
        model.loss(toy_task_batch(model.kind, LENGTHS)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    result = []
    for old, new in zip(before, parts, strict=True):
        changed = {not torch.equal(a, b) for a, b in zip(old, new, strict=True)}
        assert len(changed) == 1, "a part is trained whole or not at all"
        result.append(changed.pop())
    return result


@pytest.mark.parametrize("kind", ["classification", "tagging"])
@pytest.mark.parametrize("changes", BACKBONES)
def test_frozen_parts_do_not_move_and_all_others_do(changes: dict[str, object], kind: str) -> None:
    layers = 1 if changes["backbone"] == "cbow" else LAYERS
    parts = layers + 1
    for tuning, frozen in (
        (TuningConfig(), 0),
        (TuningConfig(freeze="embeddings"), 1),
        (TuningConfig(frozen_layers=1), 2),
        (TuningConfig(frozen_layers=layers), parts),
        (TuningConfig(freeze="encoder"), parts),
    ):
        assert moved(built(kind, **changes), tuning) == [False] * frozen + [True] * (parts - frozen) + [True]


def test_unfreezing_goes_from_the_top_in_equal_shares_of_two_thirds() -> None:
    tuning = TuningConfig(gradual=True)  # parts: embeddings and layers 1 to 3
    for twelfths, expected in enumerate([4, 4, 3, 3, 2, 2, 1, 1, 0, 0, 0, 0, 0]):
        assert lowest_trained(tuning, 4, twelfths / 12) == expected
    without_embeddings = TuningConfig(gradual=True, freeze="embeddings")
    for eighteenths, expected in enumerate([4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1]):
        assert lowest_trained(without_embeddings, 4, eighteenths / 18) == expected
    model = built()
    assert moved(model, tuning, 0.0) == [False, False, False, False, True]
    assert moved(model, tuning, 0.4) == [False, False, True, True, True]
    assert moved(model, tuning, 1.0) == [True] * 5


def test_one_optimizer_serves_the_whole_of_a_gradual_training() -> None:
    """The groups are made once, at the start, and a part that joins later is trained from then on."""
    model, tuning = built(), TuningConfig(gradual=True)
    set_trained(model, tuning, 0.0)
    optimizer = BertAdam(task_parameter_groups(model, OptimizerConfig(), tuning), lr=1e-3, fused=True)
    counts, steps = [], 12
    for step in range(steps):
        counts.append(set_trained(model, tuning, step / steps))
        table = model.bert.embeddings.words.weight.detach().clone()
        model.loss(toy_task_batch("classification", LENGTHS)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert torch.equal(table, model.bert.embeddings.words.weight) == (counts[-1] < 4)
    assert counts == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4]


def test_the_backward_pass_ends_where_freezing_begins() -> None:
    model = built()
    set_trained(model, TuningConfig(freeze="encoder"))
    hidden = model.bert(toy_task_batch("classification", LENGTHS).inputs)
    assert not hidden.requires_grad
    set_trained(model, TuningConfig(frozen_layers=2))
    states = model.bert.states(toy_task_batch("classification", LENGTHS).inputs)
    assert [state.requires_grad for state in states] == [False, False, False, True]


def test_statistics_of_a_frozen_batch_norm_stay() -> None:
    model = built(norm="batch", dropout=0.1)
    tuning = TuningConfig(gradual=True)
    batch = toy_task_batch("classification", LENGTHS)
    for share, frozen in ((0.0, 4), (0.4, 2), (1.0, 0)):
        model.train()
        set_trained(model, tuning, share)
        before = [[buffer.clone() for module in modules for buffer in module.buffers()] for modules in parts_of(model.bert)]
        model.loss(batch)
        after = [[buffer for module in modules for buffer in module.buffers()] for modules in parts_of(model.bert)]
        same = [all(torch.equal(a, b) for a, b in zip(x, y, strict=True)) for x, y in zip(before, after, strict=True)]
        assert same == [True] * frozen + [False] * (4 - frozen)


def test_freezing_leaves_dropout_alone() -> None:
    model = built(dropout=0.5)
    batch = toy_task_batch("classification", LENGTHS)
    losses = []
    for tuning in (TuningConfig(), TuningConfig(freeze="encoder")):
        set_trained(model, tuning)
        seed_dropout(0, 0, 0, 0)
        losses.append(float(model.loss(batch).loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_rates_fall_from_layer_to_layer() -> None:
    model = built("tagging")
    groups = task_parameter_groups(model, OptimizerConfig(weight_decay=0.02), TuningConfig(layer_decay=0.5))
    scale = {id(parameter): group["scale"] for group in groups for parameter in group["params"]}
    assert len(scale) == sum(len(group["params"]) for group in groups)
    for number, modules in enumerate(parts_of(model.bert)):
        for parameter in itertools.chain(*(module.parameters() for module in modules)):
            assert scale[id(parameter)] == 0.5 ** (LAYERS + 1 - number)
    assert {scale[id(parameter)] for parameter in model.head.classifier.parameters()} == {1.0}
    assert {scale[id(parameter)] for parameter in model.head.crf.parameters()} == {LOG_ODDS_SCALE}
    for group in groups:
        assert {parameter.dim() >= 2 for parameter in group["params"]} == {group["weight_decay"] == 0.02}
    names = " ".join(group["name"] for group in groups)
    assert all(name in names for name in ("embeddings", "layer 1", "layer 3", "head", "crf"))


def test_without_decay_there_are_two_groups_and_they_hold_all_that_is_trained() -> None:
    model = built()
    groups = task_parameter_groups(model, OptimizerConfig(), TuningConfig())
    assert [group["scale"] for group in groups] == [1.0, 1.0]
    grouped = {id(parameter) for group in groups for parameter in group["params"]}
    assert grouped == {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    assert {id(parameter) for parameter in model.bert.pooler.parameters()} <= grouped


def test_frozen_features_leave_only_the_head_to_train() -> None:
    model = task_model(toy_model(layers=LAYERS), "classification", "last")
    assert set_trained(model, TuningConfig(), 1.0) == 0
    grouped = {id(parameter) for group in task_parameter_groups(model, OptimizerConfig(), TuningConfig()) for parameter in group["params"]}
    assert grouped == {id(parameter) for parameter in model.head.parameters()}
    assert not any(parameter.requires_grad for parameter in model.bert.parameters())


@pytest.mark.parametrize(("scaled", "least", "most"), [(True, 0.9, 1.0), (False, 0.0, 0.5)])
def test_the_weights_of_a_mix_find_the_layer_that_tells_the_class(scaled: bool, least: float, most: float) -> None:
    """Of three layers the second is the class, the others are louder noise: 100 steps find it, and would not at the rate of the rest."""
    model = task_model(toy_model(layers=LAYERS), "classification", "weighted_sum_all", dropout=0.0)
    assert model.head.mix is not None
    groups = task_parameter_groups(model, OptimizerConfig(), TuningConfig())
    optimizer = BertAdam(groups, lr=3e-4, fused=True)
    for group in optimizer.param_groups:
        group["lr"] = 3e-4 * (group["scale"] if scaled else 1.0)
    lengths = [3] * 64
    for step in range(100):
        batch = toy_task_batch("classification", lengths, seed=step)
        assert batch.labels is not None
        states = 4.0 * torch.randn(sum(lengths), LAYERS, 16, generator=torch.Generator().manual_seed(step))
        states[:, 1] = 4.0 * torch.nn.functional.one_hot(batch.labels, 16).repeat_interleave(3, 0)
        model.loss(dataclasses.replace(batch, features=states)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert least <= float(torch.softmax(model.head.mix.weights, 0)[1].detach()) <= most


@pytest.mark.parametrize("changes", [*BACKBONES[:4], {"norm": "batch"}])
def test_layers_that_start_anew(changes: dict[str, object]) -> None:
    bert, old = toy_model(layers=LAYERS, **changes), toy_model(layers=LAYERS, **changes)
    bert.train()
    bert(toy_task_batch("classification", LENGTHS).inputs)  # running statistics move
    old.load_state_dict(bert.state_dict())
    torch.manual_seed(5)
    reinitialise(bert, 2)
    fresh = Bert(bert.architecture)
    for number, (new_part, old_part, fresh_part) in enumerate(zip(parts_of(bert), parts_of(old), parts_of(fresh), strict=True)):
        anew = number > LAYERS - 2
        for new, was, first in zip(new_part, old_part, fresh_part, strict=True):
            for name, value in new.state_dict().items():
                start = first.state_dict()[name]
                if anew and value.dim() < 2 and value.is_floating_point() and "weight_" not in name:
                    assert torch.equal(value, start), name  # biases, norms, running statistics
                elif anew and value.dim() >= 2:
                    assert not torch.equal(value, was.state_dict()[name])
                    assert float(value.std()) == pytest.approx(float(start.std()), rel=0.2)
                elif not anew:
                    assert torch.equal(value, was.state_dict()[name])
    assert not torch.equal(bert.pooler.dense.weight, old.pooler.dense.weight) if bert.pooler else True
    assert torch.equal(bert.language_head.dense.weight, old.language_head.dense.weight)
    reinitialise(old, 0)
    assert torch.equal(bert.embeddings.words.weight, old.embeddings.words.weight)


def test_ways_of_training_that_cannot_be_are_refused() -> None:
    architecture = Architecture(layers=4)
    for values, features, word in (
        ({"freeze": "all"}, "none", "tuning.freeze"),
        ({"layer_decay": 0.0}, "none", "layer_decay"),
        ({"layer_decay": 1.5}, "none", "layer_decay"),
        ({"frozen_layers": 5}, "none", "frozen_layers"),
        ({"reinit_layers": -1}, "none", "reinit_layers"),
        ({"frozen_layers": 3, "reinit_layers": 2}, "none", "overlap"),
        ({"freeze": "encoder", "gradual": True}, "none", "contradicts"),
        ({"gradual": True}, "last", "features"),
        ({"freeze": "encoder"}, "last", "features"),
    ):
        with pytest.raises(UserError, match=word):
            check_tuning(TuningConfig(**values), FeaturesConfig(kind=features), architecture)
    check_tuning(TuningConfig(frozen_layers=2, reinit_layers=2, gradual=True, layer_decay=0.9), FeaturesConfig(), architecture)
    check_tuning(TuningConfig(), FeaturesConfig(kind="last"), architecture)
