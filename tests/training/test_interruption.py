"""Runs that are killed, stopped and damaged end as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from processes import start, train
from small_runs import MakeConfig

from bertlab.config import PretrainConfig

KILLS = 12


def only_run(config: PretrainConfig) -> Path:
    (folder,) = Path(config.paths.runs).iterdir()
    return folder


def numbers(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "model.safetensors").read_bytes(), (folder / "metrics.jsonl").read_bytes()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, bytes]]:
    """The numbers of uninterrupted runs, by objective."""
    return {}


def uninterrupted(config: PretrainConfig, reference: dict[str, tuple[bytes, bytes]], folder: Path) -> tuple[bytes, bytes]:
    key = config.objective.kind + config.norm.kind
    if key not in reference:
        runs, config.paths.runs = config.paths.runs, str(folder / "whole")
        assert train(config, folder / "log") == 0, (folder / "log").read_text()
        reference[key] = numbers(only_run(config))
        config.paths.runs = runs
    return reference[key]


def wait_for_rows(config: PretrainConfig, count: int, seconds: float = 60.0) -> None:
    """Until the run has written so many rows."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rows = [path.read_bytes().count(b"\n") for path in Path(config.paths.runs).glob("*/metrics.jsonl")]
        if rows and rows[0] >= count:
            return
        time.sleep(0.005)
    raise AssertionError("the run wrote too few rows")


def saved_states(config: PretrainConfig) -> set[Path]:
    return set(Path(config.paths.runs).glob("*/checkpoints/last-*.ckpt"))


@pytest.mark.kill
@pytest.mark.slow
def test_killed_at_random_moments(make_config: MakeConfig, tmp_path: Path) -> None:
    changes = {"budget.steps": 500, "checkpointing.every": 2, "checkpointing.keep_every": 100, "validation.every": 10}
    config, log = make_config(**changes), tmp_path / "log"
    expected = uninterrupted(make_config(**changes), {}, tmp_path)
    log.write_text("")
    draw = random.Random(time.time_ns())
    for kill in range(KILLS):
        before = saved_states(config)
        process = start(config, log)
        # Every fifth at any moment of its start, the others once they have gone further, at any moment of a step or a save.
        process.join(draw.uniform(0, 1.0) if kill % 5 == 0 else 0.0)
        while kill % 5 and process.exitcode is None and saved_states(config) == before:
            time.sleep(0.001)
        process.join(draw.uniform(0, 0.12))
        if process.exitcode is not None:
            break
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    assert process.exitcode in (0, -signal.SIGKILL), log.read_text()
    assert log.read_text().count("resumed after step") >= KILLS // 2
    assert train(config, log) == 0, log.read_text()
    assert numbers(only_run(config)) == expected
    assert len(list((only_run(config) / "checkpoints").glob("step-*.safetensors"))) == 5


@pytest.mark.kill
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_stop(
    signum: signal.Signals, code: int, make_config: MakeConfig, tmp_path: Path, reference: dict[str, tuple[bytes, bytes]]
) -> None:
    config = make_config(**{"checkpointing.every": 1000, "budget.steps": 200})
    expected = uninterrupted(config, reference, tmp_path)
    process = start(config, tmp_path / "log")
    wait_for_rows(config, 3)
    os.kill(process.pid or 0, signum)
    process.join()
    log = (tmp_path / "log").read_text()
    assert process.exitcode == code, log
    assert "the same command resumes" in log
    assert not (only_run(config) / "result.json").exists()
    assert train(config, tmp_path / "log") == 0
    assert numbers(only_run(config)) == expected


@pytest.mark.kill
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damaged_checkpoint(damage: str, make_config: MakeConfig, tmp_path: Path, reference: dict[str, tuple[bytes, bytes]]) -> None:
    config = make_config(**{"budget.steps": 200, "checkpointing.every": 5})
    expected = uninterrupted(config, reference, tmp_path)
    process = start(config, tmp_path / "log")
    wait_for_rows(config, 5)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    older, newest = sorted((only_run(config) / "checkpoints").glob("last-*.ckpt"))
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    assert train(config, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    log = (tmp_path / "log").read_text()
    assert "damaged" in log
    assert f"resumed after step {int(older.name.split('-')[1])}" in log
    assert numbers(only_run(config)) == expected


def test_one_process_a_run_and_a_finished_one_is_left_alone(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(**{"budget.steps": 400})
    process = start(config, tmp_path / "log")
    wait_for_rows(config, 1)
    assert train(config, tmp_path / "second") == 1
    assert "another process" in (tmp_path / "second").read_text()
    process.join()
    assert process.exitcode == 0
    before = {path: path.stat().st_mtime_ns for path in only_run(config).rglob("*") if path.is_file()}
    assert train(config, tmp_path / "third") == 0
    assert "finished" in (tmp_path / "third").read_text()
    assert {path: path.stat().st_mtime_ns for path in only_run(config).rglob("*") if path.is_file()} == before
