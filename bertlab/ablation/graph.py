"""The runs behind tables as a graph: pretrainings, and fine-tunings that hang on them. What plans, runs and reports agree on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertlab.ablation.grid import Grid

PRETRAINING, FINETUNING = "pretrain", "finetune"


@dataclass(frozen=True)
class Node:
    """One run, whoever wants it."""

    key: str  # 16 hexadecimal digits: a hash of everything that the run means; the same run of two tables is one node
    kind: str  # PRETRAINING | FINETUNING
    overrides: tuple[str, ...]  # words of the verb, complete but for checkpoint, logger, paths and what concerns the machine
    seed: int
    source: str | None = None  # of a fine-tuning, and of a pretraining that goes on from another: the key of that pretraining
    step: int | None = None  # the kept weights of ``source`` after this step; None: its final ones
    positions: float = 0.0  # tokens that it feeds, about
    flops: float = 0.0  # about
    wanted_by: tuple[str, ...] = ()  # for people: "table5: bert × mnli, seed 1"
    label: str = ""  # for people: "mnli of ltr, seed 1"
    shape: str = ""  # runs of one shape differ in their seeds alone, and so do those that they start from


@dataclass(frozen=True)
class CellPlan:
    """The runs whose metric a cell aggregates."""

    row: str
    column: str
    nodes: tuple[str, ...]  # keys, in the order of the seeds
    point: float | None = None  # of a curve over training: the share of the pretraining that was done; None: all of it


@dataclass(frozen=True)
class TablePlan:
    """A table as it is at this scale and with these data."""

    grid: Grid  # its rows with the randomly initialised ones, its columns with what stands in for tasks that are not at hand
    scale: str
    notes: tuple[str, ...] = ()  # sentences for under the table: budget, seeds, data, what stands in


@dataclass
class Plan:
    """What is to be run for some tables at one scale."""

    nodes: dict[str, Node]  # by key, in the order in which they are to be run: the first seed of every row before any second one
    cells: dict[str, list[CellPlan]] = field(default_factory=dict)  # by table
    naive_runs: int = 0  # how many there would be if nothing were shared
    naive_flops: float = 0.0
    tables: dict[str, TablePlan] = field(default_factory=dict)  # by name, in the order in which they were asked for


@dataclass(frozen=True)
class Record:
    """What is known of a node that was run; kept as ``<runs>/grid/<key>.json``."""

    key: str
    status: str  # "done" | "failed"
    folder: str  # of the run
    reason: str = ""  # the last lines of one that failed
    seconds: float = 0.0
