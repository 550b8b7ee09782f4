from __future__ import annotations

import numpy as np
import pytest

from bertlab.ablation.bootstrap import generator, resampled
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


def test_the_truth_of_synthetic_columns_is_what_large_ones_show() -> None:
    for metric, collapse in (("accuracy", ()), ("f1", ()), ("f1", (0.3, 0.0))):
        column = SyntheticColumn((0.3, 0.9), 400, examples=2000, metric=metric, collapse=collapse, pretraining=0.3)
        rows = synthetic_column(column, "truth")
        seen = [np.mean([run.value for run in row]) for row in rows]
        np.testing.assert_allclose(seen, column.truth(), atol=0.035)  # the examples' error is about .01
