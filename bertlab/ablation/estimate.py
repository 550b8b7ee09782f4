"""How long the runs of a plan will take on this machine, by what was measured here: an estimate, and no more is promised.

The time of a run is its FLOPs over a rate, and what a process needs to start. The best rate known is taken: of runs of this plan that are
done and cost the same; of all of its runs of that kind; of other runs in the folder; else a usual share of what the run's part of the
machine can do. Runs that were measured are taken to have had as large a part of the machine as those to come.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bertlab.ablation.graph import FINETUNING, PRETRAINING, Node, Plan, Record
from bertlab.ablation.records import read_record
from bertlab.ablation.words import key_of_word
from bertlab.models.architecture import Architecture
from bertlab.models.size import flops_per_token

START_SECONDS = 10.0  # of a process: imports, data, the last evaluation, the result
_UTILISATION = {PRETRAINING: 0.30, FINETUNING: 0.20}  # of the processor's peak
_MOST_RUNS = 100  # whose results are read
_TYPICAL_LENGTH = 50  # tokens of a sequence in fine-tuning, for its FLOPs


@dataclass(frozen=True)
class Estimate:
    """Of a plan, with what is known of its runs so far."""

    records: Mapping[str, Record]  # by key, of those that were run
    seconds: Mapping[str, float | None]  # by key, of every run from its beginning; None: nothing tells
    basis: str  # what the times go by, in words
    jobs: int  # runs at a time

    def state(self, key: str) -> str:
        """``done``, ``failed before`` or ``to do``."""
        record = self.records.get(key)
        return "to do" if record is None else "done" if record.status == "done" else "failed before"

    def left(self, plan: Plan) -> list[Node]:
        """The runs that are not done."""
        return [node for key, node in plan.nodes.items() if self.state(key) != "done"]

    def seconds_to_do(self, plan: Plan) -> float | None:
        """Until the last run has ended, where none begins before the one that it starts from; None where nothing tells."""
        left = self.left(plan)
        times = {node.key: seconds for node in left if (seconds := self.seconds[node.key]) is not None}
        if len(times) < len(left):
            return None

        def ends(key: str | None) -> float:
            return 0.0 if key is None or key not in times else times[key] + ends(plan.nodes[key].source)

        return max(sum(times.values()) / self.jobs, max(map(ends, times), default=0.0))


def estimate(plan: Plan, runs: Path, jobs: int) -> Estimate:
    """What of ``plan`` is done in the folder ``runs``, and how long each run takes, with ``jobs`` of them at a time."""
    records = {key: record for key in plan.nodes if (record := read_record(runs, key)) is not None}
    rates = _Rates(plan, records, runs, jobs)
    seconds = {key: rates.seconds(node) for key, node in plan.nodes.items()}
    return Estimate(records, seconds, rates.basis, jobs)


@dataclass
class _Rates:
    """FLOPs a second by kind of run, the best that is known first."""

    plan: Plan
    records: Mapping[str, Record]
    runs: Path
    jobs: int
    _alike: dict[tuple[str, float], float] = field(default_factory=dict)  # kind, FLOPs → seconds
    _rate: dict[str, float | None] = field(default_factory=dict)
    _by: dict[str, str] = field(default_factory=dict)  # kind → where its rate is from

    def __post_init__(self) -> None:
        done = [node for key, node in self.plan.nodes.items() if key in self.records and self.records[key].status == "done"]
        timed = [(node, self.records[node.key].seconds) for node in done if self.records[node.key].seconds > 0]
        for node, _ in timed:
            alike = [seconds for other, seconds in timed if (other.kind, other.flops) == (node.kind, node.flops)]
            self._alike[node.kind, node.flops] = median(alike)
        for kind in (PRETRAINING, FINETUNING):
            rates = [
                node.flops / max(seconds - START_SECONDS, 0.1 * seconds) for node, seconds in timed if node.kind == kind and node.flops > 0
            ]
            self._set(kind, rates, "runs of this plan")

    @property
    def basis(self) -> str:
        """What the rates go by."""
        return " and ".join(dict.fromkeys(self._by.values()))

    def seconds(self, node: Node) -> float | None:
        """Of a whole run."""
        if (minutes := _minutes(node)) is not None:
            return 60 * minutes + START_SECONDS
        if (known := self._alike.get((node.kind, node.flops))) is not None:
            return known
        rate = self.rate(node.kind)
        return None if rate is None else START_SECONDS + node.flops / rate

    def rate(self, kind: str) -> float | None:
        """FLOPs a second."""
        if kind not in self._rate:
            self._set(kind, list(_measured(self.runs, kind)), f"earlier runs in {self.runs}")
        if kind not in self._rate:
            peak = _gpu_peak() if _on_gpu(self.plan) else _cpu_peak() / self.jobs
            self._rate[kind] = None if peak is None else peak * _UTILISATION[kind]
            self._by[kind] = "the share of this processor's speed that such runs usually reach"
        return self._rate[kind]

    def _set(self, kind: str, rates: list[float], source: str) -> None:
        if rates:
            self._rate[kind], self._by[kind] = median(rates), source


def _minutes(node: Node) -> float | None:
    """Of a pretraining whose budget is in minutes."""
    given = [word.partition("=")[2] for word in node.overrides if key_of_word(word) == "budget.minutes"]
    return float(given[-1]) if given else None


def _measured(runs: Path, kind: str) -> Iterable[float]:
    """FLOPs a second of the newest finished runs of a kind."""
    found = sorted(runs.glob(f"{kind}-*/result.json"), key=_modified, reverse=True)
    for path in found[:_MOST_RUNS]:
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            flops, seconds = _flops(result, kind), float(result["seconds"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError):
            continue  # of another version, or damaged
        if flops > 0 and seconds > 0:
            yield flops / seconds


def _modified(path: Path) -> float:
    """When a file was written; long ago where it has just been deleted."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _flops(result: Mapping[str, Any], kind: str) -> float:
    """Of a finished run, counted as in a plan."""
    identity = result["identity"]
    architecture = Architecture.from_dict(identity["architecture"])
    if kind == FINETUNING:
        return flops_per_token(architecture, _TYPICAL_LENGTH, 0.0, read_share=1.0) * float(result["tokens"])
    predicted = 1.0 if identity["masking"] is None else float(identity["masking"]["rate"])
    if identity["budget"]["steps"] is None:
        return 0.0
    stages: list[tuple[float, int, int]] = identity["budget"]["stages"]
    return sum(steps * length * sequences * flops_per_token(architecture, length, predicted) for steps, length, sequences in stages)


def _on_gpu(plan: Plan) -> bool:
    words = {word for node in plan.nodes.values() for word in node.overrides}
    if words & {"trainer=gpu", "trainer.accelerator=gpu"} or any(word in words for word in ("scale=gpu_hour", "scale=gpu_day")):
        return True
    return not words & {"trainer=cpu", "trainer.accelerator=cpu"} and shutil.which("nvidia-smi") is not None


def _gpu_peak() -> float | None:
    """Of this machine's GPU in bf16; None where there is none that is known."""
    if shutil.which("nvidia-smi") is None:
        return None
    said = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    names = said.stdout.strip().splitlines()
    if said.returncode != 0 or not names:
        return None
    from bertlab.training.throughput import gpu_peak

    return gpu_peak(names[0], "bf16")


def _cpu_peak() -> float:
    """The best of a few products of 1024 × 1024 matrices, in FLOPs a second."""
    import numpy as np

    size, best = 1024, float("inf")
    left = np.ones((size, size), dtype=np.float32)
    for _ in range(4):
        begin = time.perf_counter()
        left @ left
        best = min(best, time.perf_counter() - begin)
    return 2.0 * size**3 / best
