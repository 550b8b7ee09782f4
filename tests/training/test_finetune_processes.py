"""Fine-tunings that are killed, stopped, or shared by two processes."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from finetune_toys import make_finetuning, write_checkpoint, write_task
from processes import start, start_ranks, train

from bertlab.finetune_config import FinetuneConfig
from bertlab.tasks.predictions import read_predictions

KILLS = 8


def only_run(config: FinetuneConfig) -> Path:
    (folder,) = Path(config.paths.runs).iterdir()
    return folder


def content(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("metrics.jsonl", "model.safetensors", "predictions.jsonl")]


def saved_states(config: FinetuneConfig) -> set[Path]:
    return set(Path(config.paths.runs).glob("*/checkpoints/last-*.ckpt"))


@pytest.fixture
def long(tmp_path: Path) -> FinetuneConfig:
    """A run of 480 steps that evaluates often."""
    task, checkpoint = write_task(tmp_path / "task", "classification"), write_checkpoint(tmp_path / "model")
    changes = {"tuning.epochs": 80.0, "tuning.evaluate_every": 2.0, "checkpointing.every": 5}
    return make_finetuning(tmp_path, task, checkpoint, **changes)


def uninterrupted(config: FinetuneConfig, folder: Path) -> list[bytes]:
    runs, config.paths.runs = config.paths.runs, str(folder / "whole")
    assert train(config, folder / "log") == 0, (folder / "log").read_text()
    expected = content(only_run(config))
    config.paths.runs = runs
    return expected


@pytest.mark.kill
@pytest.mark.slow
def test_killed_at_random_moments(long: FinetuneConfig, tmp_path: Path) -> None:
    expected, log = uninterrupted(long, tmp_path), tmp_path / "log"
    log.write_text("")
    draw = random.Random(time.time_ns())
    for _ in range(KILLS):
        before = saved_states(long)
        process = start(long, log)
        while process.exitcode is None and saved_states(long) == before:
            time.sleep(0.001)
        process.join(draw.uniform(0, 0.12))
        if process.exitcode is not None:
            break
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    assert "resumed after step" in log.read_text()
    assert train(long, log) == 0, log.read_text()
    assert content(only_run(long)) == expected


@pytest.mark.kill
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_stop(signum: signal.Signals, code: int, long: FinetuneConfig, tmp_path: Path) -> None:
    expected = uninterrupted(long, tmp_path)
    long.checkpointing.every = 10000
    process = start(long, tmp_path / "log")
    while process.exitcode is None and not any(Path(long.paths.runs).glob("*/checkpoints/best-*")):
        time.sleep(0.005)
    os.kill(process.pid or 0, signum)
    process.join()
    log = (tmp_path / "log").read_text()
    assert process.exitcode == code, log
    assert "the same command resumes" in log
    assert not (only_run(long) / "result.json").exists()
    assert train(long, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    assert content(only_run(long)) == expected


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rows_of(config: FinetuneConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (only_run(config) / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("classification", {"tuning.batch": 4}),  # the last batch of an epoch has a single example: one rank stands by
        # In pieces of four at most one process has the two that two processes share, of the last batch of five, too: so the noise is one.
        ("classification", {"dropout": 0.2, "attention_dropout": 0.2, "tuning.micro": 4, "trainer.checkpoint_activations": True}),
        ("tagging", {"tuning.gradual": True}),
        ("span", {"head.bilstm": True}),
        ("choice", {"features.kind": "concat_all", "features.hidden": 8}),
    ],
    ids=["classification", "dropout", "tagging", "span", "choice"],
)
def test_two_ranks_give_what_one_gives_and_predict_every_example_once(kind: str, changes: dict[str, object], tmp_path: Path) -> None:
    task, checkpoint = write_task(tmp_path / "task", kind), write_checkpoint(tmp_path / "model")
    changes = {
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "head.dropout": 0.0,
        "tuning.epochs": 2.0,
        "trainer.log_every": 1,
        "optimizer.lr": 1e-3,
        **changes,
    }
    whole = make_finetuning(tmp_path / "one", task, checkpoint, **changes)
    assert train(whole, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    parted = make_finetuning(tmp_path / "two", task, checkpoint, **changes, **{"trainer.devices": 2})
    ranks = start_ranks(parted, tmp_path, world=2, port=free_port())
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0], "\n".join(path.read_text() for path in sorted(tmp_path.glob("rank*")))
    for ours, theirs in zip(rows_of(parted), rows_of(whole), strict=True):
        assert ours.keys() == theirs.keys()
        for key in ("loss", "lr", "gradient_norm"):
            assert key not in ours or math.isclose(ours[key], theirs[key], rel_tol=1e-3), (ours["step"], key)
    predictions = read_predictions(only_run(parted) / "predictions.jsonl")
    expected = read_predictions(only_run(whole) / "predictions.jsonl")
    assert [prediction.id for prediction in predictions] == [prediction.id for prediction in expected]
    assert max(Counter(prediction.id for prediction in predictions).values()) == 1
    assert len(predictions) == 20
    assert only_run(parted).name == only_run(whole).name
