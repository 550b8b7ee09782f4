"""The whole `bertlab pretrain` command against a plain loop over Hugging Face transformers' model: the ratio of positions a second.

    python benchmarks/pretrain.py PEER --text DIR --vocab VOCAB.txt                  every line of the table
    python benchmarks/pretrain.py PEER --text DIR --vocab VOCAB.txt --only tiny-128-30522 --rounds 5

PEER is a program that trains transformers' BertForPreTraining and prints one JSON line with ``positions_per_s`` (it takes --size,
--seq, --batch, --vocab, --steps and --threads). DIR holds WikiExtractor text; VOCAB.txt is the WordPiece vocabulary of 30,522 words,
and the smaller one is trained on DIR. The two programs run in turns, each time in a process of its own: A B A B … Ours counts
everything that the command does in training (Lightning, making batches, logging), with masked words and next sentences, dropout
0.1, fp32; evaluating and saving are left out. benchmarks/step.py shows that both compute the same loss.
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

STEPS = {"tiny": 30, "mini": 15, "small": 8}  # timed in a round
SKIPPED = 10  # first steps of our command that are not timed


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    size: str
    length: int
    sequences: int
    vocab: int

    @property
    def name(self) -> str:
        """What ``--only`` takes."""
        return f"{self.size}-{self.length}-{self.vocab}"


LINES = [Line(size, *shape, vocab) for size in STEPS for shape in ((128, 32), (512, 8)) for vocab in (30522, 8192)]


def peer_rate(line: Line, arguments: argparse.Namespace) -> float:
    command = [sys.executable, str(arguments.peer), "--size", line.size, "--seq", str(line.length), "--batch", str(line.sequences)]
    command += ["--vocab", str(line.vocab), "--steps", str(max(4, STEPS[line.size] // 3)), "--threads", str(arguments.threads)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(printed.strip().splitlines()[-1])["positions_per_s"])


def own_rate(line: Line, arguments: argparse.Namespace) -> float:
    """Positions a second of the command in steady state: the median of windows of a few steps."""
    every = max(2, STEPS[line.size] // 6)
    with tempfile.TemporaryDirectory() as runs:
        vocabulary = [f"tokenizer.vocab_size={line.vocab}"]
        if line.vocab == 30522:
            vocabulary = ["tokenizer=file", f"tokenizer.path={arguments.vocab.absolute()}"]
        command = [sys.executable, "-m", "bertlab", "pretrain", "scale=laptop", "lengths=constant", "logger=none", *vocabulary]
        command += [f"model={line.size}", "model.dropout=0.1", "model.attention_dropout=0.1", "optimizer=bert_adam"]
        command += [f"batch.sequences={line.sequences}", f"batch.length={line.length}", f"budget.steps={SKIPPED + STEPS[line.size]}"]
        command += [
            "corpus=wikiextractor",
            f"corpus.path={arguments.text.absolute()}",
            "validation.sequences=2",
            "validation.every=1000000",
        ]
        command += [f"trainer.log_every={every}", f"trainer.threads={arguments.threads}", "trainer=cpu", f"paths.runs={runs}"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        folder = Path(printed.strip().splitlines()[-1])
        rows = [json.loads(row) for row in (folder / "throughput.jsonl").read_text().splitlines()]
    return statistics.median(row["positions_per_second"] for row in rows if row["step"] > SKIPPED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--vocab", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=[line.name for line in LINES])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [line for line in LINES if not arguments.only or line.name in arguments.only]
    table = Table(
        "size, length x batch, vocabulary", "transformers positions/s", "bertlab positions/s", "ratio", "lowest and highest ratio"
    )
    for line in chosen:
        peer, own = [], []
        for _ in range(arguments.rounds):
            peer.append(peer_rate(line, arguments))
            own.append(own_rate(line, arguments))
        ratios = [ours / theirs for ours, theirs in zip(own, peer, strict=True)]
        medians = statistics.median(peer), statistics.median(own)
        row = (f"{line.size} {line.length}x{line.sequences}, {line.vocab}", f"{medians[0]:.0f}", f"{medians[1]:.0f}")
        table.add_row(*row, f"{medians[1] / medians[0]:.2f}", f"{min(ratios):.2f} – {max(ratios):.2f}")
        print(*row, f"ratio {medians[1] / medians[0]:.2f} ({min(ratios):.2f} – {max(ratios):.2f})", flush=True)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
