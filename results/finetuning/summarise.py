"""``python results/finetuning/summarise.py runs/`` prints the table of a folder of finished fine-tunings.

A row a task, a column a pre-trained model; a cell is the mean ± the deviation over seeds. Degenerate runs have learned nothing: all their
predictions are alike, or no better than one answer to everything. Both are judged by the predictions, by the bertlab that prints the table.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from bertlab.run_files.folder import from_plain
from bertlab.task_config import TaskConfig
from bertlab.tasks.baseline import constant_metrics
from bertlab.tasks.metrics import nothing_learned
from bertlab.tasks.predictions import read_predictions

TASKS = ("sst2", "mrpc", "rte", "cola", "stsb", "qnli", "mnli", "squad11", "squad20", "swag", "codah", "wnut17")


def read(runs: Path) -> list[dict[str, Any]]:
    found = [(path.parent, json.loads(path.read_text())) for path in sorted(runs.glob("finetune-*/result.json"))]
    return [judged(folder, result) for folder, result in found if result["task"] in TASKS]


def judged(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """A result with what one answer to everything reaches, and whether the run has learned more."""
    described, metric = json.loads((folder / "task.json").read_text()), result["metric"]
    task, predictions = from_plain(TaskConfig, described["task"]), read_predictions(folder / "predictions.jsonl")
    constant = constant_metrics(task, predictions, described["labels"])[metric]
    return result | {"constant": constant, "degenerate": nothing_learned(task, predictions, metric, result["value"], constant)}


def model_of(result: dict[str, Any]) -> str:
    name = str(result["pretrained"]["name"]).removeprefix("pretrain-")
    return f"{name}, random weights" if result["pretrained"]["weights"] == "random" else name


def cell(results: list[dict[str, Any]], most: int) -> str:
    if not results:
        return "–"
    values = [100 * result["value"] for result in results]
    degenerate = sum(result["degenerate"] is not None for result in results)
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    notes = [f"n={len(values)}"] if len(values) < most else []
    notes += [f"{degenerate} degenerate"] if degenerate else []
    return f"{statistics.mean(values):.1f}{spread}" + (f" ({', '.join(notes)})" if notes else "")


def table(results: list[dict[str, Any]]) -> str:
    cells: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        cells[result["task"], model_of(result)].append(result)
    sizes = {model: each[0]["parameters"] for (_, model), each in cells.items()}
    models = sorted(sizes, key=lambda model: ("random" not in model, sizes[model]))
    most = max(len(each) for each in cells.values())
    lines = ["| " + " | ".join(["task", "metric", "one answer to all", *models]) + " |", "|" + "---|" * (3 + len(models))]
    for task in TASKS:
        of_task = [result for model in models for result in cells[task, model]]
        if of_task:
            one = f"{100 * of_task[0]['constant']:.1f}"
            row = [task, of_task[0]["metric"], one, *(cell(cells[task, model], most) for model in models)]
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join([*lines, "", f"Runs per cell: {most}, unless a cell says otherwise."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    print(table(read(parser.parse_args().runs)))


if __name__ == "__main__":
    main()
