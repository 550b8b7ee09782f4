from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bertlab.ablation.stability import compare_deviations, deviation, failures


def test_few_values_have_the_chi_square_interval() -> None:
    values = np.array([0.81, 0.85, 0.86])
    found = deviation(values)
    assert found is not None
    assert found.interval is not None
    for end, share in zip(found.interval, (0.975, 0.025), strict=True):
        assert stats.chi2.cdf(2 * np.var(values, ddof=1) / end**2, 2) == pytest.approx(share)
    assert deviation(np.array([0.5])) is None


@pytest.mark.parametrize(("seeds", "least"), [(3, 0.95), (5, 0.95), (10, 0.93), (20, 0.93)])
def test_the_interval_of_the_deviation_covers_it_for_normal_values(seeds: int, least: float) -> None:
    random, repetitions = np.random.default_rng(seeds), 1000
    found = [deviation(random.normal(0, 1, seeds)) for _ in range(repetitions)]
    covered = sum(one.interval[0] <= 1 <= one.interval[1] for one in found if one and one.interval)
    assert covered / repetitions >= least - 3 * np.sqrt(0.95 * 0.05 / repetitions)


def test_it_scales_with_the_values_and_does_not_move_with_them() -> None:
    values = np.random.default_rng(1).normal(0, 1, 12)
    one, other = deviation(values), deviation(0.01 * values + 0.8)
    assert one is not None
    assert other is not None
    assert other.value == pytest.approx(0.01 * one.value)
    assert other.interval == pytest.approx(tuple(0.01 * end for end in one.interval or ()))


@pytest.mark.parametrize("count", [2, 6])
def test_equal_values_do_not_vary_and_have_no_interval(count: int) -> None:
    found = deviation(np.full(count, 0.7))
    assert found is not None
    assert (found.value, found.interval) == (0.0, None)


@pytest.mark.parametrize(("count", "runs"), [(0, 10), (1, 10), (3, 3), (7, 20)])
def test_the_interval_of_failures_is_where_the_binomial_tails_are_two_and_a_half_percent(count: int, runs: int) -> None:
    found = failures(count, runs)
    assert found is not None
    if count > 0:
        assert stats.binom.sf(count - 1, runs, found.low) == pytest.approx(0.025)
    if count < runs:
        assert stats.binom.cdf(count, runs, found.high) == pytest.approx(0.025)
    assert (found.low == 0) == (count == 0)
    assert failures(0, 0) is None


def test_the_statistic_is_brown_and_forsythe_s() -> None:
    """The permuted statistic orders samples as scipy's does: |t| is the root of its F."""
    from bertlab.ablation.stability import _brown_forsythe

    random = np.random.default_rng(3)
    for first, second in ((4, 6), (10, 10)):
        values = random.normal(0, 1, first + second)
        expected = stats.levene(values[:first], values[first:], center="median").statistic
        assert _brown_forsythe(values[None, :], first)[0] ** 2 == pytest.approx(expected)


def test_equal_deviations_are_told_apart_in_five_percent_though_runs_collapse() -> None:
    random, repetitions = np.random.default_rng(4), 400
    values = random.normal(0, 1, (repetitions, 2, 10)) - 5 * (random.random((repetitions, 2, 10)) < 0.15)
    tests = [compare_deviations(row, baseline, 200, "collapse", number) for number, (row, baseline) in enumerate(values)]
    false = sum(test.p_value <= 0.05 for test in tests if test)
    assert stats.binom.sf(false - 1, repetitions, 0.05) > 0.001


def test_a_fivefold_deviation_is_found() -> None:
    values = np.random.default_rng(5).normal(0, 1, (60, 2, 10)) * np.array([5.0, 1.0])[:, None]
    tests = [compare_deviations(row, baseline, 200, "fivefold", number) for number, (row, baseline) in enumerate(values)]
    assert np.mean([test.p_value <= 0.05 for test in tests if test]) > 0.8


def test_where_a_row_s_values_lie_says_nothing_of_how_they_vary() -> None:
    row, baseline = np.random.default_rng(6).normal(0, 1, (2, 6)) * np.array([3.0, 1.0])[:, None]
    here, elsewhere = compare_deviations(row, baseline, 100, "x"), compare_deviations(row + 50, baseline, 100, "x")
    assert here is not None
    assert elsewhere is not None
    assert elsewhere.p_value == pytest.approx(here.p_value)


def test_few_values_cannot_differ_in_deviation() -> None:
    found = compare_deviations(np.array([0.0, 5.0, 9.0]), np.array([0.1, 0.11, 0.12]), 100, "x")
    assert found is not None
    assert found.exact
    assert found.p_value >= found.smallest >= 0.1
    assert compare_deviations(np.array([0.1]), np.array([0.1, 0.2]), 100, "x") is None
