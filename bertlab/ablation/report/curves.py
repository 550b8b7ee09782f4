"""Curves: a row's cells over what its pretraining read, predicted and computed until then; and what pretrainings measured on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bertlab.ablation.collect import Collected, NodeState
from bertlab.ablation.graph import FINETUNING
from bertlab.ablation.report.model import Cell, Curve, CurvePoint, LearningCurve, ReportColumn
from bertlab.config import MaskingConfig
from bertlab.models.architecture import Architecture
from bertlab.models.size import flops_per_token

_POINTS = 300  # of a learning curve at most


@dataclass(frozen=True)
class Amounts:
    """How much a pretraining has done."""

    positions: float
    targets: float
    flops: float

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.positions + other.positions, self.targets + other.targets, self.flops + other.flops)


def curves_of(collected: Collected, columns: Sequence[ReportColumn], cells: Mapping[tuple[str, str], Cell]) -> tuple[Curve, ...]:
    """A curve for each column with points and each row that has them."""
    grid = collected.manifest.grid
    found = []
    for name in dict.fromkeys(column.column for column in columns if column.point is not None):
        points = [column for column in columns if column.column == name]
        for row in grid.rows.values():
            if any((row.name, name, column.point) in collected.cells for column in points):
                curve = tuple(_point(collected, cells[row.name, column.key], column) for column in points)
                heading = f"{grid.columns[name].label} ({points[0].metric})"
                found.append(Curve(row.name, row.label, name, heading, points[0].unit, curve))
    return tuple(found)


def _point(collected: Collected, cell: Cell, column: ReportColumn) -> CurvePoint:
    assert column.point is not None
    amounts = next((found for run in cell.values if (found := _until(collected, run.run)) is not None), None)
    return CurvePoint(
        share=column.point,
        positions=amounts.positions if amounts else None,
        targets=amounts.targets if amounts else None,
        flops=amounts.flops if amounts else None,
        mean=cell.mean,
        std=cell.std,
        runs=cell.runs,
        published=cell.published,
    )


def _until(collected: Collected, key: str) -> Amounts | None:
    """What the pretraining that a fine-tuning starts from had done by then."""
    node = collected.nodes[key].node
    if node.source is None:
        return None
    state = collected.nodes[node.source]
    return None if state.result is None else _with_sources(collected, state, node.step)


def _with_sources(collected: Collected, state: NodeState, step: int | None) -> Amounts:
    assert state.result is not None
    amounts = amounts_until(state.result, step)
    if state.node.source is not None and (source := collected.nodes[state.node.source]).result is not None:
        return amounts + _with_sources(collected, source, None)
    return amounts


def amounts_until(result: Mapping[str, Any], step: int | None) -> Amounts:
    """Of a pretraining with this result, after ``step`` of its steps (None: all).

    Every position counts as a token, and the share that is predicted as what masking asks for.
    """
    identity = result["identity"]
    masking, architecture = identity["masking"], Architecture.from_dict(identity["architecture"])
    predicted = 1.0 if masking is None else float(masking["rate"])
    left = float(result["steps"] if step is None else step)
    positions = flops = 0.0
    for steps_or_share, length, sequences in identity["budget"]["stages"]:
        steps = steps_or_share if identity["budget"]["steps"] is not None else steps_or_share * result["steps"]
        fed = min(left, steps) * length * sequences
        positions, flops = positions + fed, flops + fed * flops_per_token(architecture, int(length), predicted)
        left = max(0.0, left - steps)
    return Amounts(positions, positions * predicted, flops)


def learning_curves(collected: Collected) -> tuple[LearningCurve, ...]:
    """Held-out perplexity, of every pretraining, at its longest length; the loss where it was not evaluated on the way."""
    rows = _rows_of_pretrainings(collected)
    curves = (_learning_curve(collected, key, row) for key, row in rows.items())
    return tuple(curve for curve in curves if curve is not None)


def _rows_of_pretrainings(collected: Collected) -> dict[str, str]:
    """The pretrainings behind trained rows: key → the first row that has it."""
    found: dict[str, str] = {}
    for (row, _, _), runs in collected.cells.items():
        if collected.manifest.grid.rows[row].random:
            continue
        for run in runs:
            node = collected.nodes[run.key].node
            key = node.source if node.kind == FINETUNING else node.key
            if key is not None:
                found.setdefault(key, row)
    return found


def _learning_curve(collected: Collected, key: str, row: str) -> LearningCurve | None:
    state = collected.nodes[key]
    if state.result is None:
        return None
    result, label = state.result, collected.manifest.grid.rows[row].label
    lengths = sorted(int(each) for each in result["held_out"])
    evaluated = [each for each in state.rows if each["split"] == "held_out" and lengths and each["length"] == lengths[-1]]
    measured = [(each["step"], each.get("perplexity")) for each in evaluated]
    measure = f"held-out perplexity, {_of(result)}, length {lengths[-1]}" if lengths else ""
    if len(measured) < 2:
        measured = [(each["step"], each.get("language_loss")) for each in state.rows if each["split"] == "train"]
        measure = f"training loss, {_of(result)}"
    points = [(amounts_until(result, step).positions, float(value)) for step, value in _thinned(measured) if value is not None]
    return LearningCurve(key, row, label, state.node.seed, measure, tuple(points)) if len(points) > 1 else None


def _of(result: Mapping[str, Any]) -> str:
    """What is predicted, in words that differ where the figures do not compare."""
    identity = result["identity"]
    words = {"mlm_nsp": "masked words in pairs", "mlm": "masked words", "ltr": "next words", "rtl": "previous words"}
    kind = str(identity["objective"]["kind"])
    said = f"{words.get(kind, kind)}, vocabulary of {identity['architecture']['vocab_size']:,}"
    usual, masking = asdict(MaskingConfig()), identity["masking"] or {}
    unusual = [f"{name} {value:g}" for name, value in masking.items() if name in usual and value != usual[name]]
    return f"{said} ({', '.join(unusual)})" if unusual else said


def _thinned(points: list[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """At most ``_POINTS`` of them, the last one among these."""
    stride = -(-len(points) // _POINTS) if points else 1
    for place, point in enumerate(points):
        if place % stride == 0 or place == len(points) - 1:
            yield point
