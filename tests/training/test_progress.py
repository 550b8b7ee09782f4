from __future__ import annotations

import pytest

from bertlab.training.progress import ProgressDisplay, duration


def lines_of(shown: bool, begun: float, capsys: pytest.CaptureFixture[str]) -> list[str]:
    display = ProgressDisplay(shown, begun)
    for step in range(1, 201):
        if step / 200 > begun:
            display.advance(step / 200)
            display.describe(step, step / 200, 3.0, 12345.0)
    display.close()
    return capsys.readouterr().err.splitlines()


def test_about_ten_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(True, 0.0, capsys)
    assert len(lines) == 10
    assert "12,345 tokens/s" in lines[0]
    assert "\x1b" not in "".join(lines)
    assert len(lines_of(True, 0.5, capsys)) == 5


def test_nothing_where_nothing_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(False, 0.0, capsys) == []


def test_durations() -> None:
    shown = [duration(seconds) for seconds in (0.4, 59.6, 250, 3599, 11100)]
    assert shown == [
        "0 s",
        "1 min 00 s",
        "4 min 10 s",
        "59 min 59 s",
        "3 h 05 min",
    ]
