"""Numbers and cells as text, the same in every form of a report that people read."""

from __future__ import annotations

import math

from bertlab.ablation.report.model import ABSENT, FAILED, MISSING, RUNNING, Cell, Difference, Report, ReportColumn
from bertlab.ablation.table import BETTER, UNRESOLVED, WORSE
from bertlab.counting import counted

MARKS = {BETTER: "▲", WORSE: "▼", UNRESOLVED: "~"}
SAME_SIGN, OTHER_SIGN = "✓", "✗"
LEGEND = (
    "mean ± standard deviation (n runs); difference from the baseline [95% interval]; ▲ better, ▼ worse, ~ unresolved; "
    "✓ same sign as in the paper, ✗ opposite sign"
)
_STATES = {FAILED: "failed", RUNNING: "running", MISSING: "not run", ABSENT: "–"}


def number(value: float, decimals: int) -> str:
    """With a true minus sign, and no minus before a zero."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    text = f"{value:.{decimals}f}"
    if text.startswith("-"):
        text = text[1:] if float(text) == 0 else f"−{text[1:]}"
    return text


def signed(value: float, decimals: int) -> str:
    """A difference, with its sign."""
    text = number(value, decimals)
    return text if text.startswith("−") or float(text) == 0 else f"+{text}"


def probability(value: float) -> str:
    """A p value."""
    return "< .001" if value < 0.0005 else f"{value:.3f}".removeprefix("0")


def amount(value: float) -> str:
    """A large number in a few signs: 12.0 million."""
    rounded = float(f"{value:.3g}")  # first, since 999,600 is a million and no 1e+03 thousand
    for size, word in (
        (1e21, "× 10²¹"),
        (1e18, "× 10¹⁸"),
        (1e15, "× 10¹⁵"),
        (1e12, "× 10¹²"),
        (1e9, "billion"),
        (1e6, "million"),
        (1e3, "thousand"),
    ):
        if rounded >= size:
            return f"{rounded / size:.3g} {word}"
    return f"{rounded:.3g}"


def value_line(cell: Cell, column: ReportColumn) -> str:
    """``61.2 ± 0.4 (n=3, 1 failed)``, or what state the cell is in."""
    if cell.mean is None:
        said = _STATES.get(cell.state, cell.state)
        return said if cell.state == ABSENT or cell.failed < 2 else f"{said} ({cell.failed})"
    spread = "" if cell.std is None else f" ± {number(cell.std, column.decimals)}"
    return f"{number(cell.mean, column.decimals)}{spread} ({', '.join([f'n={cell.units}', *_exceptions(cell)])})"


def _exceptions(cell: Cell) -> list[str]:
    counts = ((cell.failed, "failed"), (cell.degenerate, "degenerate"), (cell.running, "running"), (cell.missing, "not run"))
    several = [counted(cell.runs, "run")] if cell.runs != cell.units else []
    return [*several, *(f"{many} {word}" for many, word in counts if many)]


def difference_line(cell: Cell, column: ReportColumn) -> str | None:
    """``+0.5 [−0.1, +1.1] ~ ✓``; None where the cell is not compared with the baseline."""
    difference = cell.difference
    if difference is None:
        return None
    if difference.value is None:
        return None if cell.mean is None else "not compared"
    agrees = {True: f" {SAME_SIGN}", False: f" {OTHER_SIGN}", None: ""}[cell.agrees]
    return f"{difference_text(difference, column)} {MARKS[difference.verdict]}{agrees}"


def difference_text(difference: Difference, column: ReportColumn) -> str:
    """``+0.5 [−0.1, +1.1]``."""
    assert difference.value is not None
    text = signed(difference.value, column.decimals)
    if difference.low is not None and difference.high is not None:
        text += f" [{signed(difference.low, column.decimals)}, {signed(difference.high, column.decimals)}]"
    return text


def spread_line(cell: Cell, column: ReportColumn) -> str | None:
    """``deviation 3.1 [2.0, 6.4], 2 of 10 failed, ~``, where the table is about that."""
    spread = cell.spread
    if spread is None:
        return None
    parts = []
    if spread.std is not None:
        interval = ""
        if spread.low is not None and spread.high is not None:
            interval = f" [{number(spread.low, column.decimals)}, {number(spread.high, column.decimals)}]"
        parts.append(f"deviation {number(spread.std, column.decimals)}{interval}")
    parts.append(f"{spread.failed} of {spread.runs} failed")
    if spread.p_holm is not None:
        parts.append(spread.verdict)
    return ", ".join(parts)


def published_line(cell: Cell, column: ReportColumn) -> str | None:
    """``paper 84.4 (−0.5)``; of a column that stands in for others, with the names of those that it is the mean of."""
    if cell.published is None:
        return None
    difference = "" if cell.published_difference is None else f" ({signed(cell.published_difference, _decimals(column))})"
    what = f"paper, {'+'.join(column.published_in)}:" if column.stands_for else "paper"
    return f"{what} {number(cell.published, _decimals(column))}{difference}"


def _decimals(column: ReportColumn) -> int:
    """Perplexities are published with two."""
    return column.decimals if column.unit == "%" else 2


def cell_lines(report: Report, cell: Cell) -> list[str]:
    """Everything that a cell shows."""
    column = report.column(cell.column)
    lines = [value_line(cell, column), spread_line(cell, column), difference_line(cell, column), published_line(cell, column)]
    found = [line for line in lines if line is not None]
    return found[1:] if found[0] == "–" and len(found) > 1 else found  # a row of the paper alone has nothing but its numbers
