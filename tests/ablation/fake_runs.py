"""A table with its manifest, records and run folders, as a grid would leave them; nothing is trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bertlab.ablation.graph import FINETUNING, PRETRAINING, CellPlan, Node, Record
from bertlab.ablation.grid import Column, Grid, Row, Seeds
from bertlab.ablation.manifest import Made, Manifest, write_manifest
from bertlab.ablation.records import write_record
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Prediction
from bertlab.tasks.metrics import metrics_of
from bertlab.tasks.predictions import write_predictions

STEPS = 1000
EXAMPLES = 200
LABELS = ["no", "yes"]
OBJECTIVES = {"bert": "mlm_nsp", "no_nsp": "mlm", "ltr": "ltr"}


@dataclass
class FakeTable:
    """What a table is made of; ``skills`` are probabilities of a right prediction, by row and column."""

    runs: Path
    rows: dict[str, Row] = field(
        default_factory=lambda: {
            "bert": Row("bert", "BERT", ("objective=mlm_nsp",)),
            "no_nsp": Row("no_nsp", "No NSP", ("objective=mlm",)),
            "ltr": Row("ltr", "LTR & No NSP", ("objective=ltr",)),
            "random": Row("random", "Random weights", random=True),
        }
    )
    columns: dict[str, Column] = field(
        default_factory=lambda: {
            "mnli": Column("mnli", "MNLI", "mnli", "accuracy"),
            "mrpc": Column("mrpc", "MRPC", "mrpc", "f1"),
            "perplexity": Column("perplexity", "Perplexity", held_out="perplexity"),
        }
    )
    skills: dict[tuple[str, str], float] = field(
        default_factory=lambda: {
            ("bert", "mnli"): 0.84, ("no_nsp", "mnli"): 0.82, ("ltr", "mnli"): 0.65, ("random", "mnli"): 0.5,
            ("bert", "mrpc"): 0.75, ("no_nsp", "mrpc"): 0.74, ("ltr", "mrpc"): 0.72, ("random", "mrpc"): 0.7,
        }
    )  # fmt: skip
    published: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {
            "bert": {"mnli": 84.4, "mrpc": 86.7}, "no_nsp": {"mnli": 83.9, "mrpc": 86.5}, "ltr": {"mnli": 82.1, "mrpc": 77.5},
        }
    )  # fmt: skip
    seeds: int = 3
    points: tuple[float, ...] = ()
    show: str = "mean"
    title: str = "Effect of the pre-training tasks"
    notes: tuple[str, ...] = ("Budget: every row is pre-trained on the same 1,000,000 positions.", "Seeds: 3 of pre-training.")
    nodes: dict[str, Node] = field(default_factory=dict)
    cells: dict[tuple[str, str, float | None], list[str]] = field(default_factory=dict)
    collapses: set[str] = field(default_factory=set)  # fine-tunings that predict one class

    def manifest(self) -> Manifest:
        """Of this table, with nothing run."""
        if not self.cells:
            self._plan()
        grid = Grid(
            "table5", Path("table5.yaml"), self.title, "Devlin et al. 2018, table 5", self.rows, self.columns, "bert",
            random={row.name: "random" for row in self.rows.values() if not row.random and not row.published_only},
            published=self.published, seeds=Seeds("both", self.seeds), points=self.points, show=self.show, baselines=("bert",),
        )  # fmt: skip
        cells = tuple(CellPlan(row, column, tuple(keys), point) for (row, column, point), keys in self.cells.items())
        made = Made("bertlab ablate --grid table5 --scale smoke", "2026-01-01T00:00:00Z", "0.1.0", "0123456789ab", "Linux x86_64")
        return Manifest("table5", "smoke", grid, self.notes, cells, self.nodes, made)

    def write(self, *, leave: Sequence[str] = (), fail: Sequence[str] = ()) -> Manifest:
        """Write the manifest, and the folders and records of all runs but those of the keys to ``leave`` and to ``fail``."""
        manifest = self.manifest()
        write_manifest(self.runs, manifest)
        for key, node in self.nodes.items():
            if key in fail:
                write_record(self.runs, Record(key, "failed", "", "step 20: the loss is nan\nlower optimizer.lr", 3.0))
            elif key not in leave:
                folder = self.runs / f"{node.kind}-fake-{key}"
                folder.mkdir(parents=True, exist_ok=True)
                (self._pretrain if node.kind == PRETRAINING else self._finetune)(node, folder)
                write_record(self.runs, Record(key, "done", str(folder), seconds=60.0))
        return manifest

    def _plan(self) -> None:
        for seed in range(1, self.seeds + 1):
            for row in self.rows.values():
                if not row.published_only:
                    self._plan_row(row, seed)

    def _plan_row(self, row: Row, seed: int) -> None:
        source = f"p-{'bert-1' if row.random else f'{row.name}-{seed}'}"
        if not row.random:
            self._node(Node(source, PRETRAINING, (*row.pretrain, f"seed={seed}"), seed, flops=1e12, label=f"{row.name}, seed {seed}"))
        for column in self.columns.values():
            if column.held_out is not None:
                if not row.random:
                    self.cells.setdefault((row.name, column.name, None), []).append(source)
                continue
            for point in self.points if self.points and not row.random else (None,):
                key = f"f-{row.name}-{column.name}-{seed}" + ("" if point is None else f"-{point:g}")
                step = None if point is None or point == 1 else round(point * STEPS)
                words = (f"task={column.task}", *(["weights=random"] if row.random else []), f"seed={seed}")
                label = f"{column.name} of {row.name}, seed {seed}"
                self._node(Node(key, FINETUNING, words, seed, source, step, flops=1e10, label=label))
                self.cells.setdefault((row.name, column.name, point), []).append(key)

    def _node(self, node: Node) -> None:
        self.nodes[node.key] = node

    def _pretrain(self, node: Node, folder: Path) -> None:
        objective = OBJECTIVES.get(node.key.split("-")[1], "mlm")
        rows = []
        random = np.random.default_rng(len(node.key) + node.seed)
        for step in range(50, STEPS + 1, 50):
            loss = 9.0 - 2.5 * (step / STEPS) ** 0.4 + 0.05 * random.standard_normal()
            rows.append({"step": step, "split": "train", "positions": step * 1000, "length": 32, "language_loss": loss, "accuracy": 0.1})
            if step % 200 == 0:
                held_out = {"language_loss": loss + 0.1, "accuracy": 0.1, "perplexity": float(np.exp(loss + 0.1))}
                rows += [{"step": step, "split": "held_out", "length": length, **held_out} for length in (32, 128)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        write_yaml(
            folder / "config.yaml",
            {"objective": {"kind": objective}, "seed": node.seed, "optimizer": {"lr": 0.001}, "paths": {"runs": "x"}},
        )
        figures = {key: rows[-1][key] for key in ("language_loss", "accuracy", "perplexity")}
        write_json_file(folder / "result.json", {**common(folder), "identity": pretraining_identity(objective, node.seed), "steps": STEPS,
            "positions": STEPS * 1000, "tokens": STEPS * 980, "held_out": {"32": figures, "128": figures}})  # fmt: skip

    def _finetune(self, node: Node, folder: Path) -> None:
        _, row, column, *_ = node.key.split("-")
        kept = 1.0 if node.step is None else node.step / STEPS
        skill = 0.5 + (self.skills[row, column] - 0.5) * kept**0.3
        random = np.random.default_rng([node.seed, sum(map(ord, row)), sum(map(ord, column)), int(100 * kept)])
        gold = np.random.default_rng(7).random(EXAMPLES) < 0.6
        right = random.random(EXAMPLES) < np.clip(skill + 0.01 * random.standard_normal(), 0, 1)
        said = np.where(right, gold, ~gold) if node.key not in self.collapses else np.ones(EXAMPLES, bool)
        predictions = [Prediction(str(place), LABELS[int(said[place])], LABELS[int(gold[place])]) for place in range(EXAMPLES)]
        task = TaskConfig(name=column, kind="classification", metrics=["accuracy"], labels=LABELS)
        write_predictions(folder / "predictions.jsonl", predictions)
        write_json_file(folder / "task.json", {"task": asdict(task), "labels": LABELS})
        words = {"head": {"bilstm": row == "ltr"}, "tuning": {"epochs": 3.0}, "seed": node.seed, "checkpoint": "somewhere"}
        write_yaml(folder / "config.yaml", words)
        metrics = metrics_of(task, predictions, LABELS)
        degenerate = "all 200 predictions are 'yes'" if node.key in self.collapses else None
        write_json_file(folder / "result.json", {**common(folder), "task": column, "kind": "classification", "split": "dev",
            "metric": "accuracy", "value": metrics["accuracy"], "metrics": {"dev": metrics}, "degenerate": degenerate, "tokens": 5000,
            "data": {"fingerprint": f"data of {column}"}, "seed": node.seed})  # fmt: skip


def pretraining_identity(objective: str, seed: int, **changes: Any) -> dict[str, Any]:
    """As result.json of a pretraining has it."""
    masked = objective.startswith("mlm")
    architecture = {"vocab_size": 8192, "layers": 2, "hidden": 128, "heads": 2, "intermediate": 512, "positions": 512}
    masking = {"rate": 0.15, "mask": 0.8, "keep": 0.1, "random": 0.1, "zero": 0.0, "noise": 0.0, "whole_word": False}
    return {
        "kind": "pretrain", "architecture": {**architecture, "attention": "bidirectional" if masked else "causal"},
        "objective": {"kind": objective, "pair": objective == "mlm_nsp"}, "masking": masking if masked else None,
        "corpus": {"content": "c0", "held_out": 0.05}, "vocabulary": "v0",
        "budget": {"steps": STEPS, "minutes": None, "stages": [[900, 32, 32], [100, 128, 8]]},
        "validation": {"sequences": 512}, "seed": seed, **changes,
    }  # fmt: skip


def common(folder: Path) -> dict[str, Any]:
    """What every result says."""
    versions = {"bertlab": "0.1.0", "torch": "2.13.0", "python": "3.11.7"}
    return {"id": folder.name, "seconds": 50.0, "device": "x86_64", "versions": versions, "finished": "2026-01-01T01:00:00Z"}


def write_json_file(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def write_yaml(path: Path, value: Any) -> None:
    path.write_text(yaml.safe_dump(value))
