"""From a table's manifest and its runs to a report: the statistics are computed, everything is put into people's units and words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertlab.ablation import table as statistics
from bertlab.ablation.agreement import SignAgreement
from bertlab.ablation.collect import DONE, FAILED, MISSING, RUNNING, CellKey, CellRun, Collected, collect, runs_of
from bertlab.ablation.grid import Column, Row
from bertlab.ablation.manifest import Manifest
from bertlab.ablation.report import model
from bertlab.ablation.report.model import Cell, Difference, Report, ReportColumn, ReportRow, SeedValue
from bertlab.ablation.table import Table, TableStatistics, analyse

_PERPLEXITY = "perplexity"
_LARGE, _MIDDLE = 1000.0, 10.0  # perplexities that are shown without decimals, and with one


@dataclass(frozen=True)
class Published:
    """What the paper has for a cell, and whether it is of the same task."""

    value: float
    stands_in: bool


def report_table(manifest: Manifest, runs: Path) -> Report:
    """Everything that is to be said of a table, as far as its runs in the folder ``runs`` have come."""
    return report_of(collect(manifest, runs))


def report_of(collected: Collected) -> Report:
    """The same of what was collected."""
    from bertlab.ablation.report.configuration import settings_of
    from bertlab.ablation.report.curves import curves_of, learning_curves
    from bertlab.ablation.report.provenance import provenance_of
    from bertlab.ablation.report.sentences import gaps_of, notes_of
    from bertlab.ablation.report.spread import with_spread

    manifest = collected.manifest
    columns = _columns(collected)
    rows = tuple(_row(row, manifest) for row in manifest.grid.rows.values())
    found = analyse(_table(collected, columns))
    cells = {(row.key, column.key): _cell(collected, found, row, column, column.unit == "%") for row in rows for column in columns}
    if manifest.grid.show == "deviation":
        cells = with_spread(cells, rows, columns, manifest.table)
    settings, unread = settings_of(collected)
    collected = replace(collected, remarks=(*collected.remarks, *unread))
    report = Report(
        name=manifest.name,
        table=manifest.table,
        scale=manifest.scale,
        title=manifest.grid.title,
        source=manifest.grid.source,
        baseline=manifest.grid.baseline,
        show=manifest.grid.show,
        columns=columns,
        rows=rows,
        cells=tuple(cells.values()),
        notes=(),
        gaps=(),
        coming=found.coming,
        ranks=tuple(model.RankLine(key, rank.rows, rank.kendall, rank.spearman, rank.kendall_p) for key, rank in found.ranks.items()),
        curves=curves_of(collected, columns, cells),
        learning=learning_curves(collected),
        settings=settings,
        provenance=provenance_of(collected),
    )
    return replace(report, notes=notes_of(report, collected), gaps=gaps_of(report, collected))


# Columns and rows


def _columns(collected: Collected) -> tuple[ReportColumn, ...]:
    """One for each column, and for each point of it where there are some."""
    found = []
    for column in collected.manifest.grid.columns.values():
        points = sorted({point for _, name, point in collected.cells if name == column.name and point is not None})
        found += [_column(collected, column, point) for point in points] or [_column(collected, column, None)]
    return tuple(found)


def _column(collected: Collected, column: Column, point: float | None) -> ReportColumn:
    percent = column.held_out != _PERPLEXITY
    values = [run.value for (_, name, _), runs in collected.cells.items() if name == column.name for run in runs if run.value is not None]
    return ReportColumn(
        key=column.name if point is None else f"{column.name}@{point:g}",
        label=column.label if point is None else f"{column.label} after {100 * point:g}%",
        column=column.name,
        metric=column.metric if column.metric is not None else f"held-out {str(column.held_out).replace('_', ' ')}",
        unit="%" if percent else "",
        decimals=1 if percent else _decimals(max(values, default=0.0)),
        smaller_is_better=column.held_out == _PERPLEXITY,
        task=column.task,
        point=point,
        stands_for=column.stands_for,
        published_in=_published_in(collected.manifest, column),
    )


def _published_in(manifest: Manifest, column: Column) -> tuple[str, ...]:
    """The paper's columns that this one is compared with: itself, or of those that it stands in for the ones that all rows have."""
    names = column.stands_for or (column.name,)
    trained = [manifest.grid.published.get(row.name, {}) for row in manifest.grid.rows.values() if not row.published_only]
    numbers = [found for found in trained if any(found.get(name) is not None for name in names)]
    return tuple(name for name in names if all(found.get(name) is not None for found in numbers)) or names


def _decimals(largest: float) -> int:
    return 0 if largest >= _LARGE else 1 if largest >= _MIDDLE else 2


def _row(row: Row, manifest: Manifest) -> ReportRow:
    role = model.TRAINED
    if row.published_only:
        role = model.PUBLISHED
    elif row.random:
        role = model.RANDOM
    elif row.name == manifest.grid.baseline:
        role = model.BASELINE
    return ReportRow(row.name, row.label, role, manifest.grid.random.get(row.name), row.pretrain, row.finetune)


# Statistics


def place_of(collected: Collected, row: str, column: ReportColumn) -> CellKey:
    """The runs of a cell. What was never trained is the same at every point of a curve."""
    place = (row, column.column, column.point)
    return place if place in collected.cells else (row, column.column, None)


def _table(collected: Collected, columns: Sequence[ReportColumn]) -> Table:
    grid = collected.manifest.grid
    rows = [row.name for row in grid.rows.values() if not row.published_only]
    places = {(row, column.key): place_of(collected, row, column) for row in rows for column in columns}
    published: dict[str, dict[str, float]] = {}
    for row in grid.rows:
        for column in columns:
            if (number := published_of(collected.manifest, row, column)) is not None:
                published.setdefault(row, {})[column.key] = number.value
    return Table(
        name=collected.manifest.table,
        rows=rows,
        columns=[column.key for column in columns],
        baseline=grid.baseline,
        cells={cell: runs_of(collected, place) for cell, place in places.items()},
        random={row: random for row, random in grid.random.items() if row in rows and random in rows},
        untrained=frozenset(row for row in rows if grid.rows[row].random),
        smaller_is_better=frozenset(column.key for column in columns if column.smaller_is_better),
        coming=frozenset(
            cell for cell, place in places.items() if any(run.status in (RUNNING, MISSING) for run in collected.cells.get(place, ()))
        ),
        quantities={
            cell: quantity
            for cell, place in places.items()
            if (quantity := next((run.quantity for run in collected.cells.get(place, ()) if run.quantity), None)) is not None
        },
        published=published,
    )


def published_of(manifest: Manifest, row: str, column: ReportColumn) -> Published | None:
    """What the paper has for a cell; for a column that stands in for others, the mean of what it has for these."""
    numbers = manifest.grid.published.get(row, {})
    found = [_at(numbers.get(name), manifest.grid.points, column.point) for name in column.published_in]
    present = [number for number in found if number is not None]
    if not present or len(present) < len(found):
        return None
    return Published(sum(present) / len(present), bool(column.stands_for))


def _at(number: float | tuple[float | None, ...] | None, points: Sequence[float], point: float | None) -> float | None:
    if not isinstance(number, tuple):
        return number
    return next((each for each, share in zip(number, points, strict=False) if share == point), None)


# Cells


def _cell(collected: Collected, found: TableStatistics, row: ReportRow, column: ReportColumn, percent: bool) -> Cell:
    place = place_of(collected, row.key, column)
    runs = collected.cells.get(place, ())
    factor = 100.0 if percent else 1.0
    published = published_of(collected.manifest, row.key, column)
    base = published_of(collected.manifest, collected.manifest.grid.baseline, column)
    apart = published.value - base.value if published and base and row.role != model.BASELINE else None
    cell = Cell(row.key, column.key, _state(runs), published=published.value if published else None, published_difference=apart)
    if not runs:
        return cell
    summary = found.cells[row.key, column.key]
    sign: SignAgreement | None = found.signs.get((row.key, column.key))
    return replace(
        cell,
        mean=_times(summary.mean, factor),
        std=_times(summary.std, factor),
        units=summary.units,
        runs=summary.runs,
        failed=summary.failed,
        degenerate=summary.degenerate,
        running=sum(run.status == RUNNING for run in runs),
        missing=sum(run.status == MISSING for run in runs),
        values=tuple(_seed_value(run, factor) for run in runs),
        difference=_difference(found.differences.get((row.key, column.key)), factor),
        over_random=_difference(found.beats_random.get((row.key, column.key)), factor),
        agrees=sign.agrees if sign else None,
        contradicts=sign is not None and sign.contradicts,
    )


def _state(runs: Sequence[CellRun]) -> str:
    statuses = {run.status for run in runs}
    if not statuses:
        return model.ABSENT
    if statuses == {DONE}:
        return model.COMPLETE
    if DONE in statuses:
        return model.PARTIAL
    for status, state in ((RUNNING, model.RUNNING), (MISSING, model.MISSING), (FAILED, model.FAILED)):
        if status in statuses:
            return state
    raise AssertionError(statuses)


def _seed_value(run: CellRun, factor: float) -> SeedValue:
    note = run.degenerate or run.reason
    return SeedValue(run.key, run.pretraining_seed, run.finetuning_seed, run.status, _times(run.value, factor), note)


def _difference(found: statistics.Difference | None, factor: float) -> Difference | None:
    if found is None:
        return None
    comparison = found.comparison
    if comparison is None:
        return Difference(None, verdict=found.verdict, reason=found.reason)
    permutation = comparison.permutation
    return Difference(
        value=comparison.difference * factor,
        low=_times(comparison.low, factor),
        high=_times(comparison.high, factor),
        verdict=found.verdict,
        p_value=_known(comparison.p_value),
        p_holm=_known(found.p_holm),
        permutation_p=permutation.p_value if permutation else None,
        permutation_smallest=permutation.smallest if permutation else None,
        paired=comparison.paired,
        units=comparison.units,
        covers=comparison.covers,
        reason=found.reason,
        notes=tuple(note for note in comparison.notes if note != found.reason),
        seeds=found.seeds.seeds if found.seeds else None,
        seeds_low=found.seeds.low if found.seeds else None,
        seeds_high=found.seeds.high if found.seeds else None,
        examples_suffice=found.seeds.examples_suffice if found.seeds else None,
        detectable=_times(found.detectable, factor),
    )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value * factor)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
