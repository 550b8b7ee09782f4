"""Frozen features: which states they are, that they are those kept on disk, and that the model under them never moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from test_task_model import split, task_model
from toys import LENGTHS, toy_model, toy_task_batch

from bertlab.data.task_batch import TaskBatch
from bertlab.errors import UserError
from bertlab.models import features as features_module
from bertlab.models.architecture import Architecture
from bertlab.models.dropout import seed_dropout
from bertlab.models.features import FeatureSource, layers_read
from bertlab.models.task_checks import FEATURES
from bertlab.models.task_model import TaskModel
from bertlab.task_config import KINDS as TASKS

torch.set_num_threads(1)
KINDS = [kind for kind in FEATURES if kind != "none"]


def test_which_layers_are_read() -> None:
    for layers, kind, expected in (
        (12, "embeddings", [0]),
        (12, "second_to_last", [11]),
        (12, "last", [12]),
        (12, "weighted_sum_last_4", [9, 10, 11, 12]),
        (12, "concat_last_4", [9, 10, 11, 12]),
        (12, "weighted_sum_all", list(range(1, 13))),
        (12, "concat_all", list(range(1, 13))),
        (4, "concat_last_4", [1, 2, 3, 4]),
        (2, "concat_all", [1, 2]),
        (1, "second_to_last", [0]),
    ):
        assert list(layers_read(kind, Architecture(layers=layers))) == expected
    assert list(layers_read("weighted_sum_all", Architecture(layers=12, backbone="cbow"))) == [1]
    with pytest.raises(UserError, match="last"):
        layers_read("lats", Architecture())
    for kind, whole in (("concat_last_4", "concat_all"), ("weighted_sum_last_4", "weighted_sum_all")):
        with pytest.raises(UserError, match=f"the model has 3 layers: choose features={whole}"):
            layers_read(kind, Architecture(layers=3))
        with pytest.raises(UserError, match="the model has 1 layer:"):
            layers_read(kind, Architecture(layers=12, backbone="cbow"))


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("features", KINDS)
def test_every_variant_trains_its_head_and_nothing_else(features: str, kind: str) -> None:
    model = task_model(toy_model(layers=5, dropout=0.3, norm="batch"), kind, features, crf=kind == "tagging").train()
    before = {name: value.clone() for name, value in model.bert.state_dict().items()}
    batch = toy_task_batch(kind, LENGTHS)
    seed_dropout(0, 0, 0, 0)
    start = model.loss(batch).loss
    start.backward()
    assert all(parameter.grad is None for parameter in model.bert.parameters())
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.head.parameters())
    optimizer = torch.optim.Adam([parameter for parameter in model.parameters() if parameter.requires_grad], 0.01)
    for step in range(10):
        seed_dropout(0, step, 0, 0)
        optimizer.zero_grad()
        loss = model.loss(batch).loss
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < float(start.detach())
    assert all(torch.equal(before[name], value) for name, value in model.bert.state_dict().items())


def test_the_states_are_those_named_and_a_mix_weighs_them() -> None:
    bert, batch = toy_model(layers=5, dropout=0.2, attention_dropout=0.2).eval(), toy_task_batch("span", LENGTHS)
    with torch.no_grad():
        states = bert.states(batch.inputs)
    for features in KINDS:
        model = task_model(bert, "span", features).train()
        chosen = [states[layer] for layer in layers_read(features, bert.architecture)]
        assert torch.equal(model.frozen_states(batch), torch.stack(chosen, 1))  # without dropout also while the head is trained
        model.eval()
        if model.head.mix is None:
            mixed = torch.cat(chosen, 1)
        else:
            model.head.mix.weights.data = torch.arange(len(chosen)).float()
            model.head.mix.scale.data.fill_(0.7)
            shares = torch.arange(len(chosen)).float().softmax(0)
            mixed = 0.7 * sum(share * each for share, each in zip(shares, chosen, strict=True))
        expected = model.head.classifier(model.head.reader(mixed, batch.inputs))
        torch.testing.assert_close(model.outputs(batch).logits, expected)


def kept(
    model: TaskModel, folder: Path, whole: TaskBatch, counts: list[int], fingerprints: tuple[str, str] = ("m", "i"), order: int = 1
) -> FeatureSource:
    if model.kind == "tagging":
        rows = whole.words_per_example
    else:
        tokens = whole.inputs.offsets.diff().split(whole.sequences_per_example.tolist())
        rows = torch.stack([each.sum() for each in tokens])
    offsets = np.concatenate([[0], np.cumsum(rows.numpy())])

    def batches() -> Iterator[TaskBatch]:
        yield from split(whole, counts)[::order]

    return model.kept_features(folder, fingerprints, offsets, batches)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("features", ["embeddings", "weighted_sum_all", "concat_all"])
def test_features_from_disk_are_the_models_own(features: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = task_model(toy_model(), kind, features).eval()
    whole = toy_task_batch(kind, LENGTHS)
    counts = [1, len(whole.examples) - 1]
    source = kept(model, tmp_path, whole, counts, order=-1)
    # Another process finds them and makes none.
    monkeypatch.setattr(features_module, "_write", None)
    source = kept(model, tmp_path, whole, counts)
    assert sorted(path.suffix for path in tmp_path.iterdir()) in ([".lock", ".npy"], [".npy"])
    for batch in (whole, *split(whole, counts)):
        expected = model.outputs(batch).logits
        attached = source.attach(batch)
        monkeypatch.setattr(model.bert, "states", None)  # the model is not run
        torch.testing.assert_close(model.outputs(attached).logits, expected, atol=1e-5, rtol=1e-5)
        monkeypatch.undo()
        monkeypatch.setattr(features_module, "_write", None)
    order = torch.tensor([len(whole.examples) - 1, 0])
    first_rows = source.rows(order[1:])
    assert torch.equal(source.rows(order)[-len(first_rows) :], first_rows)


def test_states_made_on_the_spot_have_all_their_bits_under_bf16() -> None:
    """Those that are kept are made outside of autocast, and predictions may be made with either."""
    model = task_model(toy_model(), "classification", "last").eval()
    batch = toy_task_batch("classification", LENGTHS)
    expected = model.frozen_states(batch)
    attached = dataclasses.replace(batch, features=expected)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(model.frozen_states(batch), expected)
        assert torch.equal(model.outputs(batch).logits, model.outputs(attached).logits)


def test_what_was_made_from_something_else_is_not_taken(tmp_path: Path) -> None:
    whole = toy_task_batch("tagging", LENGTHS)
    model = task_model(toy_model(), "tagging", "last").eval()
    paths = [kept(model, tmp_path, whole, [3, 3], fingerprints).path for fingerprints in (("m", "i"), ("m2", "i"), ("m", "i2"))]
    paths.append(kept(task_model(toy_model(), "tagging", "embeddings").eval(), tmp_path, whole, [3, 3]).path)
    assert len(set(paths)) == 4
    # The same states serve both ways of putting them together.
    sums, sides = (
        kept(task_model(toy_model(), "tagging", each).eval(), tmp_path, whole, [3, 3]).path for each in ("weighted_sum_all", "concat_all")
    )
    assert sums == sides


def test_a_split_that_is_not_whole_is_not_kept(tmp_path: Path) -> None:
    whole = toy_task_batch("tagging", LENGTHS)
    model = task_model(toy_model(), "tagging", "last").eval()
    offsets = np.concatenate([[0], np.cumsum(whole.words_per_example.numpy())])
    with pytest.raises(ValueError, match="rows"):
        model.kept_features(tmp_path, ("m", "i"), offsets, lambda: split(whole, [2, 4])[:1])
    assert not list(tmp_path.glob("*.npy"))
    with pytest.raises(KeyboardInterrupt):
        model.kept_features(tmp_path, ("m", "i"), offsets, interrupted)
    assert not list(tmp_path.glob("*.npy"))
    assert not list(tmp_path.glob(".*.part"))


def interrupted() -> Iterator[TaskBatch]:
    raise KeyboardInterrupt
    yield


def test_a_disk_that_is_too_small_is_told_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = toy_task_batch("classification", LENGTHS)
    usage = features_module.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(features_module.shutil, "disk_usage", lambda _path: usage._replace(free=10))
    with pytest.raises(UserError, match=r"paths\.cache"):
        kept(task_model(toy_model(), "classification", "last"), tmp_path, whole, [6])


def test_tagging_reads_the_words_of_a_sentence_that_lies_in_two_sequences_as_one() -> None:
    model = task_model(toy_model(), "tagging", "last", crf=True).eval()
    batch = toy_task_batch("tagging", [9, 12, 7])
    joined = dataclasses.replace(
        batch,
        examples=torch.arange(2),
        sequences_per_example=torch.tensor([2, 1]),
        words_per_example=torch.stack([batch.words_per_example[:2].sum(), batch.words_per_example[2]]),
    )
    expected, found = model.outputs(batch).logits, model.outputs(joined).logits
    last = int(batch.words_per_example[2])
    torch.testing.assert_close(found[-last:], expected[-last:])
    assert not torch.isclose(found[:-last], expected[:-last]).all()
    assert model.predictions(model.outputs(joined), joined).shape == batch.tags.shape
