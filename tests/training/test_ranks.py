"""Micro-batches and ranks part the work of a step and change nothing else."""

from __future__ import annotations

import json
import math
import socket
from pathlib import Path

import pytest
from conftest import MakeConfig
from processes import start_ranks, train

from bertlab.config import PretrainConfig

CHANGES = {"budget.steps": 8, "model.dropout": 0.0, "model.attention_dropout": 0.0, "trainer.log_every": 1, "optimizer.clip": 0.05}


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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_micro_batches_give_the_gradient_of_the_whole_batch(make_config: MakeConfig, tmp_path: Path) -> None:
    whole = make_config(**CHANGES)
    assert train(whole, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    parted = make_config(**CHANGES, **{"batch.micro": 3, "paths.runs": str(tmp_path / "parted")})
    assert train(parted, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    assert_same(rows_of(parted), rows_of(whole))


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_two_ranks_give_the_gradient_of_the_whole_batch(norm: str, make_config: MakeConfig, tmp_path: Path) -> None:
    whole = make_config(**CHANGES, **{"norm.kind": norm})
    assert train(whole, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    micro = {"batch.micro": 3} if norm == "layer" else {}
    parted = make_config(**CHANGES, **micro, **{"norm.kind": norm, "trainer.devices": 2, "paths.runs": str(tmp_path / "parted")})
    ranks = start_ranks(parted, tmp_path, world=2, port=free_port())
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0], "\n".join(path.read_text() for path in tmp_path.glob("rank*"))
    assert_same(rows_of(parted), rows_of(whole))
