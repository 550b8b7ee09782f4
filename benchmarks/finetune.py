"""Fine-tuning by `bertlab finetune` against a plain loop over Hugging Face transformers' model: seconds of training, accuracy on dev.

    python benchmarks/finetune.py PEER RUN --glue DIR                              SST-2 and MRPC, one epoch, three rounds
    python benchmarks/finetune.py PEER RUN --glue DIR --task mrpc --epochs 3 --lr 5e-4 --rounds 5

PEER is a program that fine-tunes what AutoModelForSequenceClassification loads and prints one JSON line with ``train_s`` and
``dev_accuracy`` (it takes --model, --train, --dev, --text, --pair, --label, --epochs, --batch, --lr, --seed and --group-by-
length). RUN is a masked-LM run of bertlab's, which is exported for it. The three programs (the peer, the peer with --group-by-
length, bertlab) run in turns, each time in a process of its own, each round with another seed, on the same rows, with dropout
0.1. Seconds are those of the training loop alone on all sides: tokenised beforehand, evaluation left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Task:
    """Where the files of a task are and what their columns are called."""

    folder: str
    columns: tuple[str, ...]  # as the peer's arguments


TASKS = {
    "sst2": Task("SST-2", ("--text", "sentence", "--label", "label")),
    "mrpc": Task("MRPC", ("--text", "#1 String", "--pair", "#2 String", "--label", "Quality")),
}


@dataclass(frozen=True)
class Outcome:
    """What one fine-tuning took and reached."""

    seconds: float
    accuracy: float


def export(run: str, folder: Path) -> None:
    """The run in the peer's format, with dropout 0.1 whatever it was pre-trained with."""
    subprocess.run([sys.executable, "-m", "bertlab", "export", run, "--to", str(folder)], check=True, capture_output=True, text=True)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    (folder / "config.json").write_text(json.dumps(config))


def peer(arguments: argparse.Namespace, task: Task, data: Path, model: Path, seed: int, *extra: str) -> Outcome:
    command = [sys.executable, str(arguments.peer), "--model", str(model), *task.columns, *extra]
    command += ["--train", str(data / "train.tsv"), "--dev", str(data / "dev.tsv"), "--epochs", str(arguments.epochs)]
    command += ["--batch", "32", "--lr", str(arguments.lr), "--seed", str(seed), "--threads", str(arguments.threads)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures = json.loads(printed.strip().splitlines()[-1])
    return Outcome(figures["train_s"], figures["dev_accuracy"])


def own(arguments: argparse.Namespace, name: str, data: Path, seed: int, runs: Path) -> Outcome:
    command = [sys.executable, "-m", "bertlab", "finetune", f"task={name}", f"task.path={data}", f"checkpoint={arguments.run}"]
    command += ["dropout=0.1", "attention_dropout=0.1", "optimizer=adamw", f"optimizer.lr={arguments.lr}", "optimizer.warmup=0.1"]
    command += [f"tuning.epochs={arguments.epochs}", "tuning.batch=32", "tuning.select=last", f"seed={seed}", "trainer=cpu"]
    command += [f"trainer.threads={arguments.threads}", "logger=none", f"paths.runs={runs}"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result = json.loads((Path(printed.strip().splitlines()[-1]) / "result.json").read_text())
    return Outcome(result["seconds"], result["metrics"]["dev"]["accuracy"])


def shortened(source: Path, folder: Path, limit: int) -> Path:
    """A copy of the task's files with the first ``limit`` rows of training; all of them if 0."""
    for name in ("train.tsv", "dev.tsv"):
        lines = (source / name).read_bytes().split(b"\n")
        (folder / name).write_bytes(b"\n".join(lines[: limit + 1] if limit and name == "train.tsv" else lines))
    return folder


def compare(arguments: argparse.Namespace, name: str, model: Path) -> dict[str, list[Outcome]]:
    """Every program's outcomes, a round each."""
    task = TASKS[name]
    found: dict[str, list[Outcome]] = {"transformers": [], "transformers, by length": [], "bertlab": []}
    with tempfile.TemporaryDirectory() as folder:
        data = shortened(arguments.glue / task.folder, Path(folder), arguments.limit)
        for seed in range(1, arguments.rounds + 1):
            found["transformers"].append(peer(arguments, task, data, model, seed))
            found["bertlab"].append(own(arguments, name, data, seed, Path(folder) / "runs"))
            found["transformers, by length"].append(peer(arguments, task, data, model, seed, "--group-by-length"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", type=Path)
    parser.add_argument("run", help="the checkpoint")
    parser.add_argument("--glue", type=Path, required=True, help="the folder with SST-2 and MRPC")
    parser.add_argument("--task", action="append", choices=list(TASKS))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--limit", type=int, default=0, help="rows of training; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    table = Table("task", "program", "seconds", "bertlab is faster by", "dev accuracy, mean ± deviation")
    with tempfile.TemporaryDirectory() as folder:
        export(arguments.run, Path(folder))
        for name in arguments.task or list(TASKS):
            outcomes = compare(arguments, name, Path(folder))
            ours = statistics.median(outcome.seconds for outcome in outcomes["bertlab"])
            for program, each in outcomes.items():
                seconds = statistics.median(outcome.seconds for outcome in each)
                accuracies = [outcome.accuracy for outcome in each]
                spread = f" ± {statistics.stdev(accuracies):.3f}" if len(each) > 1 else ""
                row = (name, program, f"{seconds:.1f}", f"{seconds / ours:.2f}", f"{statistics.mean(accuracies):.3f}{spread}")
                print(*row, flush=True)
                table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
