"""The runs behind tables as a graph: pretrainings, and fine-tunings that hang on them. What plans, runs and reports agree on."""

from __future__ import annotations

from dataclasses import dataclass, field

PRETRAIN, FINETUNE = "pretrain", "finetune"


@dataclass(frozen=True)
class Node:
    """One run, whoever wants it."""

    key: str  # 16 hexadecimal digits: a hash of everything that the run means; the same run of two tables is one node
    kind: str  # PRETRAIN | FINETUNE
    overrides: tuple[str, ...]  # words of the verb, complete but for checkpoint, logger, paths and what concerns the machine
    seed: int
    source: str | None = None  # of a fine-tuning, and of a pretraining that goes on from another: the key of that pretraining
    step: int | None = None  # the kept weights of ``source`` after this step; None: its final ones
    positions: float = 0.0  # tokens that it feeds, about
    flops: float = 0.0  # about
    wanted_by: tuple[str, ...] = ()  # for people: "table5: bert × mnli, seed 1"


@dataclass(frozen=True)
class CellPlan:
    """The runs whose metric a cell aggregates."""

    row: str
    column: str
    nodes: tuple[str, ...]  # keys, in the order of the seeds


@dataclass
class Plan:
    """What is to be run for some tables at one scale."""

    nodes: dict[str, Node]  # by key, in the order in which they are to be run: the first seed of every row before any second one
    cells: dict[str, list[CellPlan]] = field(default_factory=dict)  # by table
    naive_runs: int = 0  # how many there would be if nothing were shared


@dataclass(frozen=True)
class Record:
    """What is known of a node that was run; kept as ``<runs>/grid/<key>.json``."""

    key: str
    status: str  # "done" | "failed"
    folder: str  # of the run
    reason: str = ""  # the last lines of one that failed
    seconds: float = 0.0
