"""``bertlab report``: tables from the runs that there are, in every form; nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertlab.commands.words import Words, parse_words
from bertlab.config import LoggerConfig, PathsConfig
from bertlab.counting import counted
from bertlab.errors import UserError
from bertlab.messages import say

if TYPE_CHECKING:
    from bertlab.ablation.collect import Collected
    from bertlab.ablation.manifest import Manifest
    from bertlab.ablation.report.model import Report

_SWITCHES = ("--publish", "--artifacts")
_KEYS = ("paths.runs", "paths.cache", "logger.project", "logger.entity")


def run(words: list[str]) -> int:
    """Print the tables that the words name, or all, and write their reports. Returns the exit code."""
    parsed = parse_words(words, _KEYS, {"--to": "folder"}, _SWITCHES)
    if parsed.help:
        from bertlab.arguments import Arguments
        from bertlab.help import show_help

        return show_help("report", Arguments())
    if "--artifacts" in parsed.switches and "--publish" not in parsed.switches:
        raise UserError("--artifacts adds to what --publish sends to Weights & Biases: give --publish, too.")
    from bertlab.ablation.manifest import find_manifests

    runs = PathsConfig(parsed.values.get("paths.runs", PathsConfig().runs)).runs_folder
    manifests = find_manifests(runs, parsed.texts)
    found = show_tables(manifests, runs, Path(parsed.values["folder"]).expanduser() if "folder" in parsed.values else None)
    if "--publish" in parsed.switches:
        _publish(found, runs, parsed, artifacts="--artifacts" in parsed.switches)
    return 0


def show_tables(manifests: Sequence[Manifest], runs: Path, folder: Path | None = None) -> list[tuple[Collected, Report, Path]]:
    """Print each table, and write its report into a folder of its own inside ``folder``, by default ``<runs>/reports``.

    The last line printed for a table is the page to open.
    """
    from bertlab.ablation.collect import collect
    from bertlab.ablation.report import print_report, render_all
    from bertlab.ablation.report.build import report_of

    shown = []
    for manifest in manifests:
        say(f"{manifest.table}: reading {counted(len(manifest.nodes), 'run')} and judging their differences")
        collected = collect(manifest, runs)
        report = report_of(collected)
        print_report(report)
        page = render_all(report, (folder or runs / "reports") / report.name)
        print(page)
        shown.append((collected, report, page))
    return shown


def write_tables(manifests: Sequence[Manifest], runs: Path) -> None:
    """Write the report of each table, as ``show_tables`` does, and say nothing."""
    from bertlab.ablation.collect import collect
    from bertlab.ablation.report import render_all
    from bertlab.ablation.report.build import report_of

    for manifest in manifests:
        report = report_of(collect(manifest, runs))
        render_all(report, runs / "reports" / report.name)


def _publish(found: Sequence[tuple[Collected, Report, Path]], runs: Path, parsed: Words, *, artifacts: bool) -> None:
    from bertlab.ablation.report.publish import publish
    from bertlab.ablation.report.wandb_tables import mirror_table

    standard = LoggerConfig()
    destination = LoggerConfig(project=parsed.values.get("logger.project", standard.project), entity=parsed.values.get("logger.entity"))
    cache = parsed.values.get("paths.cache")
    for collected, report, page in found:
        mirrored = mirror_table(collected, report, page, destination, runs, cache if artifacts else None, artifacts=artifacts)
        say(publish(report, mirrored, page.parent))
