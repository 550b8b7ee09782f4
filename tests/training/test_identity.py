from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from changing import change

from bertlab.config import BudgetConfig, LengthsConfig, ModelConfig, PretrainConfig, StageConfig
from bertlab.data.schedule import plan_training
from bertlab.data.store import SourceRange
from bertlab.errors import UserError
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.objectives import objective_of
from bertlab.run_files.folder import RunFolder
from bertlab.training.identity import (
    begun_or_new,
    canonical,
    hash8,
    pretraining_identity,
    readable_name,
    run_folder_of,
    write_identity,
)


@dataclass
class Vocabulary:
    fingerprint: str = "v"
    size: int = 100


@dataclass
class Store:
    fingerprint: str = "s"
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    sources: list[SourceRange] = field(default_factory=lambda: [SourceRange("text", 0, 10)])


def configured(**changes: object) -> PretrainConfig:
    config = PretrainConfig(model=ModelConfig(name="tiny", layers=2, hidden=128, heads=2), budget=BudgetConfig(tokens=12e6))
    change(config, changes)
    return config


def digest(store: Store | None = None, **changes: object) -> str:
    config, store = configured(**changes), store or Store()
    objective, architecture, plan = objective_of(config), Architecture.of(config, store.vocabulary.size), plan_training(config)
    masked = objective.predict == "masked"
    return hash8(pretraining_identity(config, architecture, plan, pair=objective.pair, masked=masked, store=store))


@pytest.mark.parametrize(
    "changes",
    [
        {"logger.kind": "none"},
        {"logger.project": "other"},
        {"paths.runs": "/elsewhere"},
        {"trainer.devices": 2},
        {"trainer.workers": 3},
        {"trainer.threads": 1},
        {"launcher.kind": "slurm", "launcher.partition": "gpu", "launcher.time": "60"},
        {"trainer.log_every": 7},
        {"trainer.accelerator": "gpu"},
        {"trainer.deterministic": False},
        {"checkpointing.every": 7},
        {"validation.every": 7},
        {"corpus.path": "/elsewhere"},
        {"corpus.kind": "text"},
        {"batch.micro": 8},
        {"model.name": "mine"},
        {"model.intermediate": 512},
        {"scale": "paper"},
        {"budget": BudgetConfig(tokens=12000000)},
        {"budget": BudgetConfig(steps=round(12e6 / (256 * 128)))},
        {"lengths": LengthsConfig("mine", [StageConfig(1, 128, 256)])},
        {"optimizer.clip": 1},
        {"backbone.window": 5},
        {"backbone.directions": "forward"},
        {"norm.momentum": 0.5},
        {"masking.noise_std": 2.0},
    ],
    ids=str,
)
def test_what_changes_no_number_changes_no_identity(changes: dict[str, object]) -> None:
    assert digest(**changes) == digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"model.layers": 3},
        {"model.heads": 4},
        {"model.dropout": 0.0},
        {"objective.kind": "mlm"},
        {"masking.rate": 0.2},
        {"masking.whole_word": True},
        {"backbone.kind": "bilstm"},
        {"backbone.kind": "cbow"},
        {"norm.kind": "batch"},
        {"norm.placement": "pre"},
        {"optimizer.kind": "adamw"},
        {"optimizer.clip": None},
        {"budget": BudgetConfig(steps=10)},
        {"budget": BudgetConfig(minutes=10)},
        {"batch.sequences": 128},
        {"batch.length": 64},
        {"batch.short_probability": 0.0},
        {"corpus.held_out": 0.1},
        {"validation.sequences": 10},
        {"validation.lengths": [64]},
        {"trainer.precision": "bf16"},
        {"trainer.compile": True},
    ],
    ids=str,
)
def test_what_changes_a_number_changes_the_identity(changes: dict[str, object]) -> None:
    assert digest(**changes) != digest()


@pytest.mark.parametrize(
    ("alike", "changes"),
    [
        ({"masking.noise": 0.1, "masking.mask": 0.7}, {"masking.noise_std": 2.0}),
        ({"objective.kind": "mlm"}, {"objective.segments": "pair"}),
        ({"budget": BudgetConfig(steps=10)}, {"batch.sequences": 128}),  # under a budget in tokens the number of steps would differ, too
    ],
    ids=str,
)
def test_what_counts_by_itself_where_it_is_used(alike: dict[str, object], changes: dict[str, object]) -> None:
    assert digest(**alike, **changes) != digest(**alike)


def test_the_corpus_counts_by_its_content() -> None:
    others = [Store(fingerprint="t"), Store(vocabulary=Vocabulary("w")), Store(sources=[SourceRange("text", 0, 10, 2.0)])]
    assert len({digest(store) for store in [Store(), *others]}) == 4
    assert digest(Store(sources=[SourceRange("renamed", 0, 10)])) == digest()


def test_unused_masking_does_not_count_and_micro_batches_do_under_batch_norm() -> None:
    assert digest(**{"objective.kind": "ltr", "masking.rate": 0.3}) == digest(**{"objective.kind": "ltr"})
    assert digest(**{"norm.kind": "batch", "batch.micro": 8}) != digest(**{"norm.kind": "batch"})
    assert digest(**{"norm.kind": "batch", "batch.micro": 256}) == digest(**{"norm.kind": "batch"})  # all 256 sequences at once
    assert digest(**{"norm.kind": "batch", "norm.momentum": 0.5}) != digest(**{"norm.kind": "batch"})


def test_devices_count_under_batch_norm_where_statistics_are_of_a_part_of_the_batch() -> None:
    """256 sequences a batch, of which 8, 16 and 8 + 8 others are normalised together; or all of them, on any number of devices."""
    batch = {"norm.kind": "batch"}
    in_parts = [{"batch.micro": 8}, {"batch.micro": 16}, {"batch.micro": 8, "trainer.devices": 2}, {"batch.micro": 8, "trainer.nodes": 4}]
    assert len({digest(**batch, **changes) for changes in [{}, *in_parts]}) == 5
    assert digest(**batch, **in_parts[2]) == digest(**batch, **{"batch.micro": 8, "trainer.nodes": 2})
    for whole in ({"trainer.devices": 4}, {"trainer.devices": 4, "batch.micro": 64}, {"trainer.devices": 2, "trainer.nodes": 2}):
        assert digest(**batch, **whole) == digest(**batch)
    longer = LengthsConfig("mine", [StageConfig(0.5, 64, 256), StageConfig(0.5, 128, 512)])  # where the second stage alone is cut
    assert digest(**batch, lengths=longer, **{"trainer.devices": 4, "batch.micro": 64}) != digest(**batch, lengths=longer)


@pytest.mark.parametrize(
    ("backbone", "unused"),
    [
        ("transformer", ()),
        ("bilstm", ("heads", "intermediate", "positions", "attention_dropout")),
        ("cbow", ("heads", "intermediate", "positions", "attention_dropout", "layers", "segments")),
    ],
)
def test_what_a_backbone_has_no_use_for_does_not_count(backbone: str, unused: tuple[str, ...]) -> None:
    """By the weights: what changes none of them, nor what is computed of them, changes no identity."""
    kind = {"backbone.kind": backbone}
    changes = {"heads": 4, "intermediate": 300, "positions": 200, "attention_dropout": 0.0, "layers": 3, "segments": 3, "hidden": 64}
    counting = {name for name, value in changes.items() if digest(**kind, **{f"model.{name}": value}) != digest(**kind)}
    assert counting == set(changes) - set(unused)
    for name in set(unused) - {"heads", "attention_dropout"}:
        shapes = [
            {key: weight.shape for key, weight in model.state_dict().items()}
            for model in (Bert(Architecture.of(configured(**changed), 100)) for changed in (kind, {**kind, f"model.{name}": changes[name]}))
        ]
        assert shapes[0] == shapes[1], name


def test_canonical_values() -> None:
    assert canonical({"b": 12e6, "a": [1.0, 0.5, True, None]}) == {"a": [1, 0.5, True, None], "b": 12000000}
    assert hash8({"a": 1.0, "b": {"d": 2, "c": 3}}) == hash8({"b": {"c": 3.0, "d": 2}, "a": 1})


def test_names(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert readable_name(configured()) == "pretrain-tiny-mlm_nsp"
    assert readable_name(configured(**{"objective.kind": "ltr", "backbone.kind": "bilstm", "norm.kind": "batch"})) == (
        "pretrain-tiny-ltr-bilstm-batch"
    )
    runs = tmp_path_factory.mktemp("runs")
    config = configured(**{"paths.runs": str(runs)})
    identity = {"kind": "pretrain", "a": 1}
    folder = run_folder_of(config, identity)
    assert folder.path == runs / f"pretrain-tiny-mlm_nsp-{hash8(identity)}"
    folder.path.mkdir()
    config.model.name = "mine"
    assert run_folder_of(config, identity).path == folder.path


def test_a_folder_of_the_same_digits_is_another_run_s_if_its_identity_says_so(tmp_path: Path) -> None:
    """The name has 32 bits of the hash; the whole identity stands in the folder."""
    identity = {"kind": "pretrain", "rate": 1.0, "stages": [(0.5, 32)]}
    run = begun_or_new(tmp_path, "pretrain-tiny-mlm", identity)
    run.path.mkdir()
    assert begun_or_new(tmp_path, "pretrain-renamed", identity).path == run.path  # begun by a version that kept no identity
    write_identity(run, identity)
    assert begun_or_new(tmp_path, "pretrain-tiny-mlm", {**identity, "rate": 1, "stages": [[0.5, 32]]}).path == run.path
    write_identity(run, {**identity, "rate": 2})  # as if the hashes began alike
    with pytest.raises(UserError, match=r"is another run whose identity happens to have the same eight digits .*paths\.runs=DIR"):
        begun_or_new(tmp_path, "pretrain-tiny-mlm", identity)
    twin = RunFolder(tmp_path / run.name.replace("tiny", "twin"))
    twin.path.mkdir()
    write_identity(twin, identity)
    assert begun_or_new(tmp_path, "pretrain-tiny-mlm", identity).path == twin.path
    run.identity.unlink()
    twin.identity.unlink()
    for each in (run, twin):
        each.result.write_text(json.dumps({"identity": {**identity, "rate": 3}}))
    with pytest.raises(UserError, match="another run"):  # what a finished run's result says of it counts as well
        begun_or_new(tmp_path, "pretrain-tiny-mlm", identity)
