"""Why a run failed, in a few lines: the sentence that its command ended with, not the progress before it."""

from __future__ import annotations

import os
import re
import signal

from bertlab.ablation.graph import PRETRAINING
from bertlab.training.memory import RAN_OUT, SIGNS

MOST_LINES = 8

_COLORS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SENTENCE = re.compile(r"^bertlab: (?!warning: |job \d+ of )(?P<sentence>.*)$")
_PROGRESS = re.compile(r"^(step [\d,]+ \(\d+%\) · |[\w ]+: \d+%, [\d.]+ MB/s, |wandb: )")


def reason_of(code: int, log: str, kind: str) -> str:
    """Why a run of this ``kind`` failed whose command ended with the exit ``code`` (minus the signal's number) and said ``log``."""
    said = last_words(log)
    if code == -signal.SIGKILL:
        return f"It was killed (SIGKILL), which is what a system does when its memory runs out: {_what_to_lower(kind)}."
    if code < 0:
        return f"It was ended by {signal_name(-code)}{_after(said)}"
    if code - 128 in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        return f"It was stopped from outside ({signal_name(code - 128)}); its state is saved, and the same command goes on from there."
    if said.startswith(RAN_OUT):  # what to lower in the run is said; what a grid can do is not
        return f"{said}\nFewer runs at once (--jobs) leave more memory to each."
    if SIGNS.search(said):
        return f"{said}\n{RAN_OUT}: {_what_to_lower(kind)}."
    return said or f"It ended with exit code {code} and said nothing."


def last_words(log: str) -> str:
    """The sentence of a mistake where the log ends with one; else its last lines, without progress and colors."""
    lines = [line.rstrip() for line in re.split(r"[\n\r]", _COLORS.sub("", log))]
    lines = [line for line in lines if line.strip() and not _PROGRESS.match(line.strip())]
    for place in range(len(lines) - 1, max(-1, len(lines) - 1 - MOST_LINES), -1):
        if match := _SENTENCE.match(lines[place]):
            return "\n".join([match["sentence"], *lines[place + 1 :]])
    return "\n".join(lines[-MOST_LINES:])


def signal_name(number: int) -> str:
    """SIGSEGV of 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_in_words(code: int) -> str:
    """``SIGKILL`` or ``exit code 1``: of a process that a signal ended the code is minus its number, of a shell's 128 more than it."""
    if code < 0 or code > 128:
        return signal_name(-code if code < 0 else code - 128)
    return f"exit code {code}"


def _what_to_lower(kind: str) -> str:
    micro, batch = ("batch.micro", "batch.sequences") if kind == PRETRAINING else ("tuning.micro", "tuning.batch")
    first = "give jobs more of it (launcher.memory)" if "SLURM_JOB_ID" in os.environ else "run fewer at once (--jobs)"
    return f"{first}, or set {micro} to a part of {batch}"


def _after(said: str) -> str:
    return f" after saying:\n{said}" if said else "."
