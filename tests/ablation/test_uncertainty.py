from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from scipy import stats

from bertlab.ablation.uncertainty import SeedError, Uncertainty, common_deviations, seed_error, variance_of

NOTHING = np.empty(0)
NORMAL = 0.7 * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)


def test_seeds_alone_give_student_s_interval_and_test() -> None:
    values = np.array([0.3, 0.1, 0.25, -0.05])
    found = Uncertainty(float(values.mean()), seed_error([values]), NOTHING)
    expected = stats.ttest_1samp(values, 0.0)
    assert found.p_value() == pytest.approx(expected.pvalue, rel=1e-8)
    assert found.interval() == pytest.approx(tuple(expected.confidence_interval()), rel=1e-6)


def test_groups_that_do_not_pair_give_welch_s_interval_and_test() -> None:
    row, baseline = np.array([0.3, 0.1, 0.25, -0.05]), np.array([0.4, 0.41, 0.43])
    found = Uncertainty(float(row.mean() - baseline.mean()), seed_error([row, baseline]), NOTHING)
    expected = stats.ttest_ind(row, baseline, equal_var=False)
    assert found.p_value() == pytest.approx(expected.pvalue, rel=1e-8)
    assert found.interval() == pytest.approx(tuple(expected.confidence_interval()), rel=1e-6)


def test_examples_alone_give_the_percentile_interval() -> None:
    found = Uncertainty(1.0, None, NORMAL)
    assert found.interval() == pytest.approx((1 - 0.7 * 1.96, 1 + 0.7 * 1.96), abs=0.01)
    assert found.p_value() == pytest.approx(2 * stats.norm.sf(1 / 0.7), abs=0.002)
    assert Uncertainty(9.0, None, NORMAL).p_value() == pytest.approx(2 / 2001)


def test_draws_that_give_exactly_zero_count_for_both_sides() -> None:
    """Two of these four draws are zero, as accuracies of few examples are: none of their mass is evidence against no difference."""
    draws = np.array([-1.0, 0.0, 0.0, 1.0])
    assert Uncertainty(0.0, None, draws).p_value() == 1
    assert Uncertainty(1.0, None, draws).p_value() == Uncertainty(-1.0, None, draws).p_value() == 2 * 0.25


@pytest.mark.parametrize(("error", "degrees"), [(1.0, 2), (1.0, 1), (0.3, 2.6), (0.01, 2), (0.5, 8)])
def test_the_sum_of_both_errors_is_distributed_as_its_simulation(error: float, degrees: float) -> None:
    random, count = np.random.default_rng(0), 400_000
    drawn = 0.5 + random.choice(NORMAL, count) + error * random.standard_t(degrees, count)
    found = Uncertainty(0.5, SeedError(error, degrees), NORMAL)
    for value in (-8.0, -4.0, -1.0, 0.0, 0.5, 2.0, 6.0):
        share = float((drawn <= value).mean())
        assert found.below(value) == pytest.approx(share, abs=5 * np.sqrt(max(share * (1 - share), 1e-6) / count) + 2e-4)
    interval = found.interval()
    assert interval is not None
    for end, share in zip(interval, (0.025, 0.975), strict=True):
        assert found.below(end) == pytest.approx(share, abs=1e-6)


def test_the_p_value_is_where_the_interval_begins_to_hold_zero() -> None:
    found = Uncertainty(0.9, SeedError(0.2, 2), 0.3 * NORMAL)
    interval = found.interval(1 - found.p_value())
    assert interval is not None
    assert interval[0] == pytest.approx(0, abs=1e-6)


def test_a_p_value_is_not_smaller_than_resampling_can_tell() -> None:
    assert Uncertainty(50.0, SeedError(1e-3, 9), NORMAL).p_value() == pytest.approx(2 / 2001)
    assert Uncertainty(50.0, SeedError(1e-3, 9), NOTHING).p_value() < 1e-20


def test_where_nothing_varies_nothing_is_told() -> None:
    assert isnan(Uncertainty(0.1, SeedError(0.0, 2), NOTHING).p_value())
    assert Uncertainty(0.0, SeedError(0.0, 2), NOTHING).p_value() == 1
    assert Uncertainty(0.1, SeedError(0.0, 2), NOTHING).p_value(0.1) == 1
    assert isnan(Uncertainty(0.1, None, NOTHING).p_value())
    assert Uncertainty(0.1, None, NOTHING).interval() is None


def test_rounding_is_the_least_variance_and_no_part_of_a_larger_one() -> None:
    values = np.array([0.3, 0.1, 0.25, -0.05])
    assert variance_of(values, 0.01) == np.var(values, ddof=1) > 0.01
    assert variance_of(values, 0.5) == 0.5


def test_of_the_examples_variance_the_common_part_is_kept() -> None:
    """Var(mean of n) = common + own / n, of which own / n is already in the variance between repetitions."""
    random, draws = np.random.default_rng(1), 200_000
    common, own = 0.3 * random.standard_normal((draws, 1)), 0.8 * random.standard_normal((draws, 4))
    group = common + own
    kept = common_deviations([group], group.mean(axis=1))
    assert kept.var() == pytest.approx(0.09, rel=0.05)
    other = 0.3 * random.standard_normal((draws, 1)) + 0.5 * random.standard_normal((draws, 3))
    kept = common_deviations([group, other], group.mean(axis=1) - other.mean(axis=1))
    assert kept.var() == pytest.approx(0.18, rel=0.05)
    assert common_deviations([], group.mean(axis=1)).var() == pytest.approx(0.09 + 0.64 / 4, rel=0.03)  # seeds are not covered: all of it
    assert common_deviations([own], own.mean(axis=1)).var() < 0.002
