"""No process of a run waits for ever for another one that has ended, hangs or never came."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
import torch
from processes import free_port, start_ranks, train
from small_runs import MakeConfig
from torch import distributed

from bertlab.config import PretrainConfig
from bertlab.training.ranks import others_are_gone

NO_DROPOUT = {"model.dropout": 0.0, "model.attention_dropout": 0.0}
LONG = {**NO_DROPOUT, "trainer.devices": 2, "budget.steps": 100_000, "checkpointing.every": 5}
PATIENCE = 120.0  # seconds in which a process has to end by itself; seconds here, which a busy machine makes many


def wait_for_state(config: PretrainConfig, ranks: list[ForkServerProcess]) -> None:
    while not list(Path(config.paths.runs).glob("*/checkpoints/last-*.ckpt")):
        time.sleep(0.01)
        assert all(rank.exitcode is None for rank in ranks)


def ended(rank: ForkServerProcess) -> int | None:
    rank.join(PATIENCE)
    code = rank.exitcode
    if code is None:
        rank.kill()
    return code


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize("dies", [0, 1])
def test_a_process_that_is_killed_ends_the_others(dies: int, strategy: str, make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(**LONG, **{"trainer.strategy": strategy})
    ranks = start_ranks(config, tmp_path, world=2, port=free_port())
    wait_for_state(config, ranks)
    os.kill(ranks[dies].pid or 0, signal.SIGKILL)
    assert ended(ranks[1 - dies]) == 1
    log = (tmp_path / f"rank{1 - dies}").read_text()
    assert f"Process {1 - dies} of pretrain-small" in log
    assert "waited in vain for another one" in log
    assert "the same command goes on" in log


@pytest.mark.kill
@pytest.mark.slow
def test_a_process_that_hangs_is_given_up(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(**LONG, **{"trainer.timeout": 3.0})
    ranks = start_ranks(config, tmp_path, world=2, port=free_port())
    wait_for_state(config, ranks)
    os.kill(ranks[1].pid or 0, signal.SIGSTOP)
    assert ended(ranks[0]) == 1
    assert "has not answered for trainer.timeout=3 seconds" in (tmp_path / "rank0").read_text()
    ranks[1].kill()
    ranks[1].join()


@pytest.mark.kill
@pytest.mark.slow
def test_a_process_that_never_comes_is_given_up(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(**LONG, **{"trainer.timeout": 3.0})
    (first,) = start_ranks(config, tmp_path, world=2, port=free_port(), only=[0])
    assert ended(first) == 1
    assert "waited in vain for another one after step 0" in (tmp_path / "rank0").read_text()


def test_each_operation_that_waits_for_a_silent_process_tells_that_it_is_gone() -> None:
    store, groups = distributed.HashStore(), {}  # two processes' groups, met in one process; the second one stays silent

    def join(rank: int) -> None:
        groups[rank] = distributed.ProcessGroupGloo(store, rank, 2, timedelta(seconds=1))

    threads = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = set()
    for waiting in [groups[0].allreduce([torch.ones(3)]) for _ in range(3)]:
        with pytest.raises(RuntimeError) as told:
            waiting.wait()
        assert others_are_gone(told.value), told.value
        texts.add(str(told.value))
    assert len(texts) > 1  # only the first one tells of the time; the others end with it


@pytest.mark.parametrize("text", ["CUDA error: out of memory", "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "a closed file"])
def test_an_error_of_this_process_is_not_laid_on_another_one(text: str) -> None:
    assert not others_are_gone(RuntimeError(text))


@pytest.mark.slow
def test_processes_that_a_launcher_starts_for_a_finished_run_end_at_once(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(**NO_DROPOUT, **{"budget.steps": 2})
    assert train(config, tmp_path / "log") == 0, (tmp_path / "log").read_text()
    config.trainer.devices = 2
    ranks = start_ranks(config, tmp_path, world=2, port=free_port())
    assert [ended(rank) for rank in ranks] == [0, 0]
    assert "This run is finished" in (tmp_path / "rank0").read_text()
    assert (tmp_path / "rank1").read_text() == ""
