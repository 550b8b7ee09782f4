"""Behaves like ``bertlab pretrain`` and ``bertlab finetune`` as far as a grid can see, in milliseconds.

Of the overrides it understands: name, steps (each takes ``pause`` seconds, and is saved), fail (a sentence), kill (a signal to itself),
ignore (SIGTERM), mute (no result). All processes write to a journal what they do; a second process on one run says TWICE there.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    verb, *words = sys.argv[1:]
    values = dict(word.split("=", 1) for word in words)
    runs = Path(unquoted(values["paths.runs"]))
    folder = runs / f"{verb}-fake-{values['name']}"
    folder.mkdir(parents=True, exist_ok=True)

    def journal(what: str) -> None:
        with (runs / "journal").open("a") as file:
            file.write(f"{what} {values['name']} {os.getpid()}\n")

    journal("begin")
    if (folder / "result.json").exists():
        print(folder)
        return
    holder = (folder / "holder").open("a+")
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        journal("TWICE")
    holder.truncate(0)
    holder.write(str(os.getpid()))
    holder.flush()
    (folder / "started_from").write_text(unquoted(values.get("checkpoint", values.get("init", '""'))))
    (folder / "environment").write_text(json.dumps(dict(os.environ)))
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "ignore" in values else lambda number, frame: stopped.append(number))
    if "kill" in values:
        os.kill(os.getpid(), int(values["kill"]))
    saved, steps, pause = folder / "saved", int(values.get("steps", 1)), float(values.get("pause", 0))
    first = int(saved.read_text()) if saved.exists() else 0
    resumed = f", resumed after step {first}" if first else ""
    print(f"{folder.name}: 1,234 parameters, {steps} steps{resumed}", file=sys.stderr, flush=True)
    for step in range(first + 1, steps + 1):
        time.sleep(pause)
        with (folder / "throughput.jsonl").open("a") as file:
            file.write(json.dumps({"step": step, "seconds": step * pause, "tokens_per_second": 1000.0}) + "\n")
        temporary = folder / "saved.part"
        temporary.write_text(str(step))
        temporary.rename(saved)
        if stopped:
            journal("stopped")
            sys.exit(143)
    if "fail" in values:
        print(f"step 1 (100%) · loss 1.000\nbertlab: {values['fail']}", file=sys.stderr)
        journal("failed")
        sys.exit(1)
    if "mute" not in values:
        (folder / "result.json").write_text("{}")
    journal("end")
    print("something else")
    print(folder)


def unquoted(value: str) -> str:
    """What stands between double quotes; a backslash counts double before one of them and in the end."""
    return re.sub(r'(\\*)(\\"|\Z)', lambda found: found[1][: len(found[1]) // 2] + found[2][1:], value[1:-1])


if __name__ == "__main__":
    main()
