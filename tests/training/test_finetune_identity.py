from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from finetune_toys import make_finetuning

from bertlab.models.architecture import Architecture
from bertlab.task_config import ColumnsConfig, TaskConfig
from bertlab.training.finetune_identity import finetune_folder_of, finetuning_identity, readable_name
from bertlab.training.finetune_model import architecture_of
from bertlab.training.identity import hash8


@dataclass
class Vocabulary:
    fingerprint: str = "v"


@dataclass
class Pretrained:
    fingerprint: str = "w"
    name: str = "pretrain-tiny-mlm-0123abcd"
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    architecture: Architecture = field(default_factory=lambda: Architecture(layers=2))


def digest(pretrained: Pretrained | None = None, data: str = "d", task: TaskConfig | None = None, **changes: object) -> str:
    pretrained = pretrained or Pretrained()
    task = task or TaskConfig(name="toy", metrics=["accuracy"])
    config = make_finetuning(Path("/nowhere"), task, Path("/model"), **changes)
    architecture = architecture_of(config, pretrained.architecture)
    return hash8(finetuning_identity(config, pretrained, architecture, data))


@pytest.mark.parametrize(
    "changes",
    [
        {"logger.kind": "wandb"},
        {"paths.runs": "/elsewhere"},
        {"paths.cache": "/elsewhere"},
        {"checkpoint": "/elsewhere"},
        {"task.path": "/elsewhere"},
        {"task.name": "mine"},
        {"task.columns": ColumnsConfig(text="sentence")},
        {"task.files": {"train": ["other.tsv"]}},
        {"task.stride": 3},
        {"task.scheme": "iob1"},
        {"task.submission": {"test": "X.tsv"}},
        {"trainer.devices": 2},
        {"trainer.threads": 3},
        {"launcher.kind": "slurm", "launcher.gpus": 8},
        {"trainer.log_every": 7},
        {"trainer.accelerator": "gpu"},
        {"checkpointing.every": 7},
        {"tuning.micro": 2},
        {"recipe": "laptop"},
        {"submission": True},
        {"dropout": 0.1},
        {"features.hidden": 10},
        {"head.filters": 10},
        {"head.bilstm_layers": 2},
        {"optimizer.clip": 1},
        {"tuning.epochs": 4},
    ],
    ids=str,
)
def test_what_changes_no_number_changes_no_identity(changes: dict[str, object]) -> None:
    assert digest(**changes) == digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"weights": "random"},
        {"dropout": 0.0},
        {"attention_dropout": 0.3},
        {"task.kind": "regression"},
        {"task.metrics": ["f1"]},
        {"task.evaluate": ["dev", "test"]},
        {"task.max_length": 64},
        {"head.pooler": False},
        {"head.dropout": 0.0},
        {"head.convolution": 3},
        {"head.bilstm": True},
        {"features.kind": "last"},
        {"tuning.epochs": 3.0},
        {"tuning.batch": 16},
        {"tuning.group_by_length": False},
        {"tuning.freeze": "encoder"},
        {"tuning.layer_decay": 0.9},
        {"tuning.reinit_layers": 1},
        {"tuning.train_examples": 10},
        {"tuning.patience": 2},
        {"optimizer.kind": "adamw"},
        {"optimizer.lr": 1e-3},
        {"trainer.precision": "bf16"},
    ],
    ids=str,
)
def test_what_changes_a_number_changes_the_identity(changes: dict[str, object]) -> None:
    assert digest(**changes) != digest()


def test_it_counts_whether_tags_are_named_where_the_first_one_named_is_nothing() -> None:
    tags = {"task.kind": "tagging", "task.scheme": "none"}
    assert digest(**tags, **{"task.labels": ["a", "b"]}) != digest(**tags, **{"task.labels": []})
    entities = {"task.kind": "tagging", "task.scheme": "bio"}
    assert digest(**entities, **{"task.labels": ["O", "B-X"]}) == digest(**entities, **{"task.labels": []})


def test_what_is_read_counts_by_its_content() -> None:
    others = [digest(Pretrained(fingerprint="x")), digest(Pretrained(vocabulary=Vocabulary("x"))), digest(data="x")]
    assert len({digest(), *others}) == 4
    assert digest(Pretrained(name="other")) == digest()


def test_with_random_weights_the_training_of_the_checkpoint_does_not_count() -> None:
    assert digest(Pretrained(fingerprint="x"), weights="random") == digest(weights="random")
    wider = Pretrained(architecture=Architecture(layers=3))
    assert digest(wider, weights="random") != digest(weights="random")


def test_values_of_a_kind_count_for_that_kind() -> None:
    spans = TaskConfig(name="toy", kind="span", metrics=["f1"])
    for change in ({"stride": 3}, {"max_query_length": 9}, {"max_answer_length": 7}, {"no_answer": not spans.no_answer}):
        assert digest(task=dataclasses.replace(spans, **change)) != digest(task=spans), change
    tags = TaskConfig(name="toy", kind="tagging", metrics=["f1"])
    assert digest(task=dataclasses.replace(tags, document_context=True)) != digest(task=tags)
    assert digest(task=tags, **{"head.pooler": False}) == digest(task=tags)


def test_micro_batches_count_under_batch_norm() -> None:
    model = Pretrained(architecture=Architecture(layers=2, norm="batch"))
    assert digest(model, **{"tuning.micro": 2}) != digest(model)
    assert digest(model, **{"tuning.micro": 2}) != digest(model, **{"tuning.micro": 2, "trainer.devices": 2})
    assert digest(model, **{"tuning.micro": 2}) != digest(model, **{"tuning.micro": 1, "trainer.devices": 2})  # two others together
    for whole in ({"trainer.devices": 2}, {"tuning.micro": 8}, {"tuning.micro": 4, "trainer.devices": 2}):
        assert digest(model, **whole, **{"tuning.batch": 8}) == digest(model, **{"tuning.batch": 8})


def test_names(tmp_path: Path) -> None:
    task = TaskConfig(name="mrpc", metrics=["accuracy"])
    assert readable_name(task, "pretrain-tiny-mlm-0123abcd", "pretrained") == "finetune-mrpc-tiny-mlm-0123abcd"
    assert readable_name(task, "bert-base", "random") == "finetune-mrpc-bert-base-random"
    config = make_finetuning(tmp_path, task, Path("/model"))
    identity = {"kind": "finetune", "a": 1}
    run = finetune_folder_of(tmp_path, config, Pretrained(), identity)
    assert run.path == tmp_path / f"finetune-mrpc-tiny-mlm-0123abcd-{hash8(identity)}"
    run.path.mkdir()
    renamed = Pretrained(name="other")
    assert finetune_folder_of(tmp_path, config, renamed, identity).path == run.path
