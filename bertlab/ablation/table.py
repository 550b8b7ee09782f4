"""The statistics of a whole table: every cell, every difference, verdicts, agreement with the paper.

Verdicts are about the method, over seeds: a cell with one seed gets none. Holm's correction counts all the comparisons with the baseline
that can be made, or will be when all runs have ended, so that a table whose rows are all alike shows a false verdict in at most 5% of
such tables. Comparisons with the randomly initialised rows are another question and another family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bertlab.ablation.agreement import RankAgreement, SignAgreement, rank_agreement, sign_agreement
from bertlab.ablation.comparable import Quantity, comparable
from bertlab.ablation.comparison import DRAWS, Comparison, Resamples, compare, resample_column, same_examples
from bertlab.ablation.holm import holm
from bertlab.ablation.power import SeedsNeeded, seeds_needed, smallest_difference
from bertlab.ablation.runs import CellSummary, Run, summarise

BETTER, WORSE, UNRESOLVED, NOT_COMPARED = "better", "worse", "unresolved", "not compared"
_ALPHA = 0.05
Place = tuple[str, str]  # row, column


@dataclass(frozen=True)
class Table:
    """What a table is made of."""

    name: str  # also the key of its random numbers
    rows: Sequence[str]
    columns: Sequence[str]
    baseline: str
    cells: Mapping[Place, Sequence[Run]]  # a cell without runs may be absent
    random: Mapping[str, str] = field(default_factory=dict)  # row → the randomly initialised row that it has to beat
    untrained: frozenset[str] = frozenset()  # randomly initialised rows, also those that no row has to beat
    smaller_is_better: frozenset[str] = frozenset()  # columns
    quantities: Mapping[Place, Quantity] = field(default_factory=dict)  # where what a number measures decides what it may stand beside
    coming: frozenset[Place] = frozenset()  # cells of which some runs have not ended
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # row → column → the paper's number


@dataclass(frozen=True)
class Difference:
    """A cell beside another cell of its column, judged."""

    verdict: str  # BETTER | WORSE | UNRESOLVED than what the row is compared with | NOT_COMPARED: there is nothing to, or no sense in it
    comparison: Comparison | None  # None where it is not compared
    p_holm: float  # after Holm's correction; nan where the comparison was not part of it
    reason: str | None = None  # why it is not compared; of "unresolved", where it is another than that the difference may be chance
    seeds: SeedsNeeded | None = None  # that would resolve a difference as large as this; where it is unresolved
    detectable: float | None = None  # the true difference that these seeds resolve in 80% of tables


@dataclass(frozen=True)
class TableStatistics:
    """Everything that a report says of a table."""

    cells: dict[Place, CellSummary]
    differences: dict[Place, Difference]  # from the baseline; none of the baseline itself nor of the randomly initialised rows
    beats_random: dict[Place, Difference]  # of each row from its randomly initialised one
    signs: dict[Place, SignAgreement]  # where the paper has both numbers
    ranks: dict[str, RankAgreement]  # by column
    coming: int  # comparisons with the baseline that cannot be made before more runs have ended; corrected for already


def analyse(table: Table, draws: int = DRAWS) -> TableStatistics:
    """The statistics of ``table``; the same numbers for the same table, whatever ran before.

    ``draws`` resampled evaluation sets are evaluated for each column, more where a table has so many cells that it takes more.
    """
    # The smallest p value that resampled examples can give must stay below what Holm's correction asks for.
    draws = max(draws, 2 * int(len(table.rows) * len(table.columns) / _ALPHA))
    resamples = {column: _resample(table, column, draws) for column in table.columns}
    randoms = table.untrained.union(table.random.values())
    rows = [row for row in table.rows if row != table.baseline and row not in randoms]
    differences, coming = _family(table, resamples, dict.fromkeys(rows, table.baseline))
    against_random, _ = _family(table, resamples, {row: other for row, other in table.random.items() if row in table.rows and row != other})
    cells = {(row, column): summarise(table.cells.get((row, column), ())) for row in table.rows for column in table.columns}
    ranks = {column: _ranks(table, cells, column) for column in table.columns if any(column in row for row in table.published.values())}
    return TableStatistics(cells, differences, against_random, _signs(table, differences), ranks, coming)


def _resample(table: Table, column: str, draws: int) -> Resamples | None:
    runs = [run for row in table.rows for run in table.cells.get((row, column), ())]
    return resample_column(runs, table.name, column, "examples", draws=draws)


def _family(table: Table, resamples: Mapping[str, Resamples | None], others: Mapping[str, str]) -> tuple[dict[Place, Difference], int]:
    """All comparisons of one question, of each row with the one that ``others`` names, corrected together; and how many are still to come.

    What cannot be tested yet is counted, so that a table with few of its runs done has no more chances of a false verdict.
    """
    found = {(row, column): _compare(table, resamples[column], row, others[row], column) for row in others for column in table.columns}
    tested = [one.comparison.p_value if one.comparison and one.reason is None else float("nan") for one in found.values()]
    untested = [place for place, p_value in zip(found, tested, strict=True) if np.isnan(p_value)]
    coming = sum(_is_coming(table, row, others[row], column) for row, column in untested)
    adjusted = holm([*tested, *[1.0] * coming])[: len(tested)]
    # The next comparison to be resolved is tested at this level.
    level = _ALPHA / max(1, int(np.sum(adjusted > _ALPHA)) + coming)
    judged = {
        place: _judged(difference, float(p_holm), level, place[1] in table.smaller_is_better)
        for (place, difference), p_holm in zip(found.items(), adjusted, strict=True)
    }
    return judged, coming


def _is_coming(table: Table, row: str, other: str, column: str) -> bool:
    """Whether a comparison that cannot be made now can be when all runs have ended."""
    places = {(row, column), (other, column)}
    exist = all(place in table.coming or table.cells.get(place) for place in places)
    return exist and bool(places & table.coming) and _incomparable(table, row, other, column) is None


def _incomparable(table: Table, row: str, other: str, column: str) -> str | None:
    """Why the numbers of two rows may not be compared, as far as is known."""
    ours, theirs = table.quantities.get((row, column)), table.quantities.get((other, column))
    return comparable(ours, theirs) if ours and theirs else None


def _compare(table: Table, resamples: Resamples | None, row: str, other: str, column: str) -> Difference:
    nan = float("nan")
    if reason := _incomparable(table, row, other, column):
        return Difference(NOT_COMPARED, None, nan, reason)
    runs = [table.cells.get((name, column), ()) for name in (row, other)]
    if not same_examples(*runs):
        return Difference(NOT_COMPARED, None, nan, "The two rows were evaluated on different examples.")
    comparison = compare(runs[0], runs[1], resamples, table.name, column, row, other)
    if comparison is None:
        missing = [name for name, cell in zip((row, other), runs, strict=True) if all(run.failed for run in cell)]
        return Difference(NOT_COMPARED, None, nan, f"No run of {' or '.join(missing)} has a value.")
    if not comparison.covers_seeds:
        return Difference(UNRESOLVED, comparison, nan, comparison.notes[0] if comparison.notes else None)
    if np.isnan(comparison.p_value):
        return Difference(UNRESOLVED, comparison, nan, "The values do not vary at all, so there is nothing to judge the difference by.")
    return Difference(UNRESOLVED, comparison, nan)


def _judged(difference: Difference, p_holm: float, level: float, smaller_is_better: bool) -> Difference:
    comparison = difference.comparison
    if comparison is None or np.isnan(p_holm):
        return difference
    variances, examples = comparison.seed_variances, comparison.example_variance
    fewest = min(comparison.units)
    detectable = smallest_difference(variances, examples, fewest, level)
    if p_holm <= _ALPHA:
        verdict = BETTER if (comparison.difference > 0) != smaller_is_better else WORSE
        return replace(difference, verdict=verdict, p_holm=p_holm, detectable=detectable)
    seeds = seeds_needed(comparison.difference, variances, examples, fewest - 1, level) if comparison.difference else None
    return replace(difference, p_holm=p_holm, seeds=seeds, detectable=detectable)


def _signs(table: Table, differences: Mapping[Place, Difference]) -> dict[Place, SignAgreement]:
    found = {}
    base = table.published.get(table.baseline, {})
    for (row, column), difference in differences.items():
        published = table.published.get(row, {})
        if difference.comparison is None or column not in published or column not in base:
            continue
        sign = -1.0 if column in table.smaller_is_better else 1.0
        theirs = sign * (published[column] - base[column])
        found[row, column] = sign_agreement(sign * difference.comparison.difference, theirs, difference.verdict != UNRESOLVED)
    return found


def _ranks(table: Table, cells: Mapping[Place, CellSummary], column: str) -> RankAgreement:
    ours = {row: mean for row in table.rows if (mean := cells[row, column].mean) is not None}
    theirs = {row: numbers[column] for row, numbers in table.published.items() if column in numbers}
    return rank_agreement(ours, theirs)
