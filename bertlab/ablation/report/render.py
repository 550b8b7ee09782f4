"""A report in every form, as files of one folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from bertlab.ablation.report.model import Report
from bertlab.files import write_atomically

PAGE = "report.html"


def render_all(report: Report, folder: Path) -> Path:
    """Write report.html, table.md, table.tex, table.csv, runs.csv, report.json and plots/*.svg; returns the page."""
    from bertlab.ablation.report.html_page import page
    from bertlab.ablation.report.latex import latex
    from bertlab.ablation.report.markdown import markdown
    from bertlab.ablation.report.plain_files import as_json, runs_csv, table_csv
    from bertlab.ablation.report.plots import alone, plots_of

    plots = plots_of(report)
    shutil.rmtree(folder / "plots", ignore_errors=True)  # of an earlier state of the table, which may have had others
    for plot in plots:
        write_atomically(folder / "plots" / f"{plot.name}.svg", alone(plot))
    for name, text in (
        ("table.md", markdown(report, [f"plots/{plot.name}.svg" for plot in plots])),
        ("table.tex", latex(report)),
        ("table.csv", table_csv(report)),
        ("runs.csv", runs_csv(report)),
        ("report.json", as_json(report)),
        (PAGE, page(report, plots)),
    ):
        write_atomically(folder / name, text)
    return folder / PAGE
