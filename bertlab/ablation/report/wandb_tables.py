"""A table at Weights & Biases: its runs, and a run of its own with tables, plots and links, all made of the runs' folders.

The runs belong to the group of their grid's scale, have the job types pretrain and finetune, and are tagged with the tables and rows that
they are for. With a login they are sent; without one everything is kept offline in the folders, and no question is asked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from bertlab.ablation.collect import DONE, Collected, NodeState
from bertlab.ablation.graph import PRETRAINING
from bertlab.ablation.manifest import group_of
from bertlab.ablation.report.model import Report
from bertlab.ablation.report.words import cell_lines
from bertlab.config import LoggerConfig, PathsConfig
from bertlab.data.cache import cache_folder
from bertlab.data.store import MANIFEST, fingerprint_of
from bertlab.errors import UserError
from bertlab.files import write_json
from bertlab.run_files.folder import RunFolder
from bertlab.training.progress import say
from bertlab.training.wandb_mirror import START_SECONDS, WandbMirror, mode

REPORT_JOB = "report"
_SENT = "wandb.json"  # beside the records: which runs are at which project
_LONGEST_TAG = 64  # a longer one is refused


@dataclass(frozen=True)
class Mirrored:
    """Where a table's runs are."""

    project: str
    entity: str | None  # None: the login's own, or nobody's where it is offline
    online: bool
    run: str  # id of the table's own run
    url: str | None  # of the project, to link to
    measures: tuple[str, ...]  # names of held-out figures that pretrainings have


def mirror_table(
    collected: Collected,
    report: Report,
    page: Path,
    destination: LoggerConfig,
    runs: Path,
    cache: str | None = None,
    *,
    artifacts: bool = False,
) -> Mirrored:
    """Send the runs of a table that are done, and the table.

    Args:
        collected: the runs.
        report: the table.
        page: its page, which is sent, too.
        destination: the project and its owner.
        runs: the folder of runs.
        cache: of token stores; None: the user's own.
        artifacts: whether final weights of pretrainings and what their token stores hold are sent as well.

    Raises:
        UserError: Weights & Biases cannot be reached.
    """
    os.environ.setdefault("WANDB_SILENT", "true")
    chosen = mode(say)
    group = group_of(report.scale)
    done = [state for state in collected.nodes.values() if state.status == DONE and state.folder is not None]
    sent = _Sent(runs, destination, online=chosen == "online")
    for number, state in enumerate(done, 1):
        assert state.folder is not None
        if state.folder.name not in sent.names and not (chosen != "online" and _is_kept_offline(state.folder)):
            say(f"Weights & Biases: run {number:,} of {len(done):,}, {state.folder.name}")
            _mirror_run(state, _of_run(destination, collected, state, report, group))
            sent.add(state.folder.name)
    return _mirror_report(collected, report, page, destination, runs, group, chosen, cache, artifacts=artifacts)


def _is_kept_offline(folder: RunFolder) -> bool:
    """Whether the run, while it trained, left what ``wandb sync`` sends."""
    return any((folder.path / "wandb").glob("offline-run-*"))


class _Sent:
    """The runs that are where they are to be: a file, so that a second call sends what is new."""

    def __init__(self, runs: Path, destination: LoggerConfig, *, online: bool) -> None:
        self._path = runs / "grid" / _SENT
        server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai") if online else "offline"
        self._key = f"{server} {destination.entity or ''}/{destination.project}"
        self._all: dict[str, list[str]] = {}
        if self._path.is_file():
            self._all = json.loads(self._path.read_text(encoding="utf-8"))
        self.names = set(self._all.get(self._key, ()))

    def add(self, name: str) -> None:
        self.names.add(name)
        write_json(self._path, {**self._all, self._key: sorted(self.names)})


def _of_run(destination: LoggerConfig, collected: Collected, state: NodeState, report: Report, group: str) -> LoggerConfig:
    """Who the run is there."""
    rows = {row for (row, _, _), runs in collected.cells.items() if any(_concerns(collected, run.key, state) for run in runs)}
    tags = [report.table, f"scale-{report.scale}", *sorted(f"row-{row}" for row in rows)]
    return replace(destination, group=group, tags=[as_tag(tag) for tag in tags])


def as_tag(text: str) -> str:
    """As much of ``text`` as a tag can hold."""
    return text[:_LONGEST_TAG]


def _concerns(collected: Collected, key: str, state: NodeState) -> bool:
    return state.node.key in (key, collected.nodes[key].node.source)


def _mirror_run(state: NodeState, destination: LoggerConfig) -> None:
    """Everything that a run measured of itself, as it would have been sent while it trained."""
    assert state.folder is not None
    complaints: list[str] = []
    values = yaml.safe_load(state.folder.config.read_text(encoding="utf-8")) if state.folder.config.is_file() else {}
    mirror = WandbMirror(destination, state.folder.path, values, complaints.append)
    for row in sorted([*state.rows, *_throughput(state.folder)], key=lambda row: float(row["step"])):
        mirror.log(row)
    mirror.finish(exit_code=0, summary=_summary(state))
    if complaints:
        raise UserError(f"{state.folder.name} could not be mirrored: {complaints[0]}")


def _throughput(folder: RunFolder) -> list[dict[str, Any]]:
    if not folder.throughput.is_file():
        return []
    return [json.loads(line) for line in folder.throughput.read_text(encoding="utf-8").split("\n")[:-1]]


def _summary(state: NodeState) -> dict[str, Any]:
    """The final figures that a person would sort runs by."""
    result = state.result or {}
    if state.node.kind == PRETRAINING:
        return {
            f"final/{length}/{name}": value
            for length, figures in result.get("held_out", {}).items()
            for name, value in figures.items()
            if value is not None
        }
    metrics = {f"final/{split}/{name}": value for split, found in result.get("metrics", {}).items() for name, value in found.items()}
    return {"value": result.get("value"), "degenerate": result.get("degenerate") is not None, **metrics}


# The table's own run


def _mirror_report(
    collected: Collected,
    report: Report,
    page: Path,
    destination: LoggerConfig,
    runs: Path,
    group: str,
    chosen: str,
    cache: str | None,
    *,
    artifacts: bool,
) -> Mirrored:
    import wandb

    name = f"report-{report.name}"
    try:
        run = wandb.init(
            project=destination.project,
            entity=destination.entity,
            group=group,
            job_type=REPORT_JOB,
            tags=[as_tag(report.table), as_tag(f"scale-{report.scale}")],
            id=name,
            name=name,
            resume="allow",
            dir=str(page.parent),
            mode=chosen,  # type: ignore[arg-type]  # one of the words that wandb has, or the user's own
            config={"title": report.title, "command": report.provenance.made.command, "commit": report.provenance.made.commit},
            settings=wandb.Settings(silent=True, console="off", init_timeout=START_SECONDS),
        )
        url = run.url.rsplit("/runs/", 1)[0] if chosen == "online" and run.url else None
        entity = str(run.entity) if chosen == "online" and run.entity else destination.entity
        _log(run, report, page, url)
        if artifacts:
            _log_artifacts(run, collected, cache)
        run.finish()
    except UserError:
        raise
    except Exception as error:  # whatever the network or the server says
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UserError(f"Weights & Biases did not accept the table ({said}): log in again, or set WANDB_MODE=offline.") from error
    return Mirrored(destination.project, entity, chosen == "online", name, url, _measures(collected))


def _log(run: Any, report: Report, page: Path, url: str | None) -> None:
    import wandb

    run.log({"cells": _cells_table(report), "runs": _runs_table(report, url), "notes": _notes_table(report)})
    for svg in sorted((page.parent / "plots").glob("*.svg")):
        run.log({f"plots/{svg.stem}": wandb.Html(svg.read_text(encoding="utf-8"), inject=False)})
    run.log({"page": wandb.Html(page.read_text(encoding="utf-8"), inject=False)})


def _measures(collected: Collected) -> tuple[str, ...]:
    """Names, as they are there, of what pretrainings were evaluated by."""
    rows = [row for state in collected.nodes.values() for row in state.rows if row["split"] == "held_out"]
    return tuple(sorted({f"held_out/{row['length']}/perplexity" for row in rows}))


def _cells_table(report: Report) -> Any:
    """As people read it, a column of the table a column."""
    import wandb

    table = wandb.Table(columns=["row", *(column.heading for column in report.columns)])
    for row in report.rows:
        table.add_data(row.label, *("\n".join(cell_lines(report, report.cell(row.key, column.key))) for column in report.columns))
    return table


def _runs_table(report: Report, url: str | None) -> Any:
    """Every run of every cell, with a link to it."""
    import wandb

    folders = {run.key: run.folder for run in report.provenance.runs}
    table = wandb.Table(columns=["row", "column", "point", "pretraining seed", "fine-tuning seed", "status", "value", "run"])
    for cell in report.cells:
        column = report.column(cell.column)
        for run in cell.values:
            name = folders.get(run.run, "")
            link = f"{url}/runs/{name}" if url and name else name
            table.add_data(cell.row, column.column, column.point, run.pretraining_seed, run.finetuning_seed, run.status, run.value, link)
    return table


def _notes_table(report: Report) -> Any:
    import wandb

    table = wandb.Table(columns=["about", "note"])
    for note in report.notes:
        table.add_data(note.heading, note.text)
    return table


def _log_artifacts(run: Any, collected: Collected, cache: str | None) -> None:
    """Final weights of the pretrainings, each with what using them takes, and what the token stores hold."""
    import wandb

    stores: set[str] = set()
    for state in collected.nodes.values():
        if state.node.kind != PRETRAINING or state.folder is None or state.result is None:
            continue
        weights = wandb.Artifact(state.folder.name, type="model", metadata={"identity": state.result["identity"]})
        for path in (state.folder.weights, state.folder.tokenizer, state.folder.architecture, state.folder.config):
            if path.is_file():
                weights.add_file(str(path))
        run.log_artifact(weights)
        content = str(state.result["identity"]["corpus"]["content"])
        if content not in stores:
            stores.add(content)
            run.log_artifact(_store_artifact(content, state.result["identity"], cache))


def _store_artifact(content: str, identity: Mapping[str, Any], cache: str | None) -> Any:
    """What a token store says of itself, and which it is; the tokens stay where they are."""
    import wandb

    artifact = wandb.Artifact(
        f"tokens-{content[:12]}", type="token-store", metadata={"content": content, "vocabulary": identity["vocabulary"]}
    )
    manifest = store_manifest(content, cache)
    if manifest is not None:
        artifact.add_file(str(manifest), name=MANIFEST)
    return artifact


def store_manifest(content: str, cache: str | None) -> Path | None:
    """The manifest of a token store with this content in the cache; None where it is there no more."""
    for path in sorted(cache_folder(PathsConfig(cache=cache)).glob(f"stores/*/{MANIFEST}")):
        if fingerprint_of(json.loads(path.read_text(encoding="utf-8"))) == content:
            return path
    return None
