"""Grids in real processes that are stopped, killed, and started twice. The runs are fakes that save every step."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from fake_grids import carry_out, finetuning, journal, plan_of, pretraining, processes_of, start_grid, wait_until

from bertlab.ablation.graph import Plan
from bertlab.ablation.records import read_record
from bertlab.ablation.run_states import State

pytestmark = pytest.mark.kill

STEPS, PAUSE = 60, 0.05


def two_rows(*words: str) -> Plan:
    long = (f"steps={STEPS}", f"pause={PAUSE}", *words)
    return plan_of(pretraining("a", *long), finetuning("a1", "a"), pretraining("b", *long), finetuning("b1", "b"))


def saved(runs: Path, name: str) -> int:
    try:
        return int((runs / f"pretrain-fake-{name}" / "saved").read_text())
    except OSError:
        return 0


def rows(runs: Path, name: str) -> list[int]:
    """The steps that were worked on, as often as they were."""
    lines = (runs / f"pretrain-fake-{name}" / "throughput.jsonl").read_text().splitlines()
    return [int(line.split('"step": ')[1].split(",")[0]) for line in lines]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_stopped(signum: signal.Signals, code: int, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    grid = start_grid(two_rows(), runs, tmp_path / "log")
    wait_until(lambda: saved(runs, "a") > 1 and saved(runs, "b") > 1)
    grid.send_signal(signum)
    assert grid.wait() == code, (tmp_path / "log").read_text()
    assert not processes_of(runs)
    assert sorted(journal(runs)[2:]) == [("stopped", "a"), ("stopped", "b")]
    assert "Stopping: 2 runs save their state" in (tmp_path / "log").read_text()
    assert not list((runs / "grid").glob("*.json"))
    assert carry_out(two_rows(), runs).done
    assert rows(runs, "a") == rows(runs, "b") == list(range(1, STEPS + 1))


def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    grid = start_grid(two_rows("ignore=1"), runs, tmp_path / "log", grace=0.5)
    wait_until(lambda: saved(runs, "a") > 1 and saved(runs, "b") > 1)
    grid.terminate()
    assert grid.wait() == 143
    assert not processes_of(runs)
    assert saved(runs, "a") < STEPS
    assert carry_out(two_rows(), runs).done


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    runs, log = tmp_path / "runs", tmp_path / "log"
    grid = start_grid(two_rows("ignore=1"), runs, log, grace=1000.0)
    wait_until(lambda: saved(runs, "a") > 1 and saved(runs, "b") > 1)
    grid.terminate()
    wait_until(lambda: "Stopping" in log.read_text())
    grid.terminate()
    assert grid.wait() == 143
    assert not processes_of(runs)
    assert saved(runs, "a") < STEPS


def test_the_grid_is_killed(tmp_path: Path) -> None:
    """Its runs save their state and end by themselves; nothing that was done is done again."""
    runs = tmp_path / "runs"
    grid = start_grid(two_rows(), runs, tmp_path / "log")
    wait_until(lambda: saved(runs, "a") > 1 and saved(runs, "b") > 1)
    grid.kill()
    grid.wait()
    assert carry_out(two_rows(), runs).done  # at once: it waits for what is still saving its state
    assert "TWICE" not in [what for what, _ in journal(runs)]
    assert rows(runs, "a") == rows(runs, "b") == list(range(1, STEPS + 1))


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="a process asks for its parent's end only on Linux")
def test_the_one_that_looks_after_a_run_is_killed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    grid = start_grid(two_rows(), runs, tmp_path / "log")
    wait_until(lambda: saved(runs, "a") > 1 and saved(runs, "b") > 1)
    run = int((runs / "pretrain-fake-a" / "holder").read_text())
    os.kill(int(Path(f"/proc/{run}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
    assert grid.wait() == 1, (tmp_path / "log").read_text()
    assert ("stopped", "a") in journal(runs)
    assert "stopped from outside (SIGKILL)" in (tmp_path / "log").read_text()
    record = read_record(runs, "b1")
    assert record is not None
    assert record.status == "done"
    assert carry_out(two_rows(), runs).done
    assert "TWICE" not in [what for what, _ in journal(runs)]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc"), reason="finds processes in /proc")
@pytest.mark.parametrize("killed", range(3))
def test_everything_is_killed_at_random_moments(killed: int, tmp_path: Path) -> None:
    """The grid first, or the runs first, at any moment of the start, of a step, or of the end; the next call goes on."""
    runs, draw = tmp_path / "runs", random.Random(time.time_ns())
    plan = plan_of(pretraining("a", "steps=6", "pause=0.05"), finetuning("a1", "a"), finetuning("a2", "a"))
    for _ in range(6):
        grid = start_grid(plan, runs, tmp_path / "log")
        time.sleep(draw.uniform(0.0, 1.5))
        victims = [*processes_of(runs)]
        draw.shuffle(victims)
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
        grid.wait()
    wait_until(lambda: not processes_of(runs))
    outcome = carry_out(plan, runs)
    if not outcome.done:  # a run whose end a killed one had recorded as a failure
        outcome = carry_out(plan, runs)
    assert outcome.done, [run.reason for run in outcome.runs]
    steps = rows(runs, "a")
    assert sorted(set(steps)) == list(range(1, 7))
    assert "TWICE" not in [what for what, _ in journal(runs)]


def test_two_grids_at_once(tmp_path: Path) -> None:
    """Every run is begun once, whichever of them begins it; both know all records in the end."""
    runs = tmp_path / "runs"
    nodes = [pretraining(f"p{number}", "steps=3", "pause=0.05") for number in range(4)]
    nodes += [finetuning(f"f{number}", f"p{number % 4}", "steps=2", "pause=0.05") for number in range(8)]
    first = start_grid(plan_of(*nodes), runs, tmp_path / "first")
    second = start_grid(plan_of(*nodes), runs, tmp_path / "second")
    assert (first.wait(), second.wait()) == (0, 0), (tmp_path / "first").read_text() + (tmp_path / "second").read_text()
    begun = [name for what, name in journal(runs) if what == "begin"]
    assert sorted(begun) == sorted(node.key for node in nodes)
    assert all("another command runs it" in (tmp_path / name).read_text() for name in ("first", "second")) or len(set(begun)) == 12


def test_the_other_grids_failure_is_taken_over(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    plan = plan_of(pretraining("a", "steps=20", "pause=0.05", "fail=It is broken."), finetuning("a1", "a"))
    first = start_grid(plan, runs, tmp_path / "first")
    wait_until(lambda: saved(runs, "a") > 1)
    outcome = carry_out(plan, runs)
    assert first.wait() == 1
    assert [run.state for run in outcome.runs] == [State.FAILED, State.BLOCKED]
    assert outcome.runs[0].reason == "It is broken."
    assert [name for what, name in journal(runs) if what == "begin"] == ["a"]


def test_the_other_grid_is_stopped(tmp_path: Path) -> None:
    """What it ran is run on by the one that waited for it."""
    runs = tmp_path / "runs"
    plan = plan_of(pretraining("a", f"steps={STEPS}", f"pause={PAUSE}"))
    first = start_grid(plan, runs, tmp_path / "first")
    wait_until(lambda: saved(runs, "a") > 1)
    second = start_grid(plan, runs, tmp_path / "second")
    wait_until(lambda: "another command runs it" in (tmp_path / "second").read_text())
    first.terminate()
    assert (first.wait(), second.wait()) == (143, 0)
    assert rows(runs, "a") == list(range(1, STEPS + 1))
