from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertlab.config import OptimizerConfig
from bertlab.training.schedules import Schedule


def test_hand_table() -> None:
    # 10 steps, 2 of warm-up, peak 1: s/2, then 1 - s/10. The fall counts from step 0, so it never reaches the peak.
    schedule = Schedule.of(OptimizerConfig(lr=1.0, warmup=0.2), total_steps=10, minutes=None)
    assert [schedule.rate(step) for step in range(10)] == pytest.approx([0.0, 0.5, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_a_part_of_a_step_of_warmup_is_rounded() -> None:
    # 1.6 steps of 8 are 2, 1.2 are 1.
    for warmup, expected in ((0.2, [0.0, 0.5, 0.75, 0.625]), (0.15, [0.0, 0.875, 0.75, 0.625])):
        schedule = Schedule.of(OptimizerConfig(lr=1.0, warmup=warmup), total_steps=8, minutes=None)
        assert [schedule.rate(step) for step in range(4)] == pytest.approx(expected)


def test_without_warmup_the_first_step_has_the_peak() -> None:
    schedule = Schedule.of(OptimizerConfig(lr=3e-4, warmup=0.0), total_steps=4, minutes=None)
    assert [schedule.rate(step) for step in range(4)] == pytest.approx([3e-4, 2.25e-4, 1.5e-4, 0.75e-4])


def test_constant_stays_at_the_peak_after_warmup() -> None:
    schedule = Schedule.of(OptimizerConfig(lr=2.0, warmup=0.5, decay="constant"), total_steps=4, minutes=None)
    assert [schedule.rate(step) for step in range(4)] == pytest.approx([0.0, 1.0, 2.0, 2.0])


def test_the_paper_s_own_schedule() -> None:
    # A million steps, 10,000 of warm-up, 1e-4 (appendix A.2).
    schedule = Schedule.of(OptimizerConfig(lr=1e-4, warmup=0.01), total_steps=1_000_000, minutes=None)
    assert schedule.rate(9_999) == pytest.approx(0.9999e-4)
    assert schedule.rate(10_000) == pytest.approx(0.99e-4)
    assert schedule.rate(999_999) == pytest.approx(1e-10)


def test_time_takes_the_place_of_steps() -> None:
    schedule = Schedule.of(OptimizerConfig(lr=1.0, warmup=0.25), total_steps=None, minutes=2.0)
    assert [schedule.rate(7, elapsed) for elapsed in (0.0, 15.0, 30.0, 60.0, 90.0, 120.0, 500.0)] == pytest.approx(
        [0.0, 0.5, 0.75, 0.5, 0.25, 0.0, 0.0]
    )


@given(st.integers(1, 500), st.floats(0, 1), st.sampled_from(["linear", "constant"]))
def test_stays_between_nothing_and_the_peak(total: int, warmup: float, decay: str) -> None:
    schedule = Schedule.of(OptimizerConfig(lr=0.5, warmup=warmup, decay=decay), total, None)
    rates = [schedule.rate(step) for step in range(total)]
    assert all(0 <= rate <= 0.5 for rate in rates)
    assert any(rate > 0 for rate in rates) or total == 1
