"""A report for programs: every number in full, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bertlab.ablation.report.model import Difference, Report, Spread

FORMAT = 1  # of report.json


def as_json(report: Report) -> str:
    """The whole report; what is not there is null."""
    return json.dumps({"format": FORMAT, **asdict(report)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def table_csv(report: Report) -> str:
    """A line for each cell."""
    fields = ("value", "low", "high", "verdict", "p_value", "p_holm", "permutation_p", "paired", "seeds", "detectable", "reason")
    head = ["table", "scale", "row", "row_label", "column", "column_label", "point", "metric", "unit", "state", "mean", "std", "n", "runs"]
    head += ["failed", "degenerate", "running", "missing", "published", "published_difference", "sign_agrees"]
    head += ["difference" if name == "value" else f"difference_{name}" for name in fields]
    spread = ("low", "high", "p_value", "p_holm", "verdict", "failed", "runs", "failed_low", "failed_high")  # its std is the cell's
    head += [f"deviation_{name}" for name in spread]
    head += ["over_random" if name == "value" else f"over_random_{name}" for name in fields]
    rows = []
    for cell in report.cells:
        row, column = report.row(cell.row), report.column(cell.column)
        values = [report.table, report.scale, row.key, row.label, column.column, column.label, column.point, column.metric, column.unit]
        values += [cell.state, cell.mean, cell.std, cell.units, cell.runs, cell.failed, cell.degenerate, cell.running, cell.missing]
        values += [cell.published, cell.published_difference, cell.agrees, *_of(cell.difference, fields)]
        values += [*_of(cell.spread, spread), *_of(cell.over_random, fields)]
        rows.append(values)
    return _csv([head, *rows])


def runs_csv(report: Report) -> str:
    """A line for each run of each cell."""
    folders = {run.key: run.folder for run in report.provenance.runs}
    head = ["row", "column", "point", "pretraining_seed", "finetuning_seed", "status", "value", "unit", "note", "run", "folder"]
    rows: list[Sequence[Any]] = []
    for cell in report.cells:
        column = report.column(cell.column)
        for run in cell.values:
            seeds = [run.pretraining_seed, run.finetuning_seed]
            rows.append(
                [cell.row, column.column, column.point, *seeds, run.status, run.value, column.unit, run.note, run.run, folders.get(run.run)]
            )
    return _csv([head, *rows])


def _of(part: Difference | Spread | None, fields: Sequence[str]) -> list[Any]:
    return [None if part is None else getattr(part, name) for name in fields]


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([[_plain(value) for value in row] for row in rows])
    return file.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else repr(value) if isinstance(value, float) else value
