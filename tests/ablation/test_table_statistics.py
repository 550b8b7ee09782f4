from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from bertlab.ablation.comparable import Quantity
from bertlab.ablation.power import seeds_needed, smallest_difference
from bertlab.ablation.runs import Run
from bertlab.ablation.synthetic import SyntheticColumn, synthetic_column
from bertlab.ablation.table import BETTER, NOT_COMPARED, UNRESOLVED, WORSE, Table, analyse

ROWS = ["bert", "good", "same", "bad", "random"]


def table(seeds: int = 5, name: str = "test", **changes: object) -> Table:
    cells = {}
    for column, metric in (("a", "accuracy"), ("b", "f1")):
        known = SyntheticColumn((0.5, 1.2, 0.5, -0.3, -0.3), seeds, examples=1000, metric=metric, pretraining=0.03, finetuning=0.03)
        cells |= {(row, column): runs for row, runs in zip(ROWS, synthetic_column(known, name, column), strict=True)}
    given = {"cells": cells, "random": dict.fromkeys(ROWS[:-1], "random")} | changes
    return Table(name, ROWS, ["a", "b"], "bert", **given)


def test_verdicts_of_differences_that_are_there() -> None:
    found = analyse(table())
    verdicts = {place: one.verdict for place, one in found.differences.items()}
    assert verdicts == {
        (row, column): verdict for row, verdict in (("good", BETTER), ("same", UNRESOLVED), ("bad", WORSE)) for column in ("a", "b")
    }
    assert found.beats_random["bert", "a"].verdict == BETTER
    assert found.beats_random["bad", "a"].verdict == UNRESOLVED
    unresolved = found.differences["same", "a"]
    assert unresolved.seeds is not None
    assert unresolved.detectable is not None
    assert unresolved.comparison is not None
    assert unresolved.detectable > abs(unresolved.comparison.difference)
    assert found.differences["good", "a"].seeds is None


def test_where_smaller_is_better_the_verdict_turns_round() -> None:
    found = analyse(table(smaller_is_better=frozenset({"b"})))
    assert found.differences["good", "a"].verdict == BETTER
    assert found.differences["good", "b"].verdict == WORSE


def test_the_correction_counts_the_comparisons_of_the_table() -> None:
    found = analyse(table())
    plain = sorted(one.comparison.p_value for one in found.differences.values() if one.comparison)
    corrected = sorted(one.p_holm for one in found.differences.values())
    assert corrected[0] == pytest.approx(6 * plain[0])
    assert corrected[-1] >= plain[-1]


def test_random_rows_are_no_ordinary_ones_whether_or_not_a_row_has_to_beat_them() -> None:
    found = analyse(table(random={}, untrained=frozenset({"random"})))
    assert {row for row, _ in found.differences} == {"good", "same", "bad"}
    assert found.differences == analyse(table()).differences


def test_one_seed_gets_no_verdict_and_does_not_count_in_the_correction() -> None:
    several = table()
    single = {**several.cells, ("good", "a"): several.cells["good", "a"][:1]}
    found = analyse(table(cells=single))
    one = found.differences["good", "a"]
    assert one.verdict == UNRESOLVED
    assert "one seed" in str(one.reason)
    assert isnan(one.p_holm)
    assert one.comparison is not None
    assert one.comparison.covers == ("examples",)
    plain = sorted(other.comparison.p_value for place, other in found.differences.items() if other.comparison and place != ("good", "a"))
    assert min(other.p_holm for place, other in found.differences.items() if place != ("good", "a")) == pytest.approx(5 * plain[0])


def test_comparisons_that_are_still_to_come_count_in_the_correction() -> None:
    several = table()
    cells = {place: runs for place, runs in several.cells.items() if place != ("good", "a")}
    cells["bad", "a"] = cells["bad", "a"][:1]
    found = analyse(table(cells=cells, coming=frozenset({("good", "a"), ("bad", "a"), ("same", "b")})))
    assert found.coming == 2
    plain = sorted(one.comparison.p_value for one in found.differences.values() if one.comparison and one.reason is None)
    assert len(plain) == 4
    assert min(one.p_holm for one in found.differences.values() if not isnan(one.p_holm)) == pytest.approx(6 * plain[0])
    assert isnan(found.differences["good", "a"].p_holm)
    assert isnan(found.differences["bad", "a"].p_holm)


def test_what_would_resolve_a_difference_is_told_at_the_level_of_the_comparison_that_is_next() -> None:
    """Holm's method tests it at .05 over the comparisons that are not resolved yet, those that are still to come among them."""
    cells = {place: runs for place, runs in table(seeds=2).cells.items() if place != ("good", "a")}
    cells["same", "a"] = [replace(run, pretraining_seed=seed) for seed, run in enumerate(table(seeds=3).cells["same", "a"], 10)]  # no pairs
    found = analyse(table(cells=cells, coming=frozenset({("good", "a")})))
    unresolved = [one for one in found.differences.values() if one.p_holm > 0.05]
    comparisons = [one.comparison for one in unresolved if one.comparison]
    assert (3, 2) in [each.units for each in comparisons]
    assert any(one.seeds and one.seeds.high for one in unresolved)
    level = 0.05 / (len(unresolved) + 1)
    for one, seen in zip(unresolved, comparisons, strict=True):
        fewest = min(seen.units)
        assert one.detectable == smallest_difference(seen.seed_variances, seen.example_variance, fewest, level)
        assert one.seeds == seeds_needed(seen.difference, seen.seed_variances, seen.example_variance, fewest - 1, level)


def test_what_will_never_be_compared_is_not_waited_for() -> None:
    several = table()
    quantities = {(row, "b"): Quantity("perplexity", "d", "ltr" if row == "good" else "mlm", "v") for row in ROWS}
    coming = frozenset({("good", "b")})
    assert analyse(table(cells=several.cells, quantities=quantities, coming=coming)).coming == 0
    no_cell = {place: runs for place, runs in several.cells.items() if place not in (("good", "b"), ("bert", "b"))}
    assert analyse(table(cells=no_cell, coming=frozenset({("bert", "b")}))).coming == 2  # of same and bad


def test_missing_and_failed_cells_are_named() -> None:
    several = table()
    cells = {place: runs for place, runs in several.cells.items() if place != ("good", "a")}
    cells["bad", "a"] = [Run(1, 1, None)]
    found = analyse(table(cells=cells))
    assert found.differences["good", "a"].reason == "No run of good has a value."
    assert found.differences["bad", "a"].reason == "No run of bad has a value."
    assert found.cells["good", "a"].runs == 0
    assert found.cells["bad", "a"].failed == 1


def test_perplexities_of_other_objectives_get_no_verdict() -> None:
    quantities = {
        (row, "b"): Quantity("perplexity", "d", "ltr" if row == "good" else "mlm", "v") for row in ROWS
    }  # as if column b were a perplexity
    found = analyse(table(quantities=quantities))
    assert found.differences["good", "b"].verdict == NOT_COMPARED
    assert found.differences["good", "b"].comparison is None
    assert "different things" in str(found.differences["good", "b"].reason)
    assert found.differences["bad", "b"].verdict == WORSE


def test_predictions_for_other_examples_are_not_compared() -> None:
    several = table()
    other = synthetic_column(SyntheticColumn((0.5,), 5, examples=999), "other")[0]
    found = analyse(table(cells={**several.cells, ("good", "a"): other}))
    assert "different examples" in str(found.differences["good", "a"].reason)
    assert found.differences["good", "b"].verdict == BETTER
    # The rows beside it are compared as ever, but for the correction, which counts one less.
    whole = analyse(several)
    for place in found.differences:
        if place != ("good", "a"):
            assert found.differences[place].verdict == whole.differences[place].verdict
            assert found.differences[place].comparison == whole.differences[place].comparison


def test_values_that_do_not_vary_are_no_ground_for_a_verdict() -> None:
    cells = {(row, "a"): [Run(seed, seed, value) for seed in range(3)] for row, value in (("bert", 0.5), ("good", 0.6))}
    found = analyse(Table("flat", ["bert", "good"], ["a"], "bert", cells)).differences["good", "a"]
    assert found.verdict == UNRESOLVED
    assert "do not vary" in str(found.reason)


def test_agreement_with_what_was_published() -> None:
    published = {"bert": {"a": 84.4}, "good": {"a": 83.0}, "same": {"a": 84.0}, "bad": {"a": 80.0}}
    found = analyse(table(published=published))
    assert found.signs["good", "a"].contradicts
    assert found.signs["bad", "a"].agrees
    assert ("good", "b") not in found.signs
    assert set(found.ranks) == {"a"}
    assert found.ranks["a"].rows == 4
    downwards = analyse(table(published=published, smaller_is_better=frozenset({"a"})))
    assert downwards.signs["good", "a"].contradicts
    assert downwards.signs["good", "a"].here == -found.signs["good", "a"].here


def test_the_same_table_has_the_same_numbers_whatever_its_order() -> None:
    given = table(seeds=3)
    one, other = analyse(given), analyse(table(seeds=3, cells={place: runs[::-1] for place, runs in reversed(given.cells.items())}))
    assert one.differences.keys() == other.differences.keys()
    for place, difference in one.differences.items():
        assert difference.comparison is not None
        again = other.differences[place].comparison
        assert again is not None
        assert again.p_value == pytest.approx(difference.comparison.p_value, rel=1e-9)
    renamed = analyse(table(seeds=3, name="test")).differences["good", "a"]
    assert renamed == one.differences["good", "a"]


def test_large_tables_draw_enough_for_their_correction() -> None:
    """With 60 comparisons, each of which is clear, the least p value that 500 draws can give would not survive the correction."""
    known = SyntheticColumn((0.5, *([2.5] * 6)), 4, examples=200, pretraining=0.02, finetuning=0.02)
    rows = [f"row {number}" for number in range(7)]
    columns = [f"column {number}" for number in range(10)]
    cells = {(row, column): runs for column in columns for row, runs in zip(rows, synthetic_column(known, "large", column), strict=True)}
    found = analyse(Table("large", rows, columns, rows[0], cells), draws=500)
    assert np.mean([one.verdict == BETTER for one in found.differences.values()]) > 0.9


def test_statistics_import_no_torch() -> None:
    code = "import bertlab.ablation.table, bertlab.ablation.stability, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
