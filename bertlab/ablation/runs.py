"""The runs of a cell, and which of them are independent repetitions of which.

A run repeats its row with other seeds: one of the pretraining, one of the fine-tuning. Two fine-tunings of one pretraining share its
luck, so they are not two independent repetitions of the row. What is independent is called a *unit* here: a pretraining with all its
fine-tunings where a cell has several pretrainings, and a single fine-tuning where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertlab.ablation.example_sums import ExampleSums

PRETRAINING_SEEDS, FINETUNING_SEEDS, EXAMPLES = "pretraining seeds", "fine-tuning seeds", "examples"
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Run:
    """One run of a cell."""

    pretraining_seed: int | None  # None where the weights come from elsewhere
    finetuning_seed: int | None  # None where nothing is fine-tuned (perplexity)
    value: float | None  # the metric, a fraction; None for a failed run, which has none
    degenerate: bool = False  # it has learned nothing: the value counts, and so does the flag
    sums: ExampleSums | None = None  # of the predictions that the value was computed from

    def __post_init__(self) -> None:
        if self.sums is not None and (self.value is None or abs(self.sums.value() - self.value) > _TOLERANCE):
            raise ValueError(f"the predictions give {self.sums.value():.6f}, but the run's value is {self.value}")

    @property
    def failed(self) -> bool:
        """Whether the run ended without a value."""
        return self.value is None


@dataclass(frozen=True)
class Units:
    """The independent repetitions of a row: for each, its seed and which runs belong to it."""

    level: str  # PRETRAINING_SEEDS or FINETUNING_SEEDS: what differs between units
    seeds: tuple[int | None, ...]
    runs: tuple[tuple[Run, ...], ...]  # one tuple a unit, none empty

    def __len__(self) -> int:
        return len(self.seeds)

    def values(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The mean value of each unit, (units,)."""
        return np.array([np.mean([run.value for run in runs]) for runs in self.runs], dtype=np.float64)

    def only(self, seeds: Sequence[int | None]) -> Units:
        """These units alone, in this order."""
        places = [self.seeds.index(seed) for seed in seeds]
        return Units(self.level, tuple(seeds), tuple(self.runs[place] for place in places))

    @property
    def covers(self) -> tuple[str, ...]:
        """Which seeds' luck shows in the differences between units."""
        if len(self) < 2:
            return ()
        varied = {run.finetuning_seed for runs in self.runs for run in runs}
        if self.level == FINETUNING_SEEDS:
            return (FINETUNING_SEEDS,)
        return (PRETRAINING_SEEDS, FINETUNING_SEEDS) if len(varied) > 1 else (PRETRAINING_SEEDS,)


def units_of(runs: Sequence[Run]) -> Units:
    """The units of a cell, ordered by seed. Failed runs are left out.

    Raises:
        ValueError: if two runs have the same seeds.
    """
    seeds = [(run.pretraining_seed, run.finetuning_seed) for run in runs]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"a cell has two runs with the same pretraining and fine-tuning seed: {sorted(seeds, key=str)}")
    level = PRETRAINING_SEEDS if len({run.pretraining_seed for run in runs}) > 1 or _nothing_tuned(runs) else FINETUNING_SEEDS
    groups: dict[int | None, list[Run]] = {}
    for run in runs:
        if not run.failed:
            groups.setdefault(run.pretraining_seed if level == PRETRAINING_SEEDS else run.finetuning_seed, []).append(run)
    order = sorted(groups, key=lambda seed: (seed is None, seed or 0))
    return Units(level, tuple(order), tuple(tuple(groups[seed]) for seed in order))


def _nothing_tuned(runs: Sequence[Run]) -> bool:
    return all(run.finetuning_seed is None for run in runs)


@dataclass(frozen=True)
class CellSummary:
    """What a cell shows by itself."""

    mean: float | None  # of the units' means; None where no run has a value
    std: float | None  # sample standard deviation of the runs' values (n - 1); None below two
    values: tuple[float, ...]  # one a run that has one, in the order of the seeds
    units: int
    runs: int  # with a value
    failed: int
    degenerate: int


def summarise(runs: Sequence[Run]) -> CellSummary:
    """Mean, standard deviation and counts of a cell."""
    units = units_of(runs)
    values = [float(run.value) for unit in units.runs for run in unit if run.value is not None]
    return CellSummary(
        mean=float(units.values().mean()) if values else None,
        std=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        values=tuple(values),
        units=len(units),
        runs=len(values),
        failed=sum(run.failed for run in runs),
        degenerate=sum(run.degenerate for run in runs),
    )


@dataclass(frozen=True)
class Pairing:
    """Two rows' units as they are compared."""

    row: Units
    baseline: Units
    paired: bool  # then both have the same seeds in the same order
    notes: tuple[str, ...] = ()


def pair(row: Sequence[Run], baseline: Sequence[Run]) -> Pairing:
    """The units of both rows, paired by seed where most of them pair.

    They pair where the units of both rows are of one level, at least two seeds are common to both rows, and these are more than half of
    the seeds of the row with more of them. What has no partner is then left out of the comparison.
    """
    ours, theirs = units_of(row), units_of(baseline)
    common = [seed for seed in ours.seeds if seed in theirs.seeds and seed is not None]
    most = max(len(ours), len(theirs))
    if ours.level != theirs.level or len(common) < 2 or 2 * len(common) <= most:
        return Pairing(ours, theirs, False, _unpaired_notes(ours, theirs))
    alone = sorted({seed for seed in (*ours.seeds, *theirs.seeds) if seed not in common and seed is not None})
    notes = (f"Seeds without a partner in the other row are left out: {', '.join(map(str, alone))}.",) if alone else ()
    return Pairing(ours.only(common), theirs.only(common), True, notes)


def _unpaired_notes(ours: Units, theirs: Units) -> tuple[str, ...]:
    if len(ours) > 1 and len(theirs) > 1 and ours.level != theirs.level:
        return ("One of the rows has a single pre-training: the interval does not cover how much pre-trainings vary.",)
    return ()
