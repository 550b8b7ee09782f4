from __future__ import annotations

import io
import sys

import pytest

from bertlab.data import progress
from bertlab.data.progress import progress_bar


def test_without_a_terminal_a_line_is_said_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    said: list[str] = []
    with progress_bar("Tokenising", 38_000_000, True, said.append) as bar:
        for _ in range(20):  # 2 MB in 10 seconds each
            clock[0] += 10
            bar.advance(1_000_000)
            bar.advance(1_000_000)
    assert len(said) == 6
    assert said[0] == "Tokenising: 13%, 0.2 MB/s, about 3 min left"
    assert said[-1] == "Tokenising: 92%, 0.2 MB/s, about 0 min left"
    assert sys.stderr.getvalue() == ""


def test_a_short_or_an_unwanted_one_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    said: list[str] = []
    for seconds, enabled in ((29, True), (1000, False)):
        with progress_bar("Tokenising", 100, enabled, said.append) as bar:
            clock[0] += seconds
            bar.advance(50)
    assert said == []
