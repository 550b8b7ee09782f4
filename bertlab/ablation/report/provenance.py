"""Where a table's numbers come from: versions, machines, hours, and every run with what became of it."""

from __future__ import annotations

from bertlab.ablation.collect import DONE, Collected, NodeState
from bertlab.ablation.report.model import Provenance, RunLine


def provenance_of(collected: Collected) -> Provenance:
    """Of all runs of a table, those that its fine-tunings start from among them."""
    states = list(collected.nodes.values())
    results = [state.result for state in states if state.result is not None]
    versions: dict[str, dict[str, None]] = {}
    for result in results:
        for name, version in result.get("versions", {}).items():
            versions.setdefault(str(name), {})[str(version)] = None
    return Provenance(
        made=collected.manifest.made,
        versions={name: tuple(found) for name, found in versions.items()},
        devices=tuple(dict.fromkeys(str(result["device"]) for result in results if result.get("device"))),
        hours=sum(_seconds(state) for state in states) / 3600,
        tokens=sum(float(result.get("tokens", 0)) for result in results),
        flops=sum(state.node.flops for state in states if state.status == DONE),
        finished=max((str(result["finished"]) for result in results if result.get("finished")), default=""),
        runs=tuple(_line(state) for state in states),
    )


def _seconds(state: NodeState) -> float:
    """With the run's start, where that is known; of a run that was resumed, or finished by hand, what it has trained in all."""
    return max(state.seconds, float(state.result.get("seconds", 0.0)) if state.result else 0.0)


def _line(state: NodeState) -> RunLine:
    result = state.result or {}
    return RunLine(
        key=state.node.key,
        kind=state.node.kind,
        label=state.node.label or state.node.key,
        seed=state.node.seed,
        status=state.status,
        folder=state.folder.name if state.folder is not None else "",
        seconds=_seconds(state),
        tokens=float(result.get("tokens", 0)),
        note=state.reason or str(result.get("degenerate") or ""),
    )
