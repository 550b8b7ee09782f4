"""How far a run in another process has come, by the log of its command and the rows in its folder."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOG_TAIL = 64 * 1024  # bytes at a log's end that are looked at; mostly a log has a few thousand, and what is sought stands at its end
ROWS_TAIL = 4096  # bytes in which the last row of a file of rows ends

# What pretrain and finetune say when their training begins: "pretrain-tiny-mlm-0123abcd: …, 60 steps, resumed after step 20".
_BEGUN = re.compile(
    r"^(?P<name>(?:pretrain|finetune)-\S+): .*?(?P<count>\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?) (?P<unit>step|minute)s?"
    r"(?:, resumed after step (?P<first>\d[\d,]*))?$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    begun: bool = False  # its training has: before that corpora and tasks are prepared
    share: float = 0.0  # of the training
    rate: float | None = None  # tokens a second
    note: str = ""  # the last line that it said


def read_progress(log: Path, runs: Path) -> Progress:
    """How far the run has come whose command writes to ``log``. Files that are missing or torn say nothing."""
    text = tail(log, LOG_TAIL)
    note = next((line.strip() for line in reversed(re.split(r"[\n\r]", text)) if line.strip()), "")
    announced = list(_BEGUN.finditer(text))
    if not announced:
        return Progress(note=note)
    begun = announced[-1]
    whole = float(begun["count"].replace(",", ""))
    done = float((begun["first"] or "0").replace(",", "")) if begun["unit"] == "step" else 0.0
    row = _last_row(runs / begun["name"] / "throughput.jsonl")
    if row:
        done = max(done, float(row["step"] if begun["unit"] == "step" else row["seconds"] / 60))
    rate = row.get("tokens_per_second")
    return Progress(begun=True, share=min(1.0, done / max(whole, 1e-9)), rate=None if rate is None else float(rate), note=note)


def tail(path: Path, size: int) -> str:
    """The last ``size`` bytes of a file as text; nothing where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _last_row(path: Path) -> dict[str, Any]:
    for line in reversed(tail(path, ROWS_TAIL).split("\n")[:-1]):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and {"step", "seconds"} <= row.keys():
            return row
    return {}
