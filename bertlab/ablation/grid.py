"""A table's file: its rows, its columns, what the paper has, and whatever else a person says of it. Read and checked, nothing composed.

# bertlab ablate --grid mine.yaml
title: …
source: where the published numbers are from
pretrain: [overrides of every row]           finetune: [the same of every fine-tuning]
rows:
  NAME: {label, pretrain: [overrides], finetune: [overrides], of: ROW, budget: 2, random: true, scales: [laptop], columns: [mnli],
         published_only: true}
columns:
  NAME: {label, task, metric, split, probe, probe_metric, finetune: [overrides], probe_finetune: [overrides], scales: [laptop]}
  NAME: {label, held_out: perplexity, length: 128, scales: [laptop]}
baseline: ROW                                random: {ROW: RANDOM ROW}, or false
published: {ROW: {COLUMN: number}}
seeds: {vary: both, count: 3, finetunings: 1}   points: [0.1, 0.5, 1.0]   show: mean
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bertlab.errors import UserError, unknown
from bertlab.resources import sweeps_folder

RANDOM, RANDOM_CAUSAL = "random", "random_causal"
VARY = ("pretrain", "finetune", "both")
SHOW = ("mean", "deviation")
HELD_OUT = ("perplexity", "accuracy", "nsp_accuracy")
Length = int | None
Number = float | tuple[float | None, ...] | None


@dataclass(frozen=True)
class Row:
    """A variant."""

    name: str
    label: str
    pretrain: tuple[str, ...] = ()
    finetune: tuple[str, ...] = ()
    of: str | None = None  # the row whose pretraining this one goes on from
    budget: float = 1.0  # of its pretraining, in the table's budget
    random: bool = False  # weights that were never trained; what ``pretrain`` says of the architecture holds
    scales: tuple[str, ...] = ()  # where the row exists; empty: everywhere
    columns: tuple[str, ...] = ()  # which it has a cell in; empty: all
    published_only: bool = False  # it stands beside the others with the paper's numbers, and nothing is run


@dataclass(frozen=True)
class Column:
    """A task and its metric, or what a pretraining itself is measured by."""

    name: str
    label: str
    task: str | None = None
    metric: str | None = None  # a key of result.json's metrics
    split: str | None = None  # None: the first that the task is evaluated on
    probe: str | None = None  # the task that stands in where there are no labelled files
    probe_metric: str | None = None
    finetune: tuple[str, ...] = ()  # with ``task``
    probe_finetune: tuple[str, ...] = ()  # with ``probe``
    held_out: str | None = None  # perplexity | accuracy | nsp_accuracy
    length: Length = None  # of the held-out sequences; None: the longest of the schedule
    scales: tuple[str, ...] = ()  # where the column exists; empty: everywhere
    stands_for: tuple[str, ...] = ()  # of a probe that stands in: the columns of the file that it replaces


@dataclass(frozen=True)
class Seeds:
    """Which seeds the runs of a cell have."""

    vary: str = "both"  # pretrain | finetune | both: run k has seed k in what varies, and seed 1 in the rest
    count: int | None = None  # None: the scale's
    finetunings: int = 1  # of each pretraining, where fine-tuning varies


@dataclass(frozen=True)
class Grid:
    """A table: what is varied and what is measured."""

    name: str
    path: Path
    title: str
    source: str | None
    rows: Mapping[str, Row]
    columns: Mapping[str, Column]
    baseline: str
    pretrain: tuple[str, ...] = ()
    finetune: tuple[str, ...] = ()
    random: Mapping[str, str] = field(default_factory=dict)  # row → the randomly initialised row that it has to beat
    add_random: bool = True  # rows that ``random`` does not name get ``random`` or ``random_causal``
    published: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)  # row → column → number, or one for each point
    seeds: Seeds = Seeds()
    points: tuple[float, ...] = ()  # shares of the pretraining after which it is fine-tuned; empty: at its end
    show: str = "mean"  # deviation: the table is about how much the runs of a cell differ
    baselines: tuple[str, ...] = ()  # the first that exists at a scale is the baseline there


def bundled_grids() -> dict[str, Path]:
    """The tables that come with bertlab, by name."""
    return {path.stem: path for path in sorted(sweeps_folder().glob("*.yaml"))}


def load_grid(name: str, config_dir: Path | None = None) -> Grid:
    """The table of this name, or of the YAML file that ``name`` is the path of.

    Raises:
        UserError: there is none, or something in it cannot be meant: file, key, and the nearest names.
    """
    from bertlab.ablation.grid_file import GridReader
    from bertlab.ablation.yaml_values import load_yaml

    path = _find(name)
    return GridReader(path, config_dir).grid(load_yaml(path))


def _find(name: str) -> Path:
    bundled = bundled_grids()
    if name in bundled:
        return bundled[name]
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.suffix in (".yaml", ".yml") or "/" in name:
        raise UserError(f"--grid {name}: there is no such file (seen from {Path.cwd()}).")
    raise unknown("table", name, bundled)
