"""Signals at random steps, one after another; the run ends with the numbers of one that was left alone.

``BERTLAB_SIGNALS=100 pytest tests/faults/test_hundred_signals.py`` sends a hundred to each kind of run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from finetune_toys import make_finetuning, write_checkpoint, write_task
from processes import start, train
from run_numbers import numbers, only_run
from small_runs import MakeConfig

from bertlab.config import PretrainConfig
from bertlab.finetune_config import FinetuneConfig

pytestmark = [pytest.mark.slow, pytest.mark.kill]

SIGNALS = int(os.environ.get("BERTLAB_SIGNALS", "12"))
STEPS_BETWEEN = 12  # at most, on purpose; some more go by until a signal arrives
EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 138, signal.SIGKILL: -signal.SIGKILL}


def last_step(runs: str) -> int:
    """As the run's rows have it."""
    for path in Path(runs).glob("*/throughput.jsonl"):
        lines = path.read_bytes().split(b"\n")[:-1]
        return int(json.loads(lines[-1])["step"]) if lines else 0
    return 0


def signalled_to_its_end(config: PretrainConfig | FinetuneConfig, steps: int, log: Path) -> Counter[signal.Signals]:
    """Send signals to a run until it is done; how many of each arrived."""
    seed = int(os.environ.get("BERTLAB_SIGNALS_SEED", time.time_ns()))
    draw, sent = random.Random(seed), Counter[signal.Signals]()
    print(f"BERTLAB_SIGNALS_SEED={seed}")
    while True:
        number, wanted = draw.choice(list(EXIT_CODES)), last_step(config.paths.runs) + draw.randint(1, STEPS_BETWEEN)
        process = start(config, log)
        while process.exitcode is None and last_step(config.paths.runs) < min(wanted, steps):
            time.sleep(0.001)
        process.join(draw.uniform(0, 0.02))
        if process.exitcode is None:
            os.kill(process.pid or 0, number)
            process.join()
        if process.exitcode == 0:
            return sent
        # Between the last step and the result the system ends it, with all that matters on the disk. Where no step was left, the signal may
        # find it importing, or multiprocessing at its end, whose answer to Ctrl-C is 1.
        allowed = (EXIT_CODES[number], -number, *([1] if number == signal.SIGINT and last_step(config.paths.runs) >= steps else []))
        assert process.exitcode in allowed, (number, process.exitcode, log.read_text()[-2000:])
        sent[number] += 1


def check(config: PretrainConfig | FinetuneConfig, steps: int, folder: Path) -> None:
    runs, config.paths.runs = config.paths.runs, str(folder / "whole")
    assert train(config, folder / "log-whole") == 0, (folder / "log-whole").read_text()
    expected = numbers(only_run(config.paths.runs))
    config.paths.runs = runs
    sent = signalled_to_its_end(config, steps, folder / "log")
    print({number.name: count for number, count in sent.items()}, sent.total(), "in all")
    assert numbers(only_run(config.paths.runs)) == expected
    assert sent.total() >= SIGNALS * 3 // 4  # most often there are more
    assert len(sent) == len(EXIT_CODES) or SIGNALS < 50


def test_pretraining(make_config: MakeConfig, tmp_path: Path) -> None:
    steps = SIGNALS * (STEPS_BETWEEN - 1)
    changes = {
        "budget.steps": steps,
        "checkpointing.every": 3,
        "validation.every": 25,
        "trainer.log_every": 1,
        "checkpointing.keep_every": 100,
    }
    check(make_config(**changes, **{"batch.sequences": 32, "batch.length": 48}), steps, tmp_path)


def test_finetuning(tmp_path: Path) -> None:
    task, checkpoint = write_task(tmp_path / "task", "classification", train=180), write_checkpoint(tmp_path / "model", hidden=64, layers=3)
    steps = SIGNALS * (STEPS_BETWEEN - 1)
    changes = {
        "tuning.batch": 60,
        "tuning.epochs": steps / 3,
        "tuning.evaluate_every": 9.0,
        "checkpointing.every": 3,
        "trainer.log_every": 1,
    }
    check(make_finetuning(tmp_path, task, checkpoint, **changes), steps, tmp_path)
