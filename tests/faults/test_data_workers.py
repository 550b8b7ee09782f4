"""Processes that make batches, killed: the training goes on without them and ends with the same bytes."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import psutil
import pytest
from processes import _train, context, train
from run_numbers import numbers, only_run
from small_runs import MakeConfig
from torch.utils.data import Dataset

from bertlab.config import PretrainConfig
from bertlab.data.assembly import PretrainingData
from bertlab.data.schedule import Stage, TrainingPlan
from bertlab.training.loader import StageLoader, StepLoader

TRIES = 2


def train_with_forks(config: PretrainConfig, log: Path) -> None:
    """A training in this process, whose own processes are forked as those of a command are."""
    multiprocessing.set_start_method("fork", force=True)
    _train(config, log, {})


def rows_of(config: PretrainConfig) -> int:
    return sum(path.read_bytes().count(b"\n") for path in Path(config.paths.runs).glob("*/throughput.jsonl"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The numbers of the run without workers, once made."""
    return {}


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize("killed", ["one", "all"])
@pytest.mark.parametrize("number", range(TRIES))
def test_killed_at_a_random_moment(killed: str, number: int, make_config: MakeConfig, tmp_path: Path, whole: dict[str, object]) -> None:
    changes = {"budget.steps": 100, "trainer.log_every": 1, "checkpointing.every": 50}
    if not whole:
        config = make_config(**changes, **{"paths.runs": str(tmp_path / "whole")})
        assert train(config, tmp_path / "log") == 0, (tmp_path / "log").read_text()
        whole.update(numbers(only_run(config.paths.runs)))
    config, log = make_config(**changes, **{"trainer.workers": 2}), tmp_path / "log"
    process, draw = context.Process(target=train_with_forks, args=(config, log)), random.Random(time.time_ns())
    process.start()
    wanted = draw.randint(1, 60)
    while rows_of(config) < wanted:
        assert process.exitcode is None, log.read_text()
        time.sleep(0.001)
    workers = psutil.Process(process.pid).children()
    assert [worker.name() for worker in workers] == ["pt_data_worker"] * 2
    for worker in workers if killed == "all" else [draw.choice(workers)]:
        os.kill(worker.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == 0, log.read_text()
    assert "A process that makes batches was killed" in log.read_text()
    assert numbers(only_run(config.paths.runs)) == whole
    assert not any(worker.is_running() for worker in workers)


class Squares(Dataset[int]):
    """Whose worker ends itself, or fails, at the fifth."""

    def __init__(self, harm: str, ours: int) -> None:
        self._harm, self._ours = harm, ours

    def __getitem__(self, key: int) -> int:
        if key == 5 and os.getpid() != self._ours:
            if self._harm == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._harm == "exits":
                os._exit(3)
            raise RuntimeError("out of luck")
        return key * key


class SquareLoader(StepLoader[int]):
    def keys(self) -> Iterator[int]:
        yield from range(12)


@pytest.mark.parametrize("harm", ["killed", "exits"])
def test_every_batch_comes_once_and_in_order(harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGCHLD)
    assert list(SquareLoader(Squares(harm, os.getpid()), workers=2, pinned=False)) == [key * key for key in range(12)]
    assert "this one makes them from now on" in capsys.readouterr().err
    signal.signal(signal.SIGCHLD, before)


def test_an_error_in_a_worker_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="out of luck"):
        list(SquareLoader(Squares("fails", os.getpid()), workers=2, pinned=False))


class Lengths:
    """Stands for the data of a pre-training: a batch says what it was asked for. A worker ends itself at ``killed_at``."""

    def __init__(self, killed_at: int | None) -> None:
        self._killed_at, self._ours = killed_at, os.getpid()

    def step_batch_at(self, stage: Stage, inside: int, step: int) -> str:
        if step == self._killed_at and os.getpid() != self._ours:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{stage.length} {inside} {step}"


def asked_for(killed_at: int | None, workers: int = 2) -> list[str]:
    """What a rank trains with a budget of time, of which each step takes a hundredth."""
    plan = TrainingPlan([Stage(0, 32, 8, 0.5, None, None), Stage(1, 64, 8, 0.5, None, None)], None, 1.0)
    data = cast(PretrainingData, Lengths(killed_at))
    found: list[str] = []
    loader = StageLoader(data, plan, 0, share=lambda: min(1.0, len(found) / 100), begun={}, workers=workers, pinned=False)
    for batch in loader:
        found.append(cast(str, batch))
    return found


@pytest.mark.parametrize("killed_at", [30, 60])
def test_a_rank_that_lost_a_worker_trains_the_stages_of_the_others(killed_at: int) -> None:
    """With a budget of time the stage depends on when a step is asked for, so it has to be as far ahead as before."""
    others = asked_for(None)
    assert others[55].startswith("32 ")  # it was asked for before half of the time had gone
    assert others[99].startswith("64 ")
    assert asked_for(killed_at) == others
    assert asked_for(None, workers=0)[55].startswith("64 ")
