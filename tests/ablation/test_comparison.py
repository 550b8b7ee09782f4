from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from scipy import stats

from bertlab.ablation.comparison import Comparison, compare, resample_column
from bertlab.ablation.example_sums import ExampleSums, mean
from bertlab.ablation.runs import EXAMPLES, FINETUNING_SEEDS, PRETRAINING_SEEDS, Run, pair, summarise, units_of
from bertlab.ablation.synthetic import SyntheticColumn, synthetic_column


def cell(values: list[float | None], first: int = 0) -> list[Run]:
    return [Run(first + number, first + number, value) for number, value in enumerate(values)]


def compared(row: list[Run], baseline: list[Run]) -> Comparison:
    found = compare(row, baseline, resample_column([*row, *baseline], "test"), "test")
    assert found is not None
    return found


def test_seeds_that_pair_give_the_paired_t_test() -> None:
    row, baseline = [0.81, 0.84, 0.86, 0.80], [0.79, 0.80, 0.85, 0.78]
    found = compared(cell(row), cell(baseline))
    expected = stats.ttest_rel(row, baseline)
    assert found.paired
    assert found.units == (4, 4)
    assert found.covers == (PRETRAINING_SEEDS, FINETUNING_SEEDS)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()), rel=1e-5)
    assert found.permutation is not None
    assert found.permutation.p_value == found.permutation.smallest == 2 / 2**4
    assert any("this evaluation set" in note for note in found.notes)


def test_other_seeds_are_not_paired_and_each_row_has_a_variance_of_its_own() -> None:
    found = compared(cell([0.81, 0.84, 0.86, 0.80]), cell([0.79, 0.80, 0.85], first=10))
    assert not found.paired
    assert found.seed_variances == pytest.approx((np.var([0.81, 0.84, 0.86, 0.80], ddof=1), np.var([0.79, 0.80, 0.85], ddof=1)))
    welch = stats.ttest_ind([0.81, 0.84, 0.86, 0.80], [0.79, 0.80, 0.85], equal_var=False)
    assert found.p_value == pytest.approx(welch.pvalue, rel=1e-6)
    assert (found.low, found.high) == pytest.approx(tuple(welch.confidence_interval()), rel=1e-5)


def test_fine_tunings_of_one_pretraining_are_no_repetitions() -> None:
    """Thirty runs of three pretrainings are three units: the interval is that of the three means."""
    random = np.random.default_rng(0)
    pretraining = random.normal(0, 0.05, 3)
    row = [Run(p, f, float(0.8 + pretraining[p] + random.normal(0, 0.001))) for p in range(3) for f in range(10)]
    baseline = [Run(p, f, float(0.7 + random.normal(0, 0.001))) for p in range(3) for f in range(10)]
    found = compared(row, baseline)
    means = [np.mean([run.value for run in rows if run.pretraining_seed == p]) for rows in (row, baseline) for p in range(3)]
    expected = stats.ttest_rel(means[:3], means[3:])
    assert found.units == (3, 3)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6)


def test_what_the_interval_covers_is_what_was_varied() -> None:
    both = [Run(p, f, 0.5 + 0.01 * p + 0.02 * f) for p in range(2) for f in range(2)]
    assert units_of(both).covers == (PRETRAINING_SEEDS, FINETUNING_SEEDS)
    assert units_of([Run(p, 7, 0.5 + 0.01 * p) for p in range(3)]).covers == (PRETRAINING_SEEDS,)
    assert units_of([Run(1, f, 0.5 + 0.01 * f) for f in range(3)]).covers == (FINETUNING_SEEDS,)
    assert units_of([Run(None, f, 0.5 + 0.01 * f) for f in range(3)]).covers == (FINETUNING_SEEDS,)
    assert units_of([Run(p, None, 0.5 + 0.01 * p) for p in range(3)]).covers == (PRETRAINING_SEEDS,)
    assert units_of([Run(1, 1, 0.5)]).covers == ()
    mixed = compared(both, [Run(1, f, 0.4 + 0.01 * f) for f in range(3)])
    assert mixed.covers == (FINETUNING_SEEDS,)
    assert any("single pre-training" in note for note in mixed.notes)


def test_fine_tunings_of_the_pretraining_that_is_left_are_no_repetitions() -> None:
    """Whose other pretraining failed: what varies between rows is pretrainings all the same, and of these there is one."""
    units = units_of([Run(1, 1, 0.5), Run(1, 2, 0.6), Run(2, 1, None), Run(2, 2, None)])
    assert (units.level, units.seeds, units.covers) == (PRETRAINING_SEEDS, (1,), ())


def runs_of_noise(seeds: int, shift: np.ndarray, *noise: int) -> list[Run]:
    """Runs whose scores of each example, (E,), are a common ``shift`` and an error of their own, drawn by ``noise`` and the seed."""
    found = []
    for seed in range(seeds):
        scores = shift + np.random.default_rng([*noise, seed]).normal(0, 1, shift.size)
        sums = ExampleSums(mean, tuple(map(str, range(shift.size))), scores[:, None] / shift.size)
        found.append(Run(seed, seed, sums.value(), sums=sums))
    return found


def test_what_the_runs_of_a_pair_have_in_common_is_no_error_of_their_difference() -> None:
    """Both runs of a pair err alike: the difference of each example is the same in every pair, and its variance counts in full."""
    examples = 300
    effect = np.random.default_rng(1).normal(0.1, 0.5, examples)
    found = compared(runs_of_noise(4, effect, 2), runs_of_noise(4, np.zeros(examples), 2))
    assert found.paired
    assert found.example_variance == pytest.approx(np.var(effect) / examples, rel=0.1)


def test_a_pretraining_is_resampled_by_all_of_its_fine_tunings() -> None:
    """Accuracies are linear: the mean of the runs is the run of the mean scores, on every resampled evaluation set."""
    tuned = [replace(run, pretraining_seed=number % 2) for number, run in enumerate(runs_of_noise(6, np.zeros(50), 3))]
    of_means = [np.mean([run.sums.rows for run in tuned if run.sums and run.pretraining_seed == seed], axis=0) for seed in (0, 1)]
    sums = [ExampleSums(mean, tuple(map(str, range(50))), rows) for rows in of_means]
    resamples = resample_column([*tuned, *(Run(seed, 9, each.value(), sums=each) for seed, each in enumerate(sums))], "test", draws=20)
    assert resamples is not None
    np.testing.assert_allclose(resamples.of(units_of(tuned)), np.stack([resamples.values[each] for each in sums], axis=1))


def test_beside_a_row_of_one_seed_all_of_the_examples_variance_counts() -> None:
    """No variance between seeds holds the part of it that is each run's own."""
    row, baseline = runs_of_noise(1, np.zeros(300), 1), runs_of_noise(3, np.zeros(300), 2)
    found = compared(row, baseline)
    assert found.covers == (EXAMPLES,)
    (one,), others = ([run.sums.rows[:, 0] * 300 for run in runs if run.sums] for runs in (row, baseline))
    assert found.example_variance == pytest.approx(np.var(one - np.mean(others, axis=0)) / 300, rel=0.1)


def test_one_seed_is_about_the_runs_and_not_about_the_method() -> None:
    rows = synthetic_column(SyntheticColumn((0.9, 0.0), 1, examples=500), "one")
    found = compared(*rows)
    assert found.covers == (EXAMPLES,)
    assert not found.covers_seeds
    assert any("not covered" in note for note in found.notes)
    assert found.p_value < 0.01
    assert found.permutation is not None
    assert found.permutation.p_value < 0.01
    nothing = compared(cell([0.9]), cell([0.1]))
    assert nothing.covers == ()
    assert nothing.low is None
    assert isnan(nothing.p_value)


def test_most_seeds_must_pair() -> None:
    assert pair(cell([0.1, 0.2, 0.3]), cell([0.1, 0.2, 0.3, 0.4])).paired
    assert not pair(cell([0.1, 0.2]), cell([0.1, 0.2, 0.3, 0.4])).paired
    assert not pair(cell([0.1]), cell([0.1, 0.2])).paired
    failed = pair(cell([0.1, None, 0.3]), cell([0.1, 0.2, 0.3]))
    assert failed.paired
    assert failed.row.seeds == failed.baseline.seeds == (0, 2)
    assert failed.notes == ("Seeds without a partner in the other row are left out: 1.",)


def test_pairing_is_by_number_not_by_place() -> None:
    row, baseline = cell([0.5, 0.6, 0.8]), cell([0.4, 0.55, 0.7])
    assert compared(row[::-1], baseline) == compared(row, baseline[::-1]) == compared(row, baseline)


def test_two_seeds_that_agree_to_the_last_digit_are_no_proof() -> None:
    """Both seeds gain eight of 200 examples. They may differ by as much as rounding hides, and two seeds know that badly."""
    ids = tuple(map(str, range(200)))
    rows = []
    for right in (108, 100):
        sums = ExampleSums(mean, ids, (np.arange(200) < right)[:, None] / 200)
        rows.append([Run(seed, seed, right / 200, sums=sums) for seed in range(2)])
    found = compared(*rows)
    rounding = 1 / 200 * np.sqrt(2 / 12)  # of a difference of two rounded numbers
    assert found.seed_variances == pytest.approx((rounding**2,))
    assert found.p_value >= 2 * stats.t.sf(0.04 / (rounding / np.sqrt(2)), 1)  # = .023; by the examples alone it is .004
    assert found.p_value < 0.1


def test_a_cell_without_a_value_is_not_compared() -> None:
    assert compare(cell([None, None]), cell([0.1, 0.2]), None, "x") is None
    assert compare([], cell([0.1, 0.2]), None, "x") is None


def test_exchanging_the_rows_exchanges_the_signs() -> None:
    rows = synthetic_column(SyntheticColumn((0.5, 0.3), 3, metric="f1"), "signs")
    one, other = compared(rows[0], rows[1]), compare(rows[1], rows[0], resample_column(rows[0] + rows[1], "test"), "test")
    assert other is not None
    assert one.low is not None
    assert other.high is not None
    assert one.difference == pytest.approx(-other.difference)
    assert one.low == pytest.approx(-other.high, abs=0.002)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-6)


def test_more_examples_make_the_interval_narrower_down_to_the_seeds() -> None:
    widths = []
    for examples in (50, 500, 5000):
        rows = synthetic_column(SyntheticColumn((0.5, 0.5), 8, examples=examples, pretraining=0.05), "narrower")
        found = compared(rows[0], rows[1])
        assert found.low is not None
        assert found.high is not None
        widths.append((found.high - found.low, found.example_variance))
    assert widths[0][0] > widths[1][0] > widths[2][0]
    assert widths[0][1] > 3 * widths[1][1] > 9 * widths[2][1]


def test_a_cell_counts_its_runs() -> None:
    runs = [Run(1, 1, 0.5), Run(1, 2, 0.7, degenerate=True), Run(2, 1, None), Run(2, 2, 0.9)]
    found = summarise(runs)
    assert (found.runs, found.units, found.failed, found.degenerate) == (3, 2, 1, 1)
    assert found.mean == pytest.approx((0.6 + 0.9) / 2)
    assert found.std == pytest.approx(0.2)
    assert summarise([]).mean is None
    assert summarise([]).std is None


def test_mistaken_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="same pretraining and fine-tuning seed"):
        units_of([Run(1, 1, 0.5), Run(1, 1, 0.6)])
    sums = synthetic_column(SyntheticColumn((0.5,), 1), "x")[0][0].sums
    with pytest.raises(ValueError, match="the predictions give"):
        Run(1, 1, 0.123, sums=sums)


def test_no_global_random_state_is_touched_or_read() -> None:
    rows = synthetic_column(SyntheticColumn((0.5, 0.3), 18), "state")  # too many pairs to enumerate
    first = compared(rows[0], rows[1])
    np.random.seed(5)
    before = np.random.get_state()
    assert compared(rows[0], rows[1]) == first
    after = np.random.get_state()
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
