"""A disk that has no room left, at every write of a training and of preparing: a sentence, and the same command goes on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from finetune_toys import make_finetuning, write_checkpoint, write_task
from run_numbers import numbers, sentence_of
from small_disk import NO_MOUNT, run_on_small_disk, way_to_mount
from small_runs import MakeConfig

from bertlab.training.finetune import finetune
from bertlab.training.pretrain import pretrain

HERE = Path(__file__).parent
mounted = pytest.mark.skipif(way_to_mount() is None, reason=NO_MOUNT)


class FailingSync:
    """``os.fsync`` that finds the disk full, once: everything that has to last goes through it."""

    def __init__(self) -> None:
        self.left = 0  # calls before the one that fails
        self._fsync = os.fsync

    def __call__(self, descriptor: int) -> None:
        self.left -= 1
        if self.left == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._fsync(descriptor)


def full_at_every_write(run: Callable[[str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Have ``run`` find the disk full at its first write, its second …, each time in a new folder; how many writes there were."""
    expected = numbers(run(str(folder / "whole")))
    monkeypatch.setattr(os, "fsync", sync := FailingSync())
    for number in range(200):
        sync.left = number
        try:
            done = run(str(folder / str(number)))
        except Exception as error:
            said = sentence_of(error)
        else:
            assert sync.left >= 0
            assert numbers(done) == expected
            print(f"full {number} times")
            return number
        assert "No space left on device: make room" in said
        assert said.startswith(f"{folder / str(number)}/")
        assert not list((folder / str(number)).glob("*/.*.part")), "what was not written whole is left on the full disk"
        assert not list((folder / str(number)).glob("*/checkpoints/.*.part"))
        assert numbers(run(str(folder / str(number)))) == expected, number
    raise AssertionError("so many writes are too many")


@pytest.mark.slow
def test_full_at_every_write_of_a_pretraining(make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"budget.steps": 6, "checkpointing.every": 3, "checkpointing.keep_every": 3, "trainer.log_every": 2}

    def run(runs: str) -> Path:
        return pretrain(make_config(**changes, **{"paths.runs": runs}))

    # The configuration, the vocabulary, the architecture, the weights and the result, each with its folder; twice the rows, their state …
    assert full_at_every_write(run, tmp_path, monkeypatch) >= 2 * 5 + 2 * (2 + 2 + 2)


@pytest.mark.slow
def test_full_at_every_write_of_a_finetuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, checkpoint = write_task(tmp_path / "task", "classification"), write_checkpoint(tmp_path / "model")
    changes = {"tuning.epochs": 2.0, "checkpointing.every": 6, "paths.cache": str(tmp_path / "cache")}

    def run(runs: str) -> Path:
        return finetune(make_finetuning(tmp_path, task, checkpoint, **changes, **{"paths.runs": runs}))

    assert full_at_every_write(run, tmp_path / "runs", monkeypatch) >= 2 * 6 + 2 * (2 + 2 + 2)


@pytest.mark.slow
@mounted
def test_trained_on_a_disk_with_ever_more_room(tmp_path: Path, corpus: Path, cache: Path, make_config: MakeConfig) -> None:
    ended = run_on_small_disk(HERE / "fill_with_runs.py", tmp_path / "disk", 8, str(corpus), str(cache))
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    print(found)
    assert found["times"] >= 40
    # Every kind of file was one that found no room.
    for name in ("config.yaml", "tokenizer.json", "metrics.jsonl", "checkpoints", "checkpoints/step-N.safetensors", "model.safetensors"):
        assert name in found["where"]


@pytest.mark.slow
@mounted
def test_prepared_on_a_disk_with_ever_more_room(tmp_path: Path, corpus: Path) -> None:
    ended = run_on_small_disk(HERE / "fill_with_store.py", tmp_path / "disk", 8, str(corpus))
    assert ended.returncode == 0, ended.stderr
    print(ended.stdout)
    assert json.loads(ended.stdout.splitlines()[-1])["times"] >= 5
