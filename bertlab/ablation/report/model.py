"""What a report says, as plain values: built once, then only rendered. Texts are as they are, nothing is escaped here.

Numbers are as people read them: metrics of tasks in percent, perplexities as they are; differences in the same unit, row minus baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bertlab.ablation.manifest import Made

BASELINE, TRAINED, RANDOM, PUBLISHED = "baseline", "trained", "random", "published"  # roles of rows
COMPLETE, PARTIAL, FAILED, RUNNING, MISSING, ABSENT = "complete", "partial", "failed", "running", "missing", "absent"  # states of cells


@dataclass(frozen=True)
class ReportColumn:
    """A column: a task's metric, a held-out figure, or one of them after a part of the pretraining."""

    key: str  # "mnli", and of a point of a curve "mnli@0.1"
    label: str
    column: str  # of the table's file
    metric: str
    unit: str  # "%" or ""
    decimals: int  # that are shown
    smaller_is_better: bool = False
    task: str | None = None
    point: float | None = None  # share of the pretraining
    stands_for: tuple[str, ...] = ()  # columns of the paper that this one stands in for
    published_in: tuple[str, ...] = ()  # those of the paper's columns whose mean it is compared with

    @property
    def heading(self) -> str:
        """The label with the metric, where that says more."""
        return self.label if self.label.lower() in self.metric.lower() else f"{self.label} ({self.metric})"


@dataclass(frozen=True)
class ReportRow:
    """A row: a variant."""

    key: str
    label: str
    role: str  # BASELINE | TRAINED | RANDOM | PUBLISHED
    beats: str | None = None  # the randomly initialised row that it has to beat
    pretrain: tuple[str, ...] = ()  # what the table's file says of it
    finetune: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A cell beside another one of its column."""

    value: float | None  # None where there is nothing to compare, or no sense in it
    low: float | None = None  # of the 95% interval
    high: float | None = None
    verdict: str = "unresolved"  # better | worse | unresolved | not compared
    p_value: float | None = None
    p_holm: float | None = None  # after Holm's correction over the table; None where it was not part of it
    permutation_p: float | None = None  # of the test that assumes less
    permutation_smallest: float | None = None  # what it could have given at best with these seeds
    paired: bool = False
    units: tuple[int, int] = (0, 0)  # independent repetitions of the row and of the other one
    covers: tuple[str, ...] = ()  # which luck the interval takes into account
    reason: str | None = None  # why nothing can be resolved
    notes: tuple[str, ...] = ()  # what else is to be known of it, such as seeds that were left out, as sentences
    seeds: int | None = None  # of each row that would resolve a difference of this size
    seeds_low: int | None = None
    seeds_high: int | None = None
    examples_suffice: bool | None = None  # False: no number of seeds would do with these evaluation examples
    detectable: float | None = None  # the true difference that these seeds resolve in 80% of tables


@dataclass(frozen=True)
class Spread:
    """How much the runs of a cell differ, where the table is about that."""

    std: float | None
    low: float | None  # of the 95% interval of the standard deviation; None where equal values give none
    high: float | None
    failed: int  # runs that failed or have learned nothing
    runs: int
    failed_low: float | None  # of the 95% interval of the probability of that, fractions
    failed_high: float | None
    p_value: float | None = None  # that it differs from the baseline's
    p_holm: float | None = None
    verdict: str = "unresolved"  # steadier | less steady | unresolved | not compared: no sense in it


@dataclass(frozen=True)
class SeedValue:
    """One run of a cell."""

    run: str  # key of its node
    pretraining_seed: int | None
    finetuning_seed: int | None
    status: str
    value: float | None = None
    note: str = ""  # why it failed, or has learned nothing


@dataclass(frozen=True)
class Cell:
    """What stands at a row and a column."""

    row: str
    column: str
    state: str  # COMPLETE | PARTIAL | FAILED | RUNNING | MISSING | ABSENT
    mean: float | None = None
    std: float | None = None
    units: int = 0  # independent repetitions: n
    runs: int = 0  # with a value
    failed: int = 0
    degenerate: int = 0  # among the runs: they came to their end and have learned nothing
    running: int = 0
    missing: int = 0
    values: tuple[SeedValue, ...] = ()
    published: float | None = None  # the paper's number
    published_difference: float | None = None  # of it from the paper's baseline
    difference: Difference | None = None  # from the baseline
    over_random: Difference | None = None  # from the randomly initialised row
    agrees: bool | None = None  # whether the difference has the sign that the paper's has
    contradicts: bool = False  # it has the other one, and is resolved
    spread: Spread | None = None


@dataclass(frozen=True)
class RankLine:
    """How alike a column orders the rows here and in the paper."""

    column: str
    rows: int
    kendall: float | None
    spearman: float | None
    kendall_p: float | None


@dataclass(frozen=True)
class CurvePoint:
    """A cell as a point of a curve over pretraining; the three amounts are up to this point."""

    share: float
    positions: float | None
    targets: float | None  # predicted words, about
    flops: float | None
    mean: float | None
    std: float | None
    runs: int
    published: float | None = None


@dataclass(frozen=True)
class Curve:
    """A row's course over pretraining, in one column."""

    row: str
    label: str
    column: str  # of the table's file
    heading: str
    unit: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class LearningCurve:
    """What one pretraining measured of itself on the way."""

    run: str
    row: str
    label: str  # of the row
    seed: int
    measure: str  # curves of one measure may stand in one picture
    points: tuple[tuple[float, float], ...]  # positions, value


@dataclass(frozen=True)
class Setting:
    """A key of the configuration in which rows differ."""

    of: str  # "pre-training" or "fine-tuning"
    key: str
    values: Mapping[str, str]  # by row; a row without a configuration is left out


@dataclass(frozen=True)
class RunLine:
    """A run, for whoever wants to look at it."""

    key: str
    kind: str
    label: str
    seed: int
    status: str
    folder: str  # its name, without the way to it
    seconds: float
    tokens: float
    note: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from."""

    made: Made  # the table
    versions: Mapping[str, tuple[str, ...]]  # of the runs
    devices: tuple[str, ...]
    hours: float  # of all runs, one after the other
    tokens: float
    flops: float
    finished: str  # the last run, UTC; empty where none is done
    runs: tuple[RunLine, ...]


@dataclass(frozen=True)
class Note:
    """A paragraph under the table."""

    heading: str
    text: str


@dataclass(frozen=True)
class Report:
    """A table, and everything that is to be said of it."""

    name: str  # of the folder that it is written to
    table: str
    scale: str
    title: str
    source: str | None
    baseline: str  # key of a row
    show: str  # mean | deviation
    columns: tuple[ReportColumn, ...]
    rows: tuple[ReportRow, ...]
    cells: tuple[Cell, ...]  # row by row
    notes: tuple[Note, ...]
    gaps: tuple[str, ...]  # cells that are missing, running or failed, each as a sentence
    coming: int = 0  # comparisons with the baseline that cannot be made before more runs have ended
    ranks: tuple[RankLine, ...] = ()
    curves: tuple[Curve, ...] = ()
    learning: tuple[LearningCurve, ...] = ()
    settings: tuple[Setting, ...] = ()
    provenance: Provenance = field(default_factory=lambda: Provenance(Made(), {}, (), 0.0, 0.0, 0.0, "", ()))

    def row(self, key: str) -> ReportRow:
        """The row of a key."""
        return next(row for row in self.rows if row.key == key)

    def column(self, key: str) -> ReportColumn:
        """The column of a key."""
        return next(column for column in self.columns if column.key == key)

    def cell(self, row: str, column: str) -> Cell:
        """The cell at a row and a column."""
        return next(cell for cell in self.cells if (cell.row, cell.column) == (row, column))
