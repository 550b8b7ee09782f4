"""Several processes on one run: one trains, the others say so and leave everything as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from processes import start, train
from run_numbers import numbers, only_run
from small_runs import MakeConfig

PROCESSES = 5


@pytest.mark.kill
def test_started_all_at_once(make_config: MakeConfig, tmp_path: Path) -> None:
    whole = make_config(**{"budget.steps": 300, "paths.runs": str(tmp_path / "whole")})
    assert train(whole, tmp_path / "log") == 0
    config = make_config(**{"budget.steps": 300})
    logs = [tmp_path / f"log{number}" for number in range(PROCESSES)]
    started = [start(config, log) for log in logs]
    for process in started:
        process.join()
    said = {process.exitcode: log.read_text() for process, log in zip(started, logs, strict=True)}
    trained = [log for log in logs if "parameters, 300 steps" in log.read_text()]
    assert len(trained) == 1
    for process, log in zip(started, logs, strict=True):
        if log in trained:
            assert process.exitcode == 0, log.read_text()
        else:  # the run goes on, or has just been finished
            refused = process.exitcode == 1 and "is being trained by another process" in log.read_text()
            assert refused or (process.exitcode == 0 and "This run is finished" in log.read_text()), said
    assert numbers(only_run(config.paths.runs)) == numbers(only_run(whole.paths.runs))
    steps = [json.loads(line)["step"] for line in (only_run(config.paths.runs) / "throughput.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))
