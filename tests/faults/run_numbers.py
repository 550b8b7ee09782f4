"""What a run has to end with, whatever happened to it on the way."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from changing import Killed, stop_at

from bertlab.messages import complain

# Of result.json, what does not depend on the machine and the hour.
_RESULT = (
    "id",
    "identity",
    "steps",
    "positions",
    "tokens",
    "parameters",
    "held_out",
    "unigram_perplexity",
    "metrics",
    "value",
)


def numbers(folder: Path) -> dict[str, Any]:
    """The bytes of weights, metrics and predictions, and the figures of the result."""
    files = ("model.safetensors", "metrics.jsonl", "predictions.jsonl")
    result = json.loads((folder / "result.json").read_text())
    return {name: (folder / name).read_bytes() for name in files if (folder / name).is_file()} | {
        key: result[key] for key in _RESULT if key in result
    }


def only_run(runs: Path | str) -> Path:
    """The one run's folder in ``runs``."""
    (folder,) = (path for path in Path(runs).iterdir() if path.name != "grid")
    return folder


def sentence_of(error: BaseException) -> str:
    """What the command line says of an error; it has to be a sentence."""
    said = io.StringIO()
    with redirect_stderr(said):
        complain(error)
    line, rest = said.getvalue().split("\n", 1)
    assert not rest, said.getvalue()  # else a traceback: told as a mistake of ours
    return line.removeprefix("bertlab: ")


def killed_after(step: int, run: Callable[[], Path], runs: Path | str) -> Path:
    """Have ``run`` end after a step as a kill would end it; the folder of the run, which is the only one in ``runs``."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(step, Killed(), patch)
        with pytest.raises(Killed):
            run()
    return only_run(runs)
