"""The difference between two rows of a column: how large, how certain, and which luck that certainty covers.

The p value of the verdict is the one of the interval (``uncertainty``): it covers seeds and examples and can be small at few seeds, at the
price of assuming that the repetitions of a row are about normal. The permutation test over seeds stands beside it. It assumes less, but
with three pairs it cannot fall below .25, after Holm's correction over fifteen comparisons it needs ten pairs to say anything, and it
takes the evaluation set for the whole world: where examples are few it finds differences that the next evaluation set would not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertlab.ablation.bootstrap import resampled
from bertlab.ablation.example_sums import ExampleSums
from bertlab.ablation.permutation import Permutation, exchanged_examples, exchanged_labels, sign_flips
from bertlab.ablation.runs import EXAMPLES, Pairing, Run, Units, pair
from bertlab.ablation.uncertainty import Uncertainty, common_deviations, seed_error, variance_of
from bertlab.arrays import Floats

DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Resamples:
    """The metric of the runs of a column on resampled evaluation sets: the same ones for all that were evaluated on the same examples."""

    values: dict[ExampleSums, Floats]  # (draws,)

    def of(self, units: Units) -> Floats:
        """The mean of each unit's runs, (draws, units)."""
        found = [np.mean([self.values[run.sums] for run in runs if run.sums], axis=0) for runs in units.runs]
        return np.stack(found, axis=1)


@dataclass(frozen=True)
class Comparison:
    """A row beside another one. Differences are row minus baseline, in the metric's unit."""

    difference: float
    low: float | None  # of the 95% interval; None where nothing is covered
    high: float | None
    p_value: float  # two-sided, of the same construction; nan where it cannot be told
    permutation: Permutation | None  # over seeds; over examples where each row has a single run
    paired: bool  # by seed
    units: tuple[int, int]  # independent repetitions of the row and of the baseline that are compared
    covers: tuple[str, ...]  # the luck that interval and p value take into account: kinds of seeds, examples
    seed_variances: tuple[float, ...]  # between pairs; or between the row's repetitions and between the baseline's; () where not covered
    example_variance: float  # of the difference, due to the examples, that no number of seeds takes away
    notes: tuple[str, ...] = ()

    @property
    def covers_seeds(self) -> bool:
        """Whether the interval is about the method and not about the particular runs."""
        return any(kind != EXAMPLES for kind in self.covers)


def resample_column(runs: Sequence[Run], *purpose: int | str, draws: int = DRAWS) -> Resamples | None:
    """The resamples that comparisons within a column share; None where no run has predictions."""
    groups: dict[frozenset[str], list[ExampleSums]] = {}
    for sums in dict.fromkeys(run.sums for run in runs if run.sums is not None and not run.failed):
        groups.setdefault(frozenset(sums.ids), []).append(sums)
    found = [(group, resampled(group, draws, *purpose)) for group in groups.values()]
    values = {sums: drawn[:, place] for group, drawn in found for place, sums in enumerate(group)}
    return Resamples(values) if values else None


def same_examples(row: Sequence[Run], baseline: Sequence[Run]) -> bool:
    """Whether all runs of both cells that have predictions were evaluated on the same examples."""
    return len({frozenset(run.sums.ids) for run in (*row, *baseline) if run.sums is not None and not run.failed}) <= 1


def compare(row: Sequence[Run], baseline: Sequence[Run], resamples: Resamples | None, *purpose: int | str) -> Comparison | None:
    """The difference of ``row`` from ``baseline``; None where one of them has no run with a value.

    Args:
        row: the runs of a cell.
        baseline: those of the cell to compare with, in the same column.
        resamples: of the column, with the runs of both, which were evaluated on the same examples.
        purpose: the parts of the random numbers' key (only permutation tests that cannot be enumerated draw any here).
    """
    pairing = pair(row, baseline)
    ours, theirs = pairing.row, pairing.baseline
    if not len(ours) or not len(theirs):
        return None
    values = (ours.values(), theirs.values())
    seeds_covered = len(ours) > 1 and len(theirs) > 1
    groups = [values[0] - values[1]] if pairing.paired else list(values)
    rounding = _rounding(pairing)
    error = seed_error(groups, rounding) if seeds_covered else None
    deviations = _example_deviations(pairing, resamples, seeds_covered)
    uncertainty = Uncertainty(float(values[0].mean() - values[1].mean()), error, deviations)
    interval = uncertainty.interval()
    return Comparison(
        difference=uncertainty.estimate,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        p_value=uncertainty.p_value(),
        permutation=_permutation(pairing, groups, seeds_covered, *purpose),
        paired=pairing.paired,
        units=(len(ours), len(theirs)),
        covers=_covers(pairing, seeds_covered, deviations),
        seed_variances=tuple(variance_of(group, rounding) for group in groups) if seeds_covered else (),
        example_variance=float(np.mean(deviations**2)) if deviations.size else 0.0,
        notes=pairing.notes + _notes(pairing, seeds_covered, deviations),
    )


def _rounding(pairing: Pairing) -> float:
    """The variance of a repetition's value, or of a pair's difference, that comes of scores being multiples of 1 / examples."""
    counts = [len(run.sums.ids) for units in (pairing.row, pairing.baseline) for unit in units.runs for run in unit if run.sums]
    return (2 if pairing.paired else 1) / (12 * min(counts) ** 2) if counts else 0.0


def _example_deviations(pairing: Pairing, resamples: Resamples | None, seeds_covered: bool) -> Floats:
    runs = [run for units in (pairing.row, pairing.baseline) for unit in units.runs for run in unit]
    if resamples is None or any(run.sums is None for run in runs):
        return np.empty(0)
    ours, theirs = resamples.of(pairing.row), resamples.of(pairing.baseline)  # (draws, units)
    groups = [ours - theirs] if pairing.paired else [ours, theirs]
    return common_deviations(groups if seeds_covered else [], ours.mean(axis=1) - theirs.mean(axis=1))


def _permutation(pairing: Pairing, groups: Sequence[Floats], seeds_covered: bool, *purpose: int | str) -> Permutation | None:
    if pairing.paired:
        return sign_flips(groups[0], DRAWS, *purpose, "sign flips")
    if seeds_covered:
        return exchanged_labels(groups[0], groups[1], DRAWS, *purpose, "exchanged labels")
    ours, theirs = ([run for unit in units.runs for run in unit] for units in (pairing.row, pairing.baseline))
    if len(ours) == len(theirs) == 1 and ours[0].sums is not None and theirs[0].sums is not None:
        p_value = exchanged_examples(ours[0].sums, theirs[0].sums, DRAWS, *purpose, "exchanged examples")
        return Permutation(p_value, 1 / (DRAWS + 1), exact=False)
    return None


def _covers(pairing: Pairing, seeds_covered: bool, deviations: Floats) -> tuple[str, ...]:
    kinds = [kind for kind in pairing.row.covers if kind in pairing.baseline.covers] if seeds_covered else []
    return (*kinds, EXAMPLES) if deviations.size else tuple(kinds)


def _notes(pairing: Pairing, seeds_covered: bool, deviations: Floats) -> tuple[str, ...]:
    notes = []
    if not seeds_covered:
        which = "both rows" if len(pairing.row) == len(pairing.baseline) == 1 else "one of the rows"
        notes.append(f"There is only one seed of {which}: variation between seeds is not covered, so this says nothing about the method.")
    if not deviations.size:
        notes.append("There are no scores of single examples: the interval holds for this evaluation set only, not for others like it.")
    return tuple(notes)
