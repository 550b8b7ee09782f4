"""A table on its way to a plan: rows and columns as they are at a scale and with the data at hand, with composed configurations."""

from __future__ import annotations

from dataclasses import dataclass, field

from bertlab.ablation.grid import Column, Grid, Row
from bertlab.config import PretrainConfig
from bertlab.finetune_config import FinetuneConfig


@dataclass
class RowDraft:
    """A row with what it is pre-trained as."""

    row: Row
    config: PretrainConfig  # with its budget
    words: tuple[str, ...]  # that give it, as a node has them, but for the seed and the weights to keep
    source: str | None = None  # the row that it goes on from


@dataclass
class FinetuningDraft:
    """What a cell is fine-tuned as, but for the seed and the checkpoint."""

    config: FinetuneConfig
    words: tuple[str, ...]  # that give it, as a node has them


@dataclass
class TableDraft:
    """A table; whoever adds random rows, fine-tunings or runs to it fills it in."""

    grid: Grid  # with the rows to show and the columns that there are
    rows: dict[str, RowDraft]  # those that are run
    seeds: list[tuple[int, int]]  # of every turn: those of pretraining and of fine-tuning
    notes: list[str]  # sentences for under the table
    base: PretrainConfig  # what all rows have in common
    finetunings: dict[tuple[str, str], FinetuningDraft] = field(default_factory=dict)  # by row and column
    cells: dict[tuple[str, str, float | None], list[str]] = field(default_factory=dict)  # row, column, point → keys of runs

    def columns_of(self, name: str) -> list[Column]:
        """Those that a row has a cell in. What a row names by the file's columns means the probes that stand in for them."""
        row, config = self.rows[name].row, self.rows[name].config
        columns = [
            column for column in self.grid.columns.values() if column.held_out != "nsp_accuracy" or config.objective.kind == "mlm_nsp"
        ]
        if row.random:
            columns = [column for column in columns if column.held_out is None]
        if not row.columns:
            return columns
        return [column for column in columns if column.name in row.columns or set(column.stands_for) & set(row.columns)]

    def task_columns_of(self, name: str) -> list[Column]:
        """Those of them that are fine-tuned for."""
        return [column for column in self.columns_of(name) if column.held_out is None]
