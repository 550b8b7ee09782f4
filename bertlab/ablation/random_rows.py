"""The randomly initialised rows that a table's trained ones have to beat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bertlab.ablation.grid import RANDOM, RANDOM_CAUSAL, Row
from bertlab.ablation.plan_notes import model_in_finetuning
from bertlab.ablation.table_draft import TableDraft
from bertlab.config import PretrainConfig
from bertlab.validation import is_masked


def add_random_rows(table: TableDraft) -> None:
    """Every trained row that the file names none for gets one: its counterpart among the file's, else one with its way of attending."""
    if not table.grid.add_random or all(column.held_out is not None for column in table.grid.columns.values()):
        return
    shown = dict(table.grid.rows)
    mapping = {name: other for name, other in table.grid.random.items() if {name, other} <= table.rows.keys()}  # at this scale
    of_file = [name for name, row in table.rows.items() if row.row.random]
    for name in dict.fromkeys([table.grid.baseline, *table.rows]):
        if table.rows[name].row.random or name in mapping:
            continue
        causal = not is_masked(table.rows[name].config)
        random = _counterpart(table, name, of_file) or (RANDOM_CAUSAL if causal else RANDOM)
        mapping[name] = random
        if random not in table.rows:
            label = "Random weights, left to right" if causal else "Random weights"
            shown[random] = Row(random, label, random=True)
            table.rows[random] = replace(table.rows[name], row=shown[random], source=None)
    table.grid = replace(table.grid, random=mapping, rows=shown)


def _counterpart(table: TableDraft, name: str, randoms: Iterable[str]) -> str | None:
    """Of the file's random rows the one that differs from a row in nothing but the training, first of all not in its fine-tuning."""
    row = table.rows[name]
    columns = {column.name for column in table.task_columns_of(name)}
    found = [
        random
        for random in randoms
        if _same_when_untrained(table.rows[random].config, row.config) and columns <= {column.name for column in table.columns_of(random)}
    ]
    return min(found, key=lambda random: table.rows[random].row.finetune != row.row.finetune, default=None)


def _same_when_untrained(one: PretrainConfig, other: PretrainConfig) -> bool:
    """Whether fine-tuning begins with the same model and vocabulary where neither was trained."""
    return model_in_finetuning(one) == model_in_finetuning(other) and (one.tokenizer, one.corpus) == (other.tokenizer, other.corpus)
