"""From a table's manifest and the folders of its runs to what statistics and reports are made of. Nothing is trained, nothing is asked for.

A fine-tuning gives its metric (result.json) and what each example adds to it (predictions.jsonl); a pretraining gives its held-out figures
(metrics.jsonl), with what they measure, so that perplexities of different objectives or vocabularies never meet in a comparison. What has
failed, runs just now or was never begun is there too, and is called so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bertlab.ablation.comparable import Quantity
from bertlab.ablation.example_sums import ExampleSums, example_sums
from bertlab.ablation.graph import CellPlan, Node
from bertlab.ablation.grid import Column
from bertlab.ablation.locking import is_locked
from bertlab.ablation.manifest import Manifest
from bertlab.ablation.records import read_record
from bertlab.ablation.runs import Run
from bertlab.errors import UserError
from bertlab.run_files.folder import RunFolder, from_plain
from bertlab.task_config import TaskConfig

DONE, FAILED, RUNNING, MISSING = "done", "failed", "running", "missing"

Rows = list[dict[str, Any]]
CellKey = tuple[str, str, float | None]  # row, column, point


@dataclass(frozen=True)
class NodeState:
    """What is known of a run, beside what it was to be."""

    node: Node
    status: str  # DONE | FAILED | RUNNING | MISSING
    folder: RunFolder | None = None
    reason: str = ""  # why it failed, or why what it left is as good as missing
    seconds: float = 0.0  # that it took, with its start

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None where the run is not done."""
        if self.folder is None or self.status != DONE:
            return None
        return _read_result(self.folder)

    @cached_property
    def rows(self) -> Rows:
        """The rows of metrics.jsonl; a torn last one is left out."""
        return _read_rows(self.folder.metrics) if self.folder is not None else []


@dataclass(frozen=True)
class CellRun:
    """One run of a cell."""

    key: str  # of the node
    status: str  # DONE | FAILED | RUNNING | MISSING
    pretraining_seed: int | None
    finetuning_seed: int | None
    value: float | None = None  # a fraction, or a perplexity
    degenerate: str | None = None  # why a run that came to its end has learned nothing
    reason: str = ""  # why it failed, or is as good as missing
    run: Run | None = None  # as the statistics have it; None where there is nothing to count
    quantity: Quantity | None = None


@dataclass(frozen=True)
class Collected:
    """Everything that is known of a table's runs."""

    manifest: Manifest
    nodes: Mapping[str, NodeState]  # by key
    cells: Mapping[CellKey, tuple[CellRun, ...]]
    remarks: tuple[str, ...] = ()  # what could not be read, and what is to be known of the tasks' examples, as sentences


def collect(manifest: Manifest, runs: Path) -> Collected:
    """Read whatever there is of the table's runs in the folder ``runs``."""
    nodes: dict[str, NodeState] = {}
    for key, node in manifest.nodes.items():
        nodes[key] = _state(node, runs)
    nodes = {key: _blocked(state, nodes) for key, state in nodes.items()}
    remarks: dict[str, None] = {}
    read: dict[tuple[str, str], CellRun] = {}
    cells = {}
    for cell in manifest.cells:
        found = [_cell_run(manifest, nodes, cell, key, read, remarks) for key in cell.nodes]
        cells[cell.row, cell.column, cell.point] = tuple(found)
    return Collected(manifest, nodes, cells, tuple(remarks))


def _state(node: Node, runs: Path) -> NodeState:
    record = read_record(runs, node.key)
    if record is not None and record.status == "done":
        done = RunFolder(Path(record.folder))
        if _read_result(done) is None:
            return NodeState(node, MISSING, done, _unreadable(done.result.name, done), record.seconds)
        return NodeState(node, DONE, done, seconds=record.seconds)
    if is_locked(runs, node.key):
        return NodeState(node, RUNNING)
    if record is None:
        return NodeState(node, MISSING)
    folder = RunFolder(Path(record.folder)) if record.folder else None
    return NodeState(node, FAILED, folder, record.reason, record.seconds)


def _read_result(folder: RunFolder) -> dict[str, Any] | None:
    """The content of result.json; None where it is damaged."""
    try:
        found = json.loads(folder.result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _unreadable(what: str, folder: RunFolder) -> str:
    return f"{what} of {folder.name} cannot be read: delete the folder {folder.path}, and bertlab ablate repeats the run."


def _blocked(state: NodeState, nodes: Mapping[str, NodeState]) -> NodeState:
    """A run that cannot be begun because what it starts from failed has failed with it."""
    source = state.node.source
    while source is not None and state.status == MISSING:
        if nodes[source].status == FAILED:
            return replace(state, status=FAILED, reason=f"{nodes[source].node.label or source}, which it starts from, failed.")
        source = nodes[source].node.source
    return state


def _cell_run(
    manifest: Manifest,
    nodes: Mapping[str, NodeState],
    cell: CellPlan,
    key: str,
    read: dict[tuple[str, str], CellRun],
    remarks: dict[str, None],
) -> CellRun:
    """A cell's run of the node ``key``; rows that share a run share what was ``read`` of it."""
    column, row = manifest.grid.columns[cell.column], manifest.grid.rows[cell.row]
    place = (key, cell.column)
    if place not in read:
        read[place] = _read(nodes[key], column, _seeds(nodes, key, column, random=row.random), remarks)
    return read[place]


def _seeds(nodes: Mapping[str, NodeState], key: str, column: Column, *, random: bool) -> tuple[int | None, int | None]:
    """Of the pretraining and of the fine-tuning.

    Weights that were never trained are drawn by the fine-tuning's seed: it counts as the seed of a pretraining of no steps, too, so
    that a randomly initialised row repeats what the rows beside it repeat.
    """
    node = nodes[key].node
    if column.held_out is not None:
        return node.seed, None
    if random:
        return node.seed, node.seed
    return None if node.source is None else nodes[node.source].node.seed, node.seed


def _read(state: NodeState, column: Column, seeds: tuple[int | None, int | None], remarks: dict[str, None]) -> CellRun:
    key = state.node.key
    if state.status == FAILED:
        return CellRun(key, FAILED, *seeds, reason=state.reason, run=Run(*seeds, None))
    if state.status != DONE:
        return CellRun(key, state.status, *seeds, reason=state.reason)
    try:
        if column.held_out is not None:
            return _held_out_run(state, column, seeds)
        return _task_run(state, column, seeds, remarks)
    except UserError as error:  # it has not measured what the column asks for
        return CellRun(key, FAILED, *seeds, reason=f"{_name(state)} cannot be used here: {error}.", run=Run(*seeds, None))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:  # which says nothing of how the training went
        assert state.folder is not None
        return CellRun(key, MISSING, *seeds, reason=_unreadable(f"{state.folder.result.name} ({type(error).__name__})", state.folder))


def _task_run(state: NodeState, column: Column, seeds: tuple[int | None, int | None], remarks: dict[str, None]) -> CellRun:
    result, metric = state.result, column.metric
    assert result is not None
    assert state.folder is not None
    assert metric is not None
    split = column.split or str(result["split"])
    figures = result["metrics"][split]
    if metric not in figures:
        raise UserError(f"its result has no {metric} of {split}")
    value = float(figures[metric])
    data = result["data"]
    # Runs of older versions tell what they were evaluated on only by all examples that they have read, of which they may have taken a part.
    read = f"{data['fingerprint']} {split} {data.get('examples', {}).get(split)}"
    quantity = Quantity(metric, data=data.get("evaluated", {}).get(split), read=read)
    for note in data.get("notes", ()):  # such as that pre-training may have seen the examples
        remarks[f"{column.label}: {note}"] = None
    path = state.folder.predictions if split == result["split"] else state.folder.predictions_of(split)
    try:
        sums, degenerate = _of_predictions(state.folder, path, metric, value)
        run = Run(*seeds, value, degenerate is not None, sums)
    except (OSError, ValueError, KeyError, TypeError, UserError) as error:
        remarks[f"The predictions of {_name(state)} cannot be used ({error})."] = None
        degenerate = result["degenerate"]
        run = Run(*seeds, value, degenerate is not None)
    return CellRun(state.node.key, DONE, *seeds, value, degenerate, run=run, quantity=quantity)


def _of_predictions(folder: RunFolder, path: Path, metric: str, value: float) -> tuple[ExampleSums, str | None]:
    """What each example adds to the metric, and why the run has learned nothing by it, if it has not."""
    from bertlab.tasks.baseline import constant_metrics
    from bertlab.tasks.metrics import nothing_learned
    from bertlab.tasks.predictions import read_predictions

    described = json.loads(folder.task.read_text(encoding="utf-8"))
    task, predictions = from_plain(TaskConfig, described["task"]), read_predictions(path)
    labels = list(described["labels"])
    baseline = constant_metrics(task, predictions, labels)[metric]
    return example_sums(task, metric, predictions, labels), nothing_learned(task, predictions, metric, value, baseline)


def _held_out_run(state: NodeState, column: Column, seeds: tuple[int | None, int | None]) -> CellRun:
    assert state.result is not None
    assert column.held_out is not None
    lengths = sorted(int(each) for each in state.result["held_out"])
    length = lengths[-1] if column.length is None else column.length
    if length not in lengths:
        raise UserError(f"it was evaluated at length {', '.join(map(str, lengths))}, not at {length}")
    figures = state.result["held_out"][str(length)]
    if figures.get(column.held_out) is None:
        raise UserError(f"it has no finite held-out {column.held_out}")
    value = float(figures[column.held_out])
    quantity = held_out_quantity(state.result["identity"], column.held_out, length)
    return CellRun(state.node.key, DONE, *seeds, value, run=Run(*seeds, value), quantity=quantity)


def held_out_quantity(identity: Mapping[str, Any], metric: str, length: int) -> Quantity:
    """What a held-out figure measures, by the identity of its pretraining."""
    masking = identity["masking"]
    parts = [f"length {length}"]
    if "sequences" in (validation := identity.get("validation", {})):
        parts.append(f"{validation['sequences']} sequences")
    if metric == "nsp_accuracy":  # pairs are made alike whatever is masked in them, and a verdict on a pair counts no tokens
        return Quantity(metric, data=f"{_corpus(identity)}, {', '.join(parts)}")
    parts.append("pairs" if identity["objective"]["pair"] else "single")
    if masking is not None:
        parts += [f"{key} {value}" for key, value in sorted(masking.items())]
    return Quantity(
        "token_accuracy" if metric == "accuracy" else metric,
        data=_corpus(identity),
        objective=str(identity["objective"]["kind"]),
        vocabulary=str(identity["vocabulary"]),
        protocol=", ".join(parts),
    )


def _corpus(identity: Mapping[str, Any]) -> str:
    corpus = identity["corpus"]
    return f"{corpus['content']} {corpus['held_out']}"


def _name(state: NodeState) -> str:
    return state.folder.name if state.folder is not None else state.node.key


def _read_rows(path: Path) -> Rows:
    rows: Rows = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return rows
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not isinstance(row, dict) or "step" not in row or "split" not in row:
            break
        rows.append(row)
    return rows


def runs_of(collected: Collected, place: CellKey) -> Sequence[Run]:
    """The runs of a cell that have ended, as the statistics have them."""
    return [each.run for each in collected.cells.get(place, ()) if each.run is not None]
