"""A report as one page that needs nothing else: no script, no font, no picture from elsewhere; light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from bertlab.ablation.report import plots as drawn
from bertlab.ablation.report.html_style import STYLE
from bertlab.ablation.report.markdown import provenance_lines
from bertlab.ablation.report.model import BASELINE, PUBLISHED, RANDOM, Cell, Difference, Report, ReportColumn, ReportRow
from bertlab.ablation.report.plots import Plot, inline
from bertlab.ablation.report.words import LEGEND, cell_lines, difference_text, probability
from bertlab.counting import counted

_SECTIONS = (
    (drawn.CURVES, "Over the pre-training", "Which row is ahead depends on what is counted: text read, words predicted, or computation."),
    (drawn.CELLS, "Cells", "Dots are single runs, bars are standard deviations. The paper's numbers are beside them, on a separate scale."),
    (drawn.DIFFERENCES, "Differences from the baseline", "Bars are 95% intervals; ◇ is the difference in the paper."),
    (drawn.LEARNING, "Learning curves", "Curves of different pictures measure different things and are not comparable."),
)


def page(report: Report, plots: Sequence[Plot]) -> str:
    """The whole page."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(report.title)} · {escape(report.table)}</title>",
            f"<style>{STYLE}</style></head><body><main>",
            *_header(report),
            *_table(report),
            *_notes(report),
            *_gaps(report),
            *_plots(plots),
            *_settings(report),
            *_provenance(report),
            "</main></body></html>\n",
        ]
    )


def _header(report: Report) -> Iterable[str]:
    source = f" · after {escape(report.source)}" if report.source else ""
    yield f"<header><h1>{escape(report.title)}</h1>"
    yield f'<p class="quiet">{escape(report.table)} · scale {escape(report.scale)}{source}</p></header>'


# The table


def _table(report: Report) -> Iterable[str]:
    heads = "".join(f'<th scope="col">{escape(column.label)}<small>{escape(column.metric)}</small></th>' for column in report.columns)
    yield f'<section id="table"><div class="wide"><table class="cells"><thead><tr><td></td>{heads}</tr></thead><tbody>'
    for row in report.rows:
        cells = "".join(_cell(report, report.cell(row.key, column.key), column) for column in report.columns)
        yield f'<tr class="{row.role}"><th scope="row">{escape(row.label)}{_role(row)}</th>{cells}</tr>'
    yield f'</tbody></table></div><p class="quiet">{escape(LEGEND)}.</p></section>'


def _role(row: ReportRow) -> str:
    words = {BASELINE: "baseline", RANDOM: "never trained", PUBLISHED: "published only"}
    return f"<small>{words[row.role]}</small>" if row.role in words else ""


def _cell(report: Report, cell: Cell, column: ReportColumn) -> str:
    classes = [
        "cell",
        cell.state,
        *([cell.difference.verdict.replace(" ", "-")] if cell.difference else []),
        *(["contradicts"] if cell.contradicts else []),
    ]
    first, *others = cell_lines(report, cell)
    lines = [f'<span class="value">{escape(first)}</span>', *(f"<span{_class(line)}>{escape(line)}</span>" for line in others)]
    told = "; ".join(_details(cell, column))
    title = f' title="{escape(told)}"' if told else ""
    return f'<td class="{" ".join(classes)}" data-label="{escape(column.heading)}"{title}>{"".join(lines)}</td>'


def _class(line: str) -> str:
    return ' class="paper"' if line.startswith("paper") else ' class="difference"'


def _details(cell: Cell, column: ReportColumn) -> Iterable[str]:
    """What a cell has no room for."""
    if cell.difference is not None:
        yield from _told(cell.difference)
    if cell.over_random is not None and cell.over_random.value is not None:
        yield f"difference from random weights: {difference_text(cell.over_random, column)}, {cell.over_random.verdict}"


def _told(difference: Difference) -> Iterable[str]:
    if difference.p_value is not None:
        yield f"p {probability(difference.p_value)}"
    if difference.p_holm is not None:
        yield f"after Holm's correction {probability(difference.p_holm)}"
    if difference.permutation_p is not None and difference.permutation_smallest is not None:
        least = probability(difference.permutation_smallest)
        yield f"permutation {probability(difference.permutation_p)} (at least {least} with these seeds)"
    if difference.reason:
        yield difference.reason


# Below it


def _notes(report: Report) -> Iterable[str]:
    yield '<section id="notes"><h2>How to read it</h2><dl>'
    for note in report.notes:
        yield f"<div><dt>{escape(note.heading)}</dt><dd>{escape(note.text)}</dd></div>"
    yield "</dl></section>"


def _gaps(report: Report) -> Iterable[str]:
    if report.gaps:
        yield '<section id="missing"><h2>Missing</h2><ul>'
        yield from (f"<li>{escape(gap)}</li>" for gap in report.gaps)
        yield "</ul></section>"


def _plots(plots: Sequence[Plot]) -> Iterable[str]:
    for kind, heading, told in _SECTIONS:
        found = [plot for plot in plots if plot.kind == kind]
        if found:
            yield f'<section id="{kind}"><h2>{heading}</h2><p class="quiet">{told}</p><div class="plots">'
            for plot in found:
                yield f'<figure role="img" aria-label="{escape(plot.told)}">{inline(plot)}</figure>'
            yield "</div></section>"


def _settings(report: Report) -> Iterable[str]:
    if not report.settings:
        return
    rows = [row for row in report.rows if any(row.key in setting.values for setting in report.settings)]
    heads = "".join(f'<th scope="col">{escape(row.label)}</th>' for row in rows)
    yield '<section id="configuration"><h2>How the rows were configured</h2>'
    yield '<p class="quiet">Keys in which the runs of the rows differ; for fine-tuning, those of the first column that a row has.</p>'
    yield f'<div class="wide"><table class="plain"><thead><tr><td></td>{heads}</tr></thead><tbody>'
    for setting in report.settings:
        values = "".join(f"<td>{escape(setting.values.get(row.key, '–'))}</td>" for row in rows)
        yield f'<tr><th scope="row">{escape(setting.key)}<small>{escape(setting.of)}</small></th>{values}</tr>'
    yield "</tbody></table></div></section>"


def _provenance(report: Report) -> Iterable[str]:
    yield '<section id="provenance"><h2>Provenance</h2><dl>'
    for heading, text in provenance_lines(report):
        yield f"<div><dt>{escape(heading)}</dt><dd>{escape(text)}</dd></div>"
    yield f"</dl><details><summary>All {counted(len(report.provenance.runs), 'run')}</summary>"
    yield '<div class="wide"><table class="plain"><thead><tr>'
    yield "".join(f'<th scope="col">{head}</th>' for head in ("run", "kind", "seed", "status", "minutes", "tokens", "folder"))
    yield "</tr></thead><tbody>"
    for run in report.provenance.runs:
        note = f"<small>{escape(run.note)}</small>" if run.note else ""
        minutes = f"{run.seconds / 60:.1f}" if run.seconds else ""
        tokens = f"{run.tokens:,.0f}" if run.tokens else ""
        texts = [escape(run.kind), str(run.seed), f"{escape(run.status)}{note}", minutes, tokens, escape(run.folder)]
        cells = "".join(f"<td>{text}</td>" for text in texts)
        yield f'<tr class="{escape(run.status)}"><th scope="row">{escape(run.label)}</th>{cells}</tr>'
    yield "</tbody></table></div></details></section>"
