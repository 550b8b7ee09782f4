from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertlab.config import BudgetConfig, LengthsConfig, PretrainConfig, StageConfig
from bertlab.data.schedule import TrainingPlan, apportion, plan_training
from bertlab.errors import UserError

shares = st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any).map(lambda parts: [part / sum(parts) for part in parts])


def config(stages=(), keep_tokens=False, sequences=32, length=128, **budget) -> PretrainConfig:
    made = PretrainConfig(
        budget=BudgetConfig(**budget), lengths=LengthsConfig(stages=[StageConfig(*s) for s in stages], keep_tokens=keep_tokens)
    )
    made.batch.sequences, made.batch.length = sequences, length
    return made


def fed(plan: TrainingPlan) -> int:
    """The positions that all its steps feed."""
    return sum(stage.positions * stage.steps for stage in plan.stages)


@given(shares, st.integers(1, 100_000))
def test_steps_add_up_and_follow_the_shares(parts, total):
    steps = apportion(parts, total)
    assert sum(steps) == total
    assert all(count >= 0 for count in steps)
    if total >= len(parts):
        assert all((count >= 1) if share > 0 else (count == 0) for share, count in zip(parts, steps, strict=True))
    if total >= 20 * 6 * 20:  # every share's steps are then many, so none is raised to one
        assert all(abs(count - share * total) <= 1 for share, count in zip(parts, steps, strict=True))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_shares_that_are_whole_steps_get_them(steps):
    """Though their floating-point sums may lie just below: 0.3 + 0.6 of ten are nine."""
    assert apportion([count / sum(steps) for count in steps], sum(steps)) == steps


def test_paper_schedule():
    plan = plan_training(config([(0.9, 128, None), (0.1, 512, None)], sequences=256, steps=1_000_000))
    assert [(s.first_step, s.steps, s.length, s.sequences) for s in plan.stages] == [(0, 900_000, 128, 256), (900_000, 100_000, 512, 256)]
    assert plan.total_steps == 1_000_000
    assert [plan.stage_at(step).length for step in (0, 899_999, 900_000, 999_999, 1_000_000)] == [128, 128, 512, 512, 512]
    assert plan.lengths == [128, 512]
    assert fed(plan) == 900_000 * 256 * 128 + 100_000 * 256 * 512


def test_no_stage_is_the_batch_throughout():
    plan = plan_training(config(steps=7))
    assert [(s.length, s.sequences, s.steps) for s in plan.stages] == [(128, 32, 7)]


def test_keeping_the_batchs_tokens():
    plan = plan_training(config([(0.9, 32, None), (0.05, 128, None), (0.05, 512, 3)], keep_tokens=True, steps=100))
    assert [stage.sequences for stage in plan.stages] == [128, 32, 3]


@given(shares, st.lists(st.sampled_from([16, 32, 128, 512]), min_size=6, max_size=6), st.integers(10_000, 10**9))
def test_tokens_are_fed_up_to_half_a_step_of_rounding(parts, lengths, tokens):
    plan = plan_training(config([(share, length, 8) for share, length in zip(parts, lengths, strict=False)], tokens=tokens))
    largest_step = max(stage.positions for stage in plan.stages)
    assert plan.total_steps >= 1
    assert abs(fed(plan) - tokens) <= largest_step * (1 + 2 * len(parts))


def test_tokens_of_equal_steps_are_exact():
    plan = plan_training(config([(0.9, 32, None), (0.1, 128, None)], keep_tokens=True, tokens=4096 * 2930))
    assert plan.total_steps == 2930
    assert fed(plan) == 4096 * 2930


@given(shares, st.integers(6, 5000))
def test_every_step_has_one_stage_and_stages_follow_each_other(parts, total):
    plan = plan_training(config([(share, 10 + n, 4) for n, share in enumerate(parts)], steps=total))
    numbers = [plan.stage_at(step).number for step in range(total)]
    assert numbers == sorted(numbers)
    assert [numbers.count(stage.number) for stage in plan.stages] == [stage.steps for stage in plan.stages]


@pytest.mark.parametrize("budget", [{"minutes": 5}, {"steps": 10}])
def test_a_length_of_no_share_is_not_trained_at(budget):
    plan = plan_training(config([(0.0, 8, None), (1.0, 32, None), (0.0, 512, None)], **budget))
    assert plan.lengths == [32]


def test_minutes_go_by_the_elapsed_share():
    plan = plan_training(config([(0.0, 8, None), (0.9, 32, None), (0.1, 128, None)], minutes=5))
    assert plan.total_steps is None
    assert plan.minutes == 5
    assert [plan.stage_at_share(share).length for share in (0, 0.899, 0.9, 1.0, 1.2)] == [32, 32, 128, 128, 128]
    with pytest.raises(ValueError, match="elapsed"):
        plan.stage_at(0)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({}, "none is given"),
        ({"steps": 10, "tokens": 100}, r"budget.steps=10 and budget.tokens=100"),
        ({"steps": 0}, "budget.steps must be positive"),
        ({"minutes": -1.0}, "budget.minutes must be positive"),
    ],
)
def test_budgets_that_cannot_be_meant(budget, words):
    with pytest.raises(UserError, match=words):
        plan_training(config(**budget))


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ([(0.9, 32, None), (0.2, 128, None)], r"0\.9 \+ 0\.2 = 1\.1"),
        ([(1.5, 32, None), (-0.5, 128, None)], r"stages\[1\]\.share"),
        ([(1.0, 0, None)], r"stages\[0\]"),
        ([(1.0, 32, 0)], r"stages\[0\]"),
    ],
)
def test_stages_that_cannot_be_meant(stages, words):
    with pytest.raises(UserError, match=words):
        plan_training(config(stages, steps=10))


def test_planning_needs_no_heavy_library():
    code = "import sys, bertlab.data.schedule; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
