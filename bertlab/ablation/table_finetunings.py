"""The fine-tunings of a table's cells, composed and checked against the models that they start from."""

from __future__ import annotations

from bertlab.ablation.meaning import architecture_of
from bertlab.ablation.plan_notes import called, hold_out_others, unlike_random
from bertlab.ablation.run_words import RunWords
from bertlab.ablation.table_draft import FinetuningDraft, TableDraft
from bertlab.errors import UserError, located
from bertlab.finetune_config import FinetuneConfig
from bertlab.models.architecture import Architecture
from bertlab.models.task_checks import check_head, check_length, check_tuning
from bertlab.schemas import FINETUNE


def add_finetunings(table: TableDraft, words: RunWords) -> None:
    """Fill in the fine-tunings of every row, and what is to be said of them under the table.

    Raises:
        UserError: one cannot be meant, or the row's model cannot do it.
    """
    wanted = {
        (name, column.name): words.of_finetuning(table.grid, row.row, column, table.base)
        for name, row in table.rows.items()
        for column in table.task_columns_of(name)
    }
    words.composer.prepare(FINETUNE, list(wanted.values()))
    architectures = {name: architecture_of(row.config) for name, row in table.rows.items()}
    for (name, column), said in wanted.items():
        where = f"{table.grid.path}: rows.{name}, columns.{column}"
        config = words.composer.config(FINETUNE, said, where)
        with located(where):  # before anything is trained for hours
            FINETUNE.validate(config)
            _check_fits(config, architectures[name])
            _check_split(table.grid.columns[column].split, config)
        table.finetunings[name, column] = FinetuningDraft(config, words.of_finetuning_node(said))
    _add_notes(table)


def _check_fits(config: FinetuneConfig, architecture: Architecture) -> None:
    check_head(config.task.kind, config.head, config.features, architecture)
    check_tuning(config.tuning, config.features, architecture)
    check_length(config.task.max_length, architecture, "the row's model")


def _check_split(split: str | None, config: FinetuneConfig) -> None:
    if split is not None and split not in config.task.evaluate:
        raise UserError(f"the task is not evaluated on {split}: add task.evaluate=[{config.task.evaluate[0]},{split}].")


def _add_notes(table: TableDraft) -> None:
    names = called(table.grid.rows)
    pretrainings = {names[name]: row.config for name, row in table.rows.items()}
    finetunings = {(names[name], column): finetuning.config for (name, column), finetuning in table.finetunings.items()}
    if any(config.task.format == "probe" for config in finetunings.values()):
        trained = {names[name]: row.config for name, row in table.rows.items() if not row.row.random}
        table.notes += hold_out_others(trained, table.base)
    random = {names[name]: names[other] for name, other in table.grid.random.items() if {name, other} <= table.rows.keys()}
    table.notes += unlike_random(random, pretrainings, finetunings)
