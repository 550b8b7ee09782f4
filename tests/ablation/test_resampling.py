from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bertlab.ablation.bootstrap import generator, hierarchical_bootstrap, percentile_interval, resampled
from bertlab.ablation.example_sums import ExampleSums, mean
from bertlab.ablation.synthetic import SyntheticColumn, synthetic_column

Sums = list[ExampleSums]


def a_few(examples: int = 400, runs: int = 3) -> Sums:
    random = np.random.default_rng(0)
    ids = tuple(map(str, range(examples)))
    return [ExampleSums(mean, ids, random.random((examples, 1)) / examples) for _ in range(runs)]


def test_resampled_means_vary_as_the_formula_of_the_standard_error_says() -> None:
    sums = a_few()
    values = resampled(sums, 4000, "check")
    for number, run in enumerate(sums):
        error = np.std(run.rows * len(run.ids)) / np.sqrt(len(run.ids))
        assert values[:, number].std() == pytest.approx(error, rel=0.05)  # its own error is 1.1%
        assert values[:, number].mean() == pytest.approx(run.value(), abs=5 * error / np.sqrt(4000))


def test_runs_share_the_resamples() -> None:
    sums = a_few(runs=1)
    shifted = ExampleSums(mean, sums[0].ids, sums[0].rows + 0.1 / len(sums[0].ids))
    values = resampled([sums[0], shifted], 50, "check")
    np.testing.assert_allclose(values[:, 1] - values[:, 0], 0.1)


def test_random_numbers_belong_to_their_purpose() -> None:
    sums = a_few()
    np.testing.assert_array_equal(resampled(sums, 30, "table5", "mnli"), resampled(sums, 30, "table5", "mnli"))
    assert np.any(resampled(sums, 30, "table5", "mnli") != resampled(sums, 30, "table5", "squad11"))
    np.random.seed(1)  # the global state does not matter
    first = generator("a").random(3)
    np.random.seed(2)
    np.testing.assert_array_equal(first, generator("a").random(3))


def test_more_draws_begin_with_the_same_ones() -> None:
    sums = a_few(examples=100)
    np.testing.assert_array_equal(resampled(sums, 500, "x"), resampled(sums, 900, "x")[:500])


def test_the_parts_of_a_large_resample_go_on_from_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = resampled(a_few(), 100, "x")
    monkeypatch.setattr("bertlab.ablation.bootstrap._COUNTS_AT_ONCE", 7 * 400)
    np.testing.assert_allclose(whole, resampled(a_few(), 100, "x"), rtol=1e-14)


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


def test_the_truth_of_synthetic_columns_is_what_large_ones_show() -> None:
    for metric, collapse in (("accuracy", ()), ("f1", ()), ("f1", (0.3, 0.0))):
        column = SyntheticColumn((0.3, 0.9), 400, examples=2000, metric=metric, collapse=collapse, pretraining=0.3)
        rows = synthetic_column(column, "truth")
        seen = [np.mean([run.value for run in row]) for row in rows]
        np.testing.assert_allclose(seen, column.truth(), atol=0.035)  # the examples' error is about .01
