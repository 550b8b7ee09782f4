"""From tables to the graph of runs behind them: everything is composed and checked, what is the same run is one node.

The order of the nodes is the order in which they are to be run: the first seed of every row, then the second one, each run after what it
starts from. So a whole, provisional table exists early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertlab.ablation.fairness import BUDGETS
from bertlab.ablation.graph import CellPlan, Plan, TablePlan
from bertlab.ablation.graph_draft import GraphDraft, step_after
from bertlab.ablation.grid import Grid
from bertlab.ablation.meaning import architecture_of
from bertlab.ablation.random_rows import add_random_rows
from bertlab.ablation.run_words import RunWords
from bertlab.ablation.settings import Settings
from bertlab.ablation.table_draft import RowDraft, TableDraft
from bertlab.ablation.table_finetunings import add_finetunings
from bertlab.ablation.table_rows import drafted
from bertlab.config import PretrainConfig
from bertlab.data.schedule import plan_training
from bertlab.errors import UserError, unknown


def plan(grids: Sequence[Grid], settings: Settings) -> Plan:
    """The runs behind ``grids``.

    Raises:
        UserError: something cannot be meant: which table, which row, and what to change.
    """
    _check(grids, settings)
    words = RunWords(settings)
    tables = [drafted(grid, words) for grid in grids]
    for table in tables:
        add_random_rows(table)
        add_finetunings(table, words)
    runs = _Runs(tables, words.scale.keep)
    for turn in range(max(len(table.seeds) for table in tables)):
        for table in tables:
            if turn < len(table.seeds):
                runs.add(table, turn)
    for table in tables:
        _refuse_equal_rows(table, words.scale.name)
    return Plan(
        nodes=runs.graph.nodes(),
        cells={table.grid.name: _cells(table) for table in tables},
        naive_runs=runs.graph.naive_runs,
        naive_flops=runs.graph.naive_flops,
        tables={table.grid.name: TablePlan(table.grid, words.scale.name, tuple(table.notes)) for table in tables},
    )


def _check(grids: Sequence[Grid], settings: Settings) -> None:
    if settings.budget not in BUDGETS:
        raise unknown("budget", settings.budget, BUDGETS)
    if settings.seeds is not None and settings.seeds < 1:
        raise UserError(f"--seeds {settings.seeds} is too few: give 1 or more.")
    names = [grid.name for grid in grids]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"Two tables are called {repeated}: name each once, or give one of the files another name.")


class _Runs:
    """Enters the runs of tables into their cells and into one graph."""

    def __init__(self, tables: Sequence[TableDraft], keep: Sequence[float]) -> None:
        self.graph = GraphDraft()
        self.tables = tables
        self.keep = keep  # shares of every pretraining after which its weights are kept

    def add(self, table: TableDraft, turn: int) -> None:
        """The runs of all rows with the seeds of one turn."""
        for name, row in table.rows.items():
            if row.row.random:
                self.add_random(table, name, turn)
            else:
                self.add_trained(table, name, turn)

    def add_trained(self, table: TableDraft, name: str, turn: int) -> None:
        """A row's pretraining with the seed of the turn, unless an earlier turn had it, and what is fine-tuned from it."""
        seed, finetuning_seed = table.seeds[turn]
        pretraining = self.pretraining(table, name, seed)
        self.graph.want(pretraining, f"{table.grid.name}: {name}, seed {seed}")
        if seed not in [earlier for earlier, _ in table.seeds[:turn]]:
            self.graph.count(pretraining)
        for column in table.columns_of(name):
            if column.held_out is not None:
                cell = table.cells.setdefault((name, column.name, None), [])
                if pretraining not in cell:
                    cell.append(pretraining)
                continue
            for point, step in _points(table, table.rows[name]):
                key = self.finetuning(table, name, column.name, pretraining, step, finetuning_seed)
                self.enter(table, name, column.name, point, key, f"seed {_seeds(seed, finetuning_seed)}")

    def add_random(self, table: TableDraft, name: str, turn: int) -> None:
        """Fine-tunings from no training at all: each has a seed of its own, whatever varies in the other rows."""
        seed, source = turn + 1, self.architecture_from(table.rows[name])
        if not self.graph.is_wanted(source):
            self.graph.want(source, f"{table.grid.name}: {name}, for its architecture and vocabulary")
        for column in table.columns_of(name):
            key = self.finetuning(table, name, column.name, source, None, seed)
            self.enter(table, name, column.name, None, key, f"seed {seed}")

    def enter(self, table: TableDraft, row: str, column: str, point: float | None, key: str, seed: str) -> None:
        """Put a fine-tuning into its cell."""
        table.cells.setdefault((row, column, point), []).append(key)
        at = "" if point is None else f" after {point:.0%}"
        self.graph.want(key, f"{table.grid.name}: {row} × {column}{at}, {seed}")
        self.graph.count(key)

    def pretraining(self, table: TableDraft, name: str, seed: int) -> str:
        """The key of a row's pretraining with a seed, drafted after what it goes on from."""
        row = table.rows[name]
        source = None if row.source is None else self.pretraining(table, row.source, seed)
        return self.graph.pretraining(row, seed, source, (*self.keep, *table.grid.points), f"{table.grid.name}: {name}")

    def finetuning(self, table: TableDraft, row: str, column: str, source: str, step: int | None, seed: int) -> str:
        draft, pretraining = table.finetunings[row, column], table.rows[row].config
        return self.graph.finetuning(draft, pretraining, source, step, seed, f"{column} of {row}")

    def architecture_from(self, row: RowDraft) -> str:
        """A pretraining that gives architecture and vocabulary to a randomly initialised row: one of the plan, or a single step."""
        for table in self.tables:
            for name, other in table.rows.items():
                if not other.row.random and _same_model(other.config, row.config):
                    return self.pretraining(table, name, table.seeds[0][0])
        return self.graph.single_step(row)


def _points(table: TableDraft, row: RowDraft) -> list[tuple[float | None, int | None]]:
    """The points of a row's curve with their steps; one without either where there is no curve."""
    if not table.grid.points:
        return [(None, None)]
    total = plan_training(row.config).total_steps
    if total is None:
        raise UserError(
            f"{table.grid.path}: points are shares of a pre-training's steps, but a budget in minutes has none: use another budget."
        )
    return [(point, step_after(point, total)) for point in table.grid.points]


def _same_model(one: PretrainConfig, other: PretrainConfig) -> bool:
    return architecture_of(one) == architecture_of(other) and (one.tokenizer, one.corpus) == (other.tokenizer, other.corpus)


def _seeds(pretraining: int, finetuning: int) -> str:
    return f"{pretraining}" if pretraining == finetuning else f"{pretraining}.{finetuning}"


def _cells(table: TableDraft) -> list[CellPlan]:
    return [CellPlan(row, column, tuple(keys), point) for (row, column, point), keys in table.cells.items()]


def _refuse_equal_rows(table: TableDraft, scale: str) -> None:
    """Two rows that come to the same runs are a mistake of whoever wrote the table."""
    seen: dict[tuple[Any, ...], str] = {}
    for name in table.rows:
        means = tuple((column, point, keys[0]) for (row, column, point), keys in table.cells.items() if row == name)
        if means and means in seen:
            raise UserError(
                f"{table.grid.path}: rows {seen[means]} and {name} mean the same runs at scale={scale}: change one of them,"
                " or leave it out."
            )
        seen[means] = name
