"""A clock that jumps, as when it is set, or when a machine was asleep: what time it is decides nothing."""

from __future__ import annotations

import json
import os
import random
import re
import time
from pathlib import Path

import pytest
from run_numbers import killed_after, numbers
from small_runs import MakeConfig

import bertlab
from bertlab.training.pretrain import pretrain

YEARS = (-30, -1, 0, 1, 30)
YEAR = 365 * 86_400.0


def have_the_clock_jump(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """From now on whoever asks for the time is told another year each time; returns the times that are told."""
    now, draw, told = time.time, random.Random(1), []

    def jumping() -> float:
        told.append(now() + draw.choice(YEARS) * YEAR)
        return told[-1]

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(time, "time_ns", lambda: int(jumping() * 1e9))
    return told


def test_a_run_is_the_same(make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = numbers(pretrain(make_config(**{"paths.runs": str(tmp_path / "whole")})))
    told = have_the_clock_jump(monkeypatch)
    killed_after(11, lambda: pretrain(make_config()), make_config().paths.runs)
    assert numbers(pretrain(make_config())) == expected
    time.time()
    assert told  # the stand-in stood in


def test_a_budget_of_minutes_goes_by_a_stop_watch(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    have_the_clock_jump(monkeypatch)
    begin = time.perf_counter()
    folder = pretrain(make_config(**{"budget.steps": None, "budget.minutes": 0.01, "validation.every": 1000}))
    seconds = json.loads((folder / "result.json").read_text())["seconds"]
    assert 0.6 <= seconds <= time.perf_counter() - begin


@pytest.mark.parametrize("order", ["newest first", "all in the future", "all in the past"])
def test_files_with_the_times_of_other_years(order: str, make_config: MakeConfig, tmp_path: Path) -> None:
    """A run goes on from the state of its last step, whenever that was written, as far as the clock knows."""
    expected = numbers(pretrain(make_config(**{"paths.runs": str(tmp_path / "whole")})))
    folder = killed_after(11, lambda: pretrain(make_config()), make_config().paths.runs)
    for number, path in enumerate(sorted(folder.rglob("*"))):
        when = {"newest first": time.time() - number * YEAR / 12, "all in the future": 4e9, "all in the past": 1e8}[order]
        os.utime(path, (when, when))
    assert numbers(pretrain(make_config())) == expected


def test_nobody_asks_what_time_it_is_but_to_write_it_down() -> None:
    asking = re.compile(r"\btime\.time(_ns)?\(|\bdatetime\.(now|utcnow|today)\(|\btime\.(gmtime|localtime)\(")
    found = {}
    for path in sorted(Path(bertlab.__file__).parent.rglob("*.py")):
        if lines := [line.strip() for line in path.read_text().splitlines() if asking.search(line)]:
            found[path.name] = lines
    assert all("strftime" in line for lines in found.values() for line in lines), found
