r"""A report's table as LaTeX (booktabs), to be read into a document with ``\\input``."""

from __future__ import annotations

import re
import unicodedata

from bertlab.ablation.report.model import Report
from bertlab.ablation.report.words import LEGEND, cell_lines

_WIDE = 4  # columns that still fit a page as they are
_TEXT = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"$\sim$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "±": r"$\pm$", "−": r"$-$", "–": "--", "—": "---", "×": r"$\times$", "▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$",
    "✓": r"$\checkmark$", "✗": r"$\times$", "τ": r"$\tau$", "ρ": r"$\rho$", "∞": r"$\infty$", "…": r"\dots{}", "→": r"$\rightarrow$",
    "≤": r"$\leq$", "≥": r"$\geq$", "·": r"$\cdot$", "’": "'", "“": "``", "”": "''", "'": "'", "`": r"\textasciigrave{}",
}  # fmt: skip


def latex(report: Report) -> str:
    """A ``table`` environment with its caption; needs booktabs, amssymb, textcomp and, of wide tables, graphicx."""
    packages = "booktabs, amssymb, textcomp" + (", graphicx" if _is_wide(report) else "")
    lines = [
        f"% {_comment(report.table)} at scale {_comment(report.scale)}. \\usepackage{{{packages}}}",
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{_caption(report)}}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9-]', '-', report.name)}}}",
        *_tabular(report),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text that LaTeX sets as it is; letters that its usual fonts lack are told by their code."""
    return "".join(_set(character) for character in " ".join(text.split()))


def _set(character: str) -> str:
    if character in _TEXT:
        return _TEXT[character]
    if ord(character) < 0x180 and character.isprintable():
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    if plain and plain.isprintable():
        return "".join(_TEXT.get(each, each) for each in plain)
    return f"[U+{ord(character):04X}]"


def _comment(text: str) -> str:
    return " ".join(text.split())


def _is_wide(report: Report) -> bool:
    return len(report.columns) > _WIDE


def _caption(report: Report) -> str:
    source = f" After {report.source}." if report.source else ""
    notes = " ".join(f"{note.heading}: {note.text}" for note in report.notes if note.heading in ("Budget", "Seeds", "Columns"))
    return escaped(f"{report.title}, at scale {report.scale}.{source} {LEGEND[0].upper()}{LEGEND[1:]}. {notes}".strip())


def _tabular(report: Report) -> list[str]:
    begin, end = rf"\begin{{tabular}}{{l{'l' * len(report.columns)}}}", r"\end{tabular}"
    if _is_wide(report):
        begin, end = rf"\resizebox{{\linewidth}}{{!}}{{{begin}", f"{end}}}"
    head = " & ".join(["", *(escaped(column.label) for column in report.columns)])
    metrics = " & ".join(["", *(escaped(column.metric) for column in report.columns)])
    lines = [begin, r"\toprule", rf"{head} \\", rf"{metrics} \\", r"\midrule"]
    for number, row in enumerate(report.rows):
        lines += ([r"\addlinespace"] if number else []) + _row(report, row.key)
    return [*lines, r"\bottomrule", end]


def _row(report: Report, key: str) -> list[str]:
    """A line of the table for each line that a cell of the row has."""
    cells = [cell_lines(report, report.cell(key, column.key)) for column in report.columns]
    lines = []
    for number in range(max(len(cell) for cell in cells)):
        label = escaped(report.row(key).label) if number == 0 else ""
        texts = [escaped(cell[number]) if number < len(cell) else "" for cell in cells]
        small = [rf"{{\footnotesize {text}}}" if text and number else text for text in texts]
        lines.append(rf"{{{label}}} & {' & '.join(f'{{{text}}}' for text in small)} \\")
    return lines
