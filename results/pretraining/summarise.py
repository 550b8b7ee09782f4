"""The table and the curves of a folder of finished pre-training runs, from the runs' own files.

    python results/pretraining/summarise.py runs/ --plot results/pretraining/curves.svg > results/pretraining/table.md

Masked and left-to-right perplexities measure different things: they stand in different columns and in different panels.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

ORDER = ("mlm_nsp", "mlm", "mlm-batch", "mlm-bilstm", "mlm-cbow", "ltr", "ltr-bilstm", "ltr-cbow", "rtl")


def read(folder: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    model, name = folder.name.removeprefix("pretrain-").rsplit("-", 1)[0].split("-", 1)
    return {"model": model, "name": name, "rows": [row for row in rows if row["split"] == "held_out"], "result": result}


def label(run: dict[str, Any]) -> str:
    name: str = run["name"].replace("-", " ")
    return name if run["model"] == "tiny" else f"{run['model']} {name}"


def is_masked(name: str) -> bool:
    return name.startswith("mlm")


def cell(held_out: dict[str, Any], length: str) -> str:
    return f"{math.exp(held_out[length]['language_loss']):.1f}" if length in held_out else "–"


def table(runs: list[dict[str, Any]]) -> str:
    lengths = sorted({length for run in runs for length in run["result"]["held_out"]}, key=int)
    kinds = [f"{kind}, {length}" for kind in ("masked", "left to right") for length in lengths]
    head = ["run", *kinds, f"NSP accuracy, {lengths[-1]}", "parameters", "million positions"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for run in runs:
        held_out, empty = run["result"]["held_out"], ["–"] * len(lengths)
        cells = [cell(held_out, length) for length in lengths]
        figures = cells + empty if is_masked(run["name"]) else empty + cells
        nsp = held_out[lengths[-1]].get("nsp_accuracy")
        shown = [label(run), *figures, "–" if nsp is None else f"{nsp:.1%}"]
        shown += [f"{run['result']['parameters']:,}", f"{run['result']['positions'] / 1e6:.1f}"]
        lines.append("| " + " | ".join(shown) + " |")
    unigram = [f"{run['result']['unigram_perplexity']:.1f}" for run in runs][:1]
    return "\n".join([*lines, "", f"Word frequencies alone (unigram): perplexity {unigram[0]}."])


def plot(runs: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "bertlab"  # the same figure gives the same file
    lengths = sorted({row["length"] for run in runs for row in run["rows"]})
    chosen = [lengths[0], lengths[-1]]
    figure, axes = plt.subplots(2, len(chosen), figsize=(11, 8), sharex=True, layout="constrained")
    for line, masked in enumerate((True, False)):
        for axis, length in zip(axes[line], chosen, strict=True):
            for run in runs:
                if is_masked(run["name"]) != masked:
                    continue
                points = [row for row in run["rows"] if row["length"] == length]
                per_step = run["result"]["positions"] / run["result"]["steps"] / 1e6
                x = [row["step"] * per_step for row in points]
                axis.plot(x, [math.exp(row["language_loss"]) for row in points], marker=".", label=label(run))
            axis.axhline(runs[0]["result"]["unigram_perplexity"], color="grey", linestyle="--", label="unigram")
            axis.set(yscale="log", title=f"{'masked words' if masked else 'next words'}, length {length}", ylabel="held-out perplexity")
            axis.legend(fontsize="small")
            axis.grid(alpha=0.3, which="both")
    for axis in axes[-1]:
        axis.set_xlabel("million positions")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    runs = [read(result.parent) for result in sorted(arguments.runs.glob("pretrain-*/result.json"))]
    runs.sort(key=lambda run: (run["model"] != "tiny", ORDER.index(run["name"]) if run["name"] in ORDER else len(ORDER)))
    print(table(runs))
    if arguments.plot:
        plot(runs, arguments.plot)


if __name__ == "__main__":
    main()
