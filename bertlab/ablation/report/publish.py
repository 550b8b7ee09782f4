"""A table as a report at Weights & Biases: text, sets of runs, tables and plots; its specification is kept beside the table in any case."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from bertlab.ablation.collect import DONE
from bertlab.ablation.graph import FINETUNING, PRETRAINING
from bertlab.ablation.report.markdown import markdown
from bertlab.ablation.report.model import Report
from bertlab.ablation.report.wandb_tables import REPORT_JOB, Mirrored, as_tag
from bertlab.errors import UserError
from bertlab.files import write_atomically

SPECIFICATION = "wandb_report.json"
_WIDE, _HALF = 24, 12  # of the grid that panels are laid out on


def publish(report: Report, mirrored: Mirrored, folder: Path) -> str:
    """Save the report where its runs are, and its specification in ``folder``; returns a sentence on what became of it.

    Raises:
        UserError: wandb-workspaces is not installed, or the server refuses.
    """
    built = build(report, mirrored, folder)
    path = folder / SPECIFICATION
    write_atomically(path, specification(built) + "\n")
    if not mirrored.online:
        return (
            f"{report.table}: kept offline, because there is no login to Weights & Biases. wandb sync sends the folders named offline-run-*"
            f"; after a login, bertlab report {report.table} --publish sends everything. What the report will contain is in {path}."
        )
    try:
        built.save()
    except Exception as error:  # whatever the network or the server says
        raise UserError(f"Weights & Biases did not accept the report ({type(error).__name__}: {error}); its runs were sent.") from error
    return f"{report.table}: {built.url}"


def build(report: Report, mirrored: Mirrored, folder: Path) -> Any:
    """The report as wandb-workspaces has it; ``folder`` is where the table's plots are.

    Raises:
        UserError: that is not installed.
    """
    try:
        wr: Any = importlib.import_module("wandb_workspaces.reports.v2")
    except ImportError:
        raise UserError("--publish needs wandb-workspaces: pip install 'bertlab[publish]'.") from None

    # What names no owner is looked for with the owner of the report, and takes no login to be written down.
    place = {"project": mirrored.project, **({"entity": mirrored.entity} if mirrored.online and mirrored.entity else {})}
    table_run = wr.Runset(**place, name="The table", filters=f"Tags in {[as_tag(report.table)]} and JobType = '{REPORT_JOB}'")
    # By their ids: a run that another table's call has sent, or a call of its own, has that one's group and tags.
    sets = [
        wr.Runset(**place, name=label, filters=f"ID in {names}")
        for kind, label in ((PRETRAINING, "Pre-trainings"), (FINETUNING, "Fine-tunings"))
        if (names := [run.folder for run in report.provenance.runs if run.kind == kind and run.status == DONE])
    ]
    tables = [_wide(wr, wr.WeavePanelSummaryTable(table_name=name), place) for place, name in enumerate(("cells", "notes", "runs"))]
    figures = wr.MediaBrowser(title="Plots", media_keys=_media(folder), num_columns=2, layout=wr.Layout(w=_WIDE, h=20))
    curves = [
        wr.LinePlot(
            title=measure, x="Step", y=[measure], log_y=True, layout=wr.Layout(x=_HALF * (number % 2), y=8 * (number // 2), w=_HALF, h=8)
        )
        for number, measure in enumerate(mirrored.measures)
    ]
    blocks = [
        wr.MarkdownBlock(text=markdown(report)),
        wr.H2(text="Tables and plots"),
        wr.PanelGrid(runsets=[table_run], panels=[*tables, figures]),
    ]
    if sets:  # a grid of panels takes one at least
        blocks += [wr.H2(text="Runs"), wr.PanelGrid(runsets=sets, panels=curves)]
    entity = mirrored.entity or ""  # without one it would be asked for at the server
    title = f"{report.title} ({report.table}, {report.scale})"[:128]
    return wr.Report(project=mirrored.project, entity=entity, title=title, description=report.source or "", blocks=blocks, width="fluid")


def specification(built: Any) -> str:
    """What is sent, as JSON, without a server being asked."""
    spec: str = built._to_model().spec.model_dump_json(by_alias=True, exclude_none=True)  # the library has no public word for it
    return json.dumps(json.loads(spec), indent=1, ensure_ascii=False)


def _wide(wr: Any, panel: Any, place: int) -> Any:
    panel.layout = wr.Layout(x=0, y=10 * place, w=_WIDE, h=10)
    return panel


def _media(folder: Path) -> list[str]:
    return ["page", *(f"plots/{path.stem}" for path in sorted((folder / "plots").glob("*.svg")))]
