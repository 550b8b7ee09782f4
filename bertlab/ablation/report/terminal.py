"""A report in a terminal: a table where it is wide enough, else column by column; notes in paragraphs."""

from __future__ import annotations

import sys

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bertlab.ablation.report.markdown import provenance_lines
from bertlab.ablation.report.model import BASELINE, Cell, Report
from bertlab.ablation.report.words import LEGEND, cell_lines
from bertlab.ablation.table import BETTER, WORSE

_WIDTH_OF_FILES = 160  # columns, where output goes to no terminal
_COLORS = {BETTER: "green", WORSE: "red"}
_ENDLESS = 10_000
_MOST_GAPS = 12


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the table, what stands under it, and what is missing."""
    console = console or _console()
    console.print(Text(f"{report.title} · {report.table}, scale {report.scale}", style="bold"))
    if report.source:
        console.print(Text(report.source, style="dim"))
    console.print()
    _print_cells(report, console)
    console.print(Text(LEGEND, style="dim"))
    console.print()
    for note in report.notes:
        console.print(Text.assemble((f"{note.heading}. ", "bold"), note.text))
    _print_gaps(report, console)
    console.print(Text.assemble(("Runs. ", "bold"), dict(provenance_lines(report))["Runs"] + "."))


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH_OF_FILES, file=sys.stdout)


def _print_cells(report: Report, console: Console) -> None:
    """Whichever form fits."""
    table = _table(report)
    wanted = Measurement.get(console, console.options.update(width=_ENDLESS), table).maximum
    if wanted <= console.width:
        console.print(table)
    else:
        _print_columns(report, console)


def _table(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_lines=False, pad_edge=False, padding=(0, 1))
    longest = max(cell_len(row.label) for row in report.rows)
    table.add_column("", min_width=min(longest, 16))
    for column in report.columns:
        table.add_column(Text(f"{column.label}\n{column.metric}"), no_wrap=True, justify="left")
    for number, row in enumerate(report.rows):
        label = Text(row.label, style="bold" if row.role == BASELINE else "")
        cells = [_cell(report, report.cell(row.key, column.key)) for column in report.columns]
        table.add_row(label, *cells, end_section=False)
        if number + 1 < len(report.rows):
            table.add_row()
    return table


def _cell(report: Report, cell: Cell) -> Text:
    color = _COLORS.get(cell.difference.verdict, "") if cell.difference else ""
    first, *others = cell_lines(report, cell)
    text = Text(first, style="" if cell.mean is not None else "yellow")
    for line in others:
        text.append(f"\n{line}", style="dim" if line.startswith("paper") else color)
    return text


def _print_columns(report: Report, console: Console) -> None:
    """One column after the other, for narrow terminals and wide tables."""
    for column in report.columns:
        console.print(Text(column.heading, style="bold underline"))
        for row in report.rows:
            console.print(Text(row.label, style="bold" if row.role == BASELINE else ""))
            console.print(Padding(_cell(report, report.cell(row.key, column.key)), (0, 0, 0, 2), expand=False))
        console.print()


def _print_gaps(report: Report, console: Console) -> None:
    if not report.gaps:
        return
    console.print(Text("Missing. ", style="bold yellow"))
    for gap in report.gaps[:_MOST_GAPS]:
        console.print(Padding(Text(gap), (0, 0, 0, 2), expand=False))
    if len(report.gaps) > _MOST_GAPS:
        console.print(Padding(Text(f"and {len(report.gaps) - _MOST_GAPS} more"), (0, 0, 0, 2), expand=False))
