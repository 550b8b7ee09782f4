"""What is promised, measured on tables whose truth is known; benchmarks/coverage.py does the same at length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from bertlab.ablation.bootstrap import generator, metrics_on, resample_counts
from bertlab.ablation.comparison import Resamples, compare
from bertlab.ablation.runs import Run
from bertlab.ablation.synthetic import SyntheticColumn, synthetic_column
from bertlab.ablation.table import UNRESOLVED, Table, analyse

DRAWS = 200
REPETITIONS = 150
# With the promise kept, a count falls outside its bound in one test of ten thousand.
TAIL = 1e-4

ALIKE = SyntheticColumn((0.6, 0.5), 3, examples=250, pretraining=0.1, finetuning=0.05)
COLUMNS = {
    "two seeds": replace(ALIKE, pretrainings=2),
    "three seeds": ALIKE,
    "three seeds, F1": replace(ALIKE, metric="f1"),
    "three seeds that do not pair": replace(ALIKE, paired=False),
    "three seeds, three fine-tunings each": replace(ALIKE, finetunings=3, finetuning=0.1),
    "five seeds, shared luck": replace(ALIKE, pretrainings=5, shared=0.6),
    "ten seeds, few examples, F1": replace(ALIKE, pretrainings=10, examples=100, pretraining=0.02, metric="f1"),
    "ten seeds, many examples, not paired": replace(ALIKE, pretrainings=10, examples=500, pretraining=0.2, paired=False),
}


def resamples_of(rows: list[list[Run]], examples: int) -> Resamples:
    sums = [run.sums for row in rows for run in row if run.sums is not None]
    counts = resample_counts(generator("coverage"), DRAWS, examples)
    return Resamples(dict(zip(sums, metrics_on(sums, counts).T, strict=True)))


@pytest.mark.parametrize("name", COLUMNS)
def test_intervals_hold_the_truth_in_at_least_their_share(name: str) -> None:
    column = COLUMNS[name]
    truth = column.truth()
    covered = 0
    for repetition in range(REPETITIONS):
        rows = synthetic_column(column, "test", name, repetition)
        found = compare(rows[0], rows[1], resamples_of(rows, column.examples), "test", repetition)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth[0] - truth[1] <= found.high
    assert binom.cdf(covered, REPETITIONS, 0.95) > TAIL
    if column.pretrainings >= 5:  # and not in nearly all: the interval is no wider than it has to be
        assert binom.sf(covered - 1, REPETITIONS, 0.97) > TAIL


def test_tables_without_a_difference_show_one_in_five_percent() -> None:
    repetitions, false = 40, 0
    for repetition in range(repetitions):
        cells = {}
        for name, metric in (("a", "accuracy"), ("b", "f1")):
            known = SyntheticColumn((0.5, 0.5, 0.5), 4, examples=100, metric=metric)
            rows = synthetic_column(known, "null", repetition, name)
            cells |= {(f"row {number}", name): runs for number, runs in enumerate(rows)}
        table = Table("null", ["row 0", "row 1", "row 2"], ["a", "b"], "row 0", cells)
        false += any(one.verdict != UNRESOLVED for one in analyse(table, draws=DRAWS).differences.values())
    assert binom.sf(false - 1, repetitions, 0.05) > TAIL


def test_large_differences_are_found() -> None:
    column = replace(ALIKE, skills=(1.4, 0.5), pretrainings=4)
    found = []
    for repetition in range(30):
        rows = synthetic_column(column, "large", repetition)
        comparison = compare(rows[0], rows[1], resamples_of(rows, column.examples), "large", repetition)
        assert comparison is not None
        found.append(comparison.p_value <= 0.05)
    assert np.mean(found) > 0.9
