"""Micro-batches and ranks part the work of a step and change nothing else."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from pathlib import Path

import pytest
from processes import free_port, start_ranks, train
from small_runs import MakeConfig

from bertlab.config import PretrainConfig

STEPS = {"budget.steps": 8}
CHANGES = {"model.dropout": 0.0, "model.attention_dropout": 0.0, "trainer.log_every": 1, "optimizer.clip": 0.05}


def rows_of(config: PretrainConfig) -> list[dict[str, float]]:
    (folder,) = Path(config.paths.runs).iterdir()
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_same(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    assert len(ours) == len(theirs) > 8
    for our, their in zip(ours, theirs, strict=True):
        assert our.keys() == their.keys()
        for key, value in our.items():
            same = value == their[key] if isinstance(value, str) else math.isclose(value, their[key], rel_tol=2e-5)
            assert same, (our["step"], key, value, their[key])


def test_micro_batches_give_the_gradient_of_the_whole_batch(make_config: MakeConfig, tmp_path: Path) -> None:
    whole = make_config(**CHANGES, **STEPS)
    assert train(whole, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    parted = make_config(**CHANGES, **STEPS, **{"batch.micro": 3, "paths.runs": str(tmp_path / "parted")})
    assert train(parted, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    assert_same(rows_of(parted), rows_of(whole))


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_two_ranks_give_the_gradient_of_the_whole_batch(norm: str, make_config: MakeConfig, tmp_path: Path) -> None:
    whole = make_config(**CHANGES, **STEPS, **{"norm.kind": norm})
    assert train(whole, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    micro = {"batch.micro": 3} if norm == "layer" else {}
    parted = make_config(**CHANGES, **STEPS, **micro, **{"norm.kind": norm, "trainer.devices": 2, "paths.runs": str(tmp_path / "parted")})
    ranks = start_ranks(parted, tmp_path, world=2, port=free_port())
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0], "\n".join(path.read_text() for path in tmp_path.glob("rank*"))
    assert_same(rows_of(parted), rows_of(whole))


@pytest.mark.kill
@pytest.mark.slow
def test_a_signal_to_one_rank_stops_all_of_them(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(**CHANGES, **{"trainer.devices": 2, "budget.steps": 120})
    ranks = start_ranks(config, tmp_path, world=2, port=free_port())
    while not list(tmp_path.glob("runs/*/metrics.jsonl")) or len(rows_of(config)) < 10:
        time.sleep(0.01)
        assert ranks[0].exitcode is None
    os.kill(ranks[1].pid or 0, signal.SIGTERM)
    for rank in ranks:
        rank.join()
    logs = "\n".join(path.read_text() for path in sorted(tmp_path.glob("rank*")))
    assert [rank.exitcode for rank in ranks] == [143, 143], logs
    assert logs.count("the same command resumes") == 1
    before = len(rows_of(config))
    ranks = start_ranks(config, tmp_path, world=2, port=free_port())
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0]
    steps = [row["step"] for row in rows_of(config) if row["split"] == "train"]
    assert steps == list(range(1, 121))
    assert before < len(rows_of(config))
