"""Which commands are the same to ``launcher=slurm``: those of one configuration whose input is unchanged. With a queue that only notes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bertlab.cluster import queue, submission
from bertlab.cluster.resources import Resources
from bertlab.cluster.submission import COMMANDS, Command, Element, End, write_end
from bertlab.commands.inputs import states_of_inputs
from bertlab.commands.queueing import queue_jobs
from bertlab.composition import Job
from bertlab.config import CorpusConfig, PretrainConfig
from bertlab.finetune_config import FinetuneConfig
from bertlab.task_config import TaskConfig

Queue = Callable[..., str]


@pytest.fixture
def queue_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Queue:
    """Calls a command from the working folder; the id of its job. A job is done, with a result, as soon as it is queued."""
    numbers = itertools.count(1)

    def submit(runs: Path, title: str, commands: Sequence[Command], resources: Resources) -> list[Element]:
        number = next(numbers)
        folder = submission.submissions_folder(runs) / f"{title}-{number}"
        result = runs / f"run-{number}"
        for each in (folder, result):
            each.mkdir(parents=True)
        (result / "result.json").write_text("{}")
        (folder / COMMANDS).write_text(json.dumps({"commands": [asdict(command) for command in commands]}))
        (folder / "job.json").write_text(json.dumps({"job": str(number)}))
        write_end(folder, 0, End(0, str(result)))
        return [Element(folder, 0, str(number))]

    monkeypatch.setattr(queue, "check_there", lambda: None)
    monkeypatch.setattr(queue, "states", dict)
    monkeypatch.setattr(submission, "submit", submit)

    def call(config: PretrainConfig | FinetuneConfig) -> str:
        config.launcher.kind, config.launcher.follow, config.trainer.accelerator = "slurm", False, "cpu"
        config.paths.runs = str(tmp_path / "runs")
        job: Job[Any] = Job(config, [])
        assert queue_jobs("pretrain", [job], lambda job: ["pretrain"]) is None
        return capsys.readouterr().out.strip()

    return call


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def pretraining(path: str = "data", **corpus: Any) -> PretrainConfig:
    return PretrainConfig(corpus=CorpusConfig(kind="text", path=path, **corpus))


def finetuning(checkpoint: str = "model", **task: Any) -> FinetuneConfig:
    files = {"train": ["train.tsv"], "dev": ["dev.tsv"]}
    return FinetuneConfig(checkpoint=checkpoint, task=TaskConfig(**{"name": "toy", "path": "task", "files": files, **task}))


def test_one_path_in_two_folders_is_two_inputs(queue_run: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        write(tmp_path / name / "data" / "a.txt", "alike")
    monkeypatch.chdir(tmp_path / "here")
    first = queue_run(pretraining())
    assert queue_run(pretraining()) == first
    monkeypatch.chdir(tmp_path / "there")
    assert queue_run(pretraining()) != first
    monkeypatch.chdir(tmp_path / "here")
    assert queue_run(pretraining()) == first


def lengthen(path: Path) -> None:
    path.write_text(path.read_text() + ".")


def rewrite(path: Path) -> None:
    """With as many bytes."""
    before = path.stat().st_mtime_ns
    path.write_text(path.read_text()[::-1])
    os.utime(path, ns=(before, before + 1))


def put_another_beside(path: Path) -> None:
    shutil.copy2(path, path.with_name(f"more-{path.name}"))


@pytest.mark.parametrize("change", [lengthen, rewrite, put_another_beside, Path.unlink])
def test_a_changed_corpus_is_queued_again(
    change: Callable[[Path], None], queue_run: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = [write(Path("data") / name, "a text") for name in ("a.txt", "b/c.txt")][1]
    first = queue_run(pretraining())
    assert queue_run(pretraining()) == first
    change(text)
    second = queue_run(pretraining())
    assert second != first
    assert queue_run(pretraining()) == second


THERE = [
    "data/a.txt",
    "data/b.md",
    "data/.hidden",
    "model/config.json",
    "model/model.safetensors",
    "task/train.tsv",
    "task/dev.tsv",
    "task/other.tsv",
    "runs/pretrain-x-0123abcd/model.safetensors",
    "runs/pretrain-x-0123abcd/.lock",
]
INPUTS: dict[str, tuple[PretrainConfig | FinetuneConfig, list[str]]] = {
    "a file": (pretraining("data/a.txt"), ["data/a.txt"]),
    "a glob": (pretraining("data/*.txt"), ["data/a.txt"]),
    "a mixture": (
        PretrainConfig(corpus=CorpusConfig(kind="mixture", sources={"one": CorpusConfig(kind="text", path="data")})),
        ["data/a.txt", "data/b.md"],
    ),
    "an id of a hub": (PretrainConfig(corpus=CorpusConfig(kind="huggingface", path="some/id")), []),
    "no corpus": (PretrainConfig(), []),
    "weights to go on from": (PretrainConfig(init="model"), ["model/config.json", "model/model.safetensors"]),
    "a task": (finetuning(), ["model/config.json", "model/model.safetensors", "task/dev.tsv", "task/train.tsv"]),
    "a task that is not here": (finetuning(path="nowhere"), ["model/config.json", "model/model.safetensors"]),
    "a run's id": (finetuning("pretrain-x-0123abcd", path="nowhere"), ["runs/pretrain-x-0123abcd/model.safetensors"]),
    "the end of an id": (finetuning("0123abcd", path="nowhere"), ["runs/pretrain-x-0123abcd/model.safetensors"]),
    "the folder that one is in": (finetuning(".", path="nowhere"), [path for path in sorted(THERE) if "/." not in path]),
    "a data set": (finetuning("nowhere", format="huggingface", dataset="data"), ["data/a.txt", "data/b.md"]),
}


@pytest.mark.parametrize("name", INPUTS)
def test_what_is_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BERTLAB_TASKS", raising=False)
    for name_there in THERE:
        write(Path(name_there), "abc")
    config, expected = INPUTS[name]
    assert [(path, state[0]) for path, state in states_of_inputs(config)] == [(str(tmp_path / path), 3) for path in expected]


def test_a_probe_is_made_of_its_corpus_and_vocabulary(tmp_path: Path) -> None:
    text, vocabulary = write(tmp_path / "a.txt", "a"), write(tmp_path / "vocab.txt", "bc")
    config = finetuning("nowhere", format="probe")
    config.task.probe.corpus, config.task.probe.tokenizer.path = CorpusConfig(kind="text", path=str(text)), str(vocabulary)
    assert [(path, state[0]) for path, state in states_of_inputs(config)] == [(str(text), 1), (str(vocabulary), 2)]


def test_other_text_of_the_same_size_and_time_is_another_input(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "one")
    os.utime(text, (0, 0))  # as tar -x and rsync -t leave what they unpack
    before = states_of_inputs(pretraining(str(text)))
    assert states_of_inputs(pretraining(str(text))) == before
    write(text, "two")
    os.utime(text, (0, 0))
    assert states_of_inputs(pretraining(str(text))) != before
