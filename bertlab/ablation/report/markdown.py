"""A report as Markdown, as GitHub and most viewers show it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bertlab.ablation.report.model import Report
from bertlab.ablation.report.words import LEGEND, amount, cell_lines
from bertlab.counting import counted, listed

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&$])")
_OPENS_ITEM = re.compile(r"^(\d*)([-+.)])(?= |$)")  # a list within the list would begin with "- ", "+ ", "1. " or "1) "


def markdown(report: Report, plots: Sequence[str] = ()) -> str:
    """The whole report; ``plots`` are files beside it to be shown."""
    parts = [f"# {escaped(report.title)}", _opening(report), _table(report), f"{escaped(LEGEND)}."]
    parts += [f"**{escaped(note.heading)}.** {escaped(note.text)}" for note in report.notes]
    if report.gaps:
        parts += ["## Missing", "\n".join(f"- {_item(gap)}" for gap in report.gaps)]
    if plots:
        parts += ["## Plots", "\n".join(f"![{escaped(name)}]({name})" for name in plots)]
    if report.settings:
        parts += ["## How the rows were configured", _settings(report)]
    parts += ["## Provenance", _provenance(report)]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown and HTML take as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def _item(text: str) -> str:
    """Text for an item of a list."""
    return _OPENS_ITEM.sub(r"\1\\\2", escaped(text))


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are escaped already; numbers to the right, labels to the left."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _opening(report: Report) -> str:
    source = f" After {escaped(report.source)}." if report.source else ""
    return f"Table {escaped(report.table)} at scale {escaped(report.scale)}.{source}"


def _table(report: Report) -> str:
    head = ["", *(escaped(column.heading) for column in report.columns)]
    rows = []
    for row in report.rows:
        label = f"**{escaped(row.label)}**" if row.key == report.baseline else escaped(row.label)
        cells = ["<br>".join(map(escaped, cell_lines(report, report.cell(row.key, column.key)))) for column in report.columns]
        rows.append([label, *cells])
    return table_lines(head, rows)


def _settings(report: Report) -> str:
    rows = [row for row in report.rows if any(row.key in setting.values for setting in report.settings)]
    head = ["", *(escaped(row.label) for row in rows)]
    return table_lines(
        head,
        [
            [escaped(f"{setting.of}: {setting.key}"), *(escaped(setting.values.get(row.key, "–")) for row in rows)]
            for setting in report.settings
        ],
    )


def _provenance(report: Report) -> str:
    return "\n".join(f"- {escaped(heading)}: {escaped(text)}" for heading, text in provenance_lines(report))


def provenance_lines(report: Report) -> list[tuple[str, str]]:
    """What a reader needs to judge where the numbers come from, as headings and texts."""
    source = report.provenance
    done = sum(run.status == "done" for run in source.runs)
    versions = ", ".join(f"{name} {listed(found)}" for name, found in source.versions.items())
    lines = [
        ("Command", source.made.command),
        # Runs may be older than the call that last wrote down the table.
        ("Code of the last call", f"bertlab {source.made.bertlab}, commit {source.made.commit or 'unknown'}"),
        ("Versions of the runs", versions),
        ("Machine", ", ".join(dict.fromkeys([source.made.machine, *source.devices]))),
        ("Runs", f"{done} of {counted(len(source.runs), 'run')} done, {source.hours:.2f} hours in total"),
        ("Work", f"{amount(source.tokens)} tokens without padding, {amount(source.flops)} FLOPs"),
        ("Last run finished", source.finished),
    ]
    return [(heading, text) for heading, text in lines if text.strip()]
