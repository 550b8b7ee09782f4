from __future__ import annotations

from bertlab.counting import counted


def test_numbers_and_nouns() -> None:
    assert [counted(number, "step") for number in (0, 1, 2, 12345)] == ["0 steps", "1 step", "2 steps", "12,345 steps"]
    assert [counted(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]
