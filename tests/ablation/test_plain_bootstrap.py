"""What intervals are held against in benchmarks/coverage.py."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from plain_bootstrap import hierarchical_bootstrap, percentile_interval


def test_hierarchical_draws_vary_as_the_two_levels_say() -> None:
    """The bootstrap variance in closed form: between pretrainings over P, plus within over P F, each without Bessel's correction."""
    values = np.array([1.0, 2.0, 4.0, 7.0, 5.0, 6.0])
    groups = [0, 0, 1, 1, 2, 2]
    draws = hierarchical_bootstrap(np.tile(values, (40_000, 1)), groups, "levels")
    parts = values.reshape(3, 2)
    expected = parts.mean(axis=1).var() / 3 + parts.var(axis=1).mean() / 6
    assert draws.var() == pytest.approx(expected, rel=0.04)
    assert draws.mean() == pytest.approx(values.mean(), abs=5 * np.sqrt(expected / 40_000))


def test_hierarchical_draws_of_unequal_groups() -> None:
    values = np.array([1.0, 5.0, 2.0, 9.0])
    draws = hierarchical_bootstrap(np.tile(values, (20_000, 1)), [4, 4, 2, 4], "unequal")
    assert draws.mean() == pytest.approx((np.mean([1, 5, 9]) + 2) / 2, abs=0.1)
    assert (draws.min(), draws.max()) == (1, 9)


def test_rows_of_one_purpose_are_drawn_together() -> None:
    values = np.tile([1.0, 5.0, 2.0], (500, 1))
    difference = hierarchical_bootstrap(values + 1, [0, 1, 2], "pair") - hierarchical_bootstrap(values, [0, 1, 2], "pair")
    np.testing.assert_allclose(difference, 1)


def test_percentile_interval_holds_its_share() -> None:
    low, high = percentile_interval(stats.norm.ppf((np.arange(10_000) + 0.5) / 10_000))
    assert (low, high) == pytest.approx((-1.96, 1.96), abs=0.01)
