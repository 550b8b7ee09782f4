"""Variance as the result: how much the runs of a cell differ, how often one fails, and whether that differs from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bertlab.ablation.comparison import DRAWS
from bertlab.ablation.holm import holm
from bertlab.ablation.report.model import BASELINE, TRAINED, Cell, ReportColumn, ReportRow, Spread
from bertlab.ablation.stability import compare_deviations, deviation, failures
from bertlab.ablation.table import NOT_COMPARED, UNRESOLVED

STEADIER, LESS_STEADY = "steadier", "less steady"
_ALPHA = 0.05

Cells = Mapping[tuple[str, str], Cell]


def with_spread(cells: Cells, rows: Sequence[ReportRow], columns: Sequence[ReportColumn], table: str) -> dict[tuple[str, str], Cell]:
    """The cells with their spread, compared with the baseline's in the same column; all comparisons are corrected together."""
    baseline = next(row.key for row in rows if row.role == BASELINE)
    spreads = {place: _spread(cell) for place, cell in cells.items() if cell.values}
    trained = [(row.key, column.key) for row in rows if row.role == TRAINED for column in columns if (row.key, column.key) in spreads]
    compared = [place for place in trained if _comparable(cells[place])]
    spreads |= {place: replace(spreads[place], verdict=NOT_COMPARED) for place in trained if place not in compared}
    p_values = [_p_value(cells[place], cells[baseline, place[1]], table) for place in compared]
    for place, p_value, p_holm in zip(compared, p_values, holm(p_values), strict=True):
        if not np.isnan(p_value):
            verdict = _verdict(spreads[place], spreads[baseline, place[1]], float(p_holm))
            spreads[place] = replace(spreads[place], p_value=p_value, p_holm=float(p_holm), verdict=verdict)
    return {place: replace(cell, spread=spreads.get(place)) for place, cell in cells.items()}


def _comparable(cell: Cell) -> bool:
    """Whether the cell's values measure what the baseline's do."""
    return cell.difference is not None and cell.difference.value is not None


def _values(cell: Cell) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([run.value for run in cell.values if run.value is not None], dtype=np.float64)


def _spread(cell: Cell) -> Spread:
    found = deviation(_values(cell))
    low, high = found.interval if found and found.interval else (None, None)
    ended, bad = cell.runs + cell.failed, cell.failed + cell.degenerate
    share = failures(bad, ended)
    return Spread(
        std=found.value if found else None,
        low=low,
        high=high,
        failed=bad,
        runs=ended,
        failed_low=share.low if share else None,
        failed_high=share.high if share else None,
    )


def _p_value(cell: Cell, baseline: Cell, table: str) -> float:
    found = compare_deviations(_values(cell), _values(baseline), DRAWS, table, cell.column, cell.row, "deviations")
    return float("nan") if found is None else found.p_value


def _verdict(spread: Spread, baseline: Spread, p_holm: float) -> str:
    if p_holm > _ALPHA or spread.std is None or baseline.std is None:
        return UNRESOLVED
    return STEADIER if spread.std < baseline.std else LESS_STEADY
