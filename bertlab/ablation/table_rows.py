"""The rows of a table at a scale, with their pre-trainings composed, and the columns that the data at hand give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bertlab.ablation.fairness import allotted, in_words
from bertlab.ablation.grid import Column, Grid, Row, Seeds
from bertlab.ablation.measures import measures_of
from bertlab.ablation.plan_notes import called, data_in_words, seeds_in_words
from bertlab.ablation.run_words import RunWords
from bertlab.ablation.scales import GridScale
from bertlab.ablation.table_draft import RowDraft, TableDraft
from bertlab.config import BudgetConfig, PretrainConfig
from bertlab.data.schedule import plan_training
from bertlab.errors import UserError, located
from bertlab.interop.initial import check_goes_on
from bertlab.schemas import PRETRAIN


def drafted(grid: Grid, words: RunWords) -> TableDraft:
    """The table at the scale of ``words``, without random rows, fine-tunings and runs.

    Raises:
        UserError: a row or a column cannot be meant at this scale or with these data.
    """
    rows, grid = _at_scale(grid, words.scale)
    base, drafts = _pretrainings(grid, rows, words)
    measured = measures_of(grid, words.settings.tasks, words.task, lambda column: words.task_in_folder(grid, column, base))
    seeds = _seeds(grid.seeds, words.settings.seeds, words.scale)
    notes = [*_notes(grid, drafts, base, seeds, words.settings.budget), *measured.notes]
    table = TableDraft(replace(grid, columns=measured.columns), drafts, seeds, notes, base)
    _check_held_out(table, words.scale)
    return table


def _at_scale(grid: Grid, scale: GridScale) -> tuple[dict[str, Row], Grid]:
    """The rows that are run, and the table with what it shows: columns of this scale, its baseline, and rows of the paper alone."""
    rows = {name: row for name, row in grid.rows.items() if not row.published_only and _exists(row, scale)}
    columns = {name: column for name, column in grid.columns.items() if _exists(column, scale)}
    if not columns:
        raise UserError(f"{grid.path}: columns: none exists at scale={scale.name}: add one that does.")
    baseline = next((name for name in grid.baselines or (grid.baseline,) if name in rows), None)
    if baseline is None:
        raise UserError(f"{grid.path}: baseline: no row of that name exists at scale={scale.name}: add one that does.")
    for row in rows.values():
        if row.of is not None and row.of not in rows:
            raise UserError(f"{grid.path}: rows.{row.name}.of: the row {row.of} does not exist at scale={scale.name}.")
    return rows, replace(grid, columns=columns, baseline=baseline, rows=_shown(grid, rows))


def _exists(what: Row | Column, scale: GridScale) -> bool:
    return not what.scales or scale.name in what.scales


def _shown(grid: Grid, rows: Mapping[str, Row]) -> dict[str, Row]:
    """The rows to show: those that are run, those of the paper alone, and of the paper's others what it has published."""
    shown: dict[str, Row] = {}
    for name, row in grid.rows.items():
        if name in rows or row.published_only:
            shown[name] = row
        elif grid.published.get(name):
            shown[name] = Row(name, row.label, published_only=True)
    return shown


def _pretrainings(grid: Grid, rows: Mapping[str, Row], words: RunWords) -> tuple[PretrainConfig, dict[str, RowDraft]]:
    """What all rows have in common, and every row with its budget."""
    said = {name: words.of_pretraining(grid, row, rows) for name, row in rows.items()}
    common = words.of_every_row(grid)
    words.composer.prepare(PRETRAIN, [common, *said.values()])
    base = words.composer.config(PRETRAIN, common, str(grid.path))
    composed = {name: words.composer.config(PRETRAIN, said[name], f"{grid.path}: rows.{name}") for name in rows}
    configs: dict[str, PretrainConfig] = {}
    for name, config in composed.items():
        with located(f"{grid.path}: rows.{name}"):
            PRETRAIN.validate(config)
        budget = allotted(config, composed[grid.baseline], words.settings.budget, rows[name].budget, words.scale.minutes)
        configs[name] = replace(config, budget=budget)
    for name, row in rows.items():
        if row.of is None:
            continue
        with located(f"{grid.path}: rows.{name}"):  # before the weights that it does not fit are trained for hours
            check_goes_on(configs[name], configs[row.of], row.pretrain, f"of: {row.of}")
    drafts = {
        name: RowDraft(row, configs[name], words.of_pretraining_node(row, said[name], _budget_words(configs[name].budget)), row.of)
        for name, row in rows.items()
    }
    return base, drafts


def _budget_words(budget: BudgetConfig) -> list[str]:
    return [f"budget.{name}={_number(value)}" for name, value in vars(budget).items() if value is not None]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _seeds(seeds: Seeds, asked: int | None, scale: GridScale) -> list[tuple[int, int]]:
    """The seeds of pretraining and of fine-tuning of every turn. ``asked``: how many the command wants."""
    count = asked
    if count is None:
        count = seeds.count or scale.seeds
        count = min(count, scale.most_seeds or count)
    numbers = range(1, count + 1)
    if seeds.vary == "pretrain":
        return [(number, 1) for number in numbers]
    if seeds.vary == "finetune":
        return [(1, number) for number in numbers]
    each = seeds.finetunings  # the first of every pretraining before any second one
    return [(number, (number - 1) * each + 1 + turn) for turn in range(each) for number in numbers]


def _notes(grid: Grid, rows: Mapping[str, RowDraft], base: PretrainConfig, seeds: list[tuple[int, int]], budget: str) -> list[str]:
    """What is said of budget, seeds and data."""
    names = called(grid.rows)
    trained = {names[name]: row for name, row in rows.items() if not row.row.random}
    configs = {name: row.config for name, row in trained.items()}
    shares = {name: row.row.budget for name, row in trained.items()}
    sources = {name: names[row.source] for name, row in trained.items() if row.source is not None}
    return [
        in_words(configs, names[grid.baseline], budget, shares, sources),
        seeds_in_words(grid.seeds.vary, seeds),
        data_in_words(configs, base),
    ]


def _check_held_out(table: TableDraft, scale: GridScale) -> None:
    """Refuse columns of pre-trainings' own figures that none has, or that some will not be evaluated for."""
    of_rows = {name: table.columns_of(name) for name in table.rows}
    for column in table.grid.columns.values():
        if column.held_out is None:
            continue
        where = f"{table.grid.path}: columns.{column.name}"
        rows = [name for name, columns in of_rows.items() if column in columns]
        if not rows:
            said = "" if column.held_out != "nsp_accuracy" else ", since none predicts next sentences (objective=mlm_nsp)"
            raise UserError(f"{where}: no row at scale={scale.name} has {column.held_out}{said}: leave the column out.")
        for name in rows:
            _check_length(column.length, table.rows[name], f"{where}.length")


def _check_length(length: int | None, row: RowDraft, where: str) -> None:
    lengths = row.config.validation.lengths or plan_training(row.config).lengths
    if length is not None and length not in lengths:
        raise UserError(
            f"{where}: row {row.row.name} is evaluated at length {', '.join(map(str, lengths))}, not at {length}: choose"
            f" one of these, or add validation.lengths=[{','.join(map(str, sorted({*lengths, length})))}] to pretrain."
        )
