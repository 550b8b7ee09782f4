"""The process that looks after one run: ``python -m bertlab.ablation.runner ASSIGNMENT [DESCRIPTOR]``.

It takes the node's lock, starts the run's command, passes signals on, and writes the record of how it ended. It is a process of its own,
small and without PyTorch, so that the record is written also when the run is killed for its memory, and also when the grid's command is
gone (a cluster's queue starts it on another machine). What must not happen is a run that nobody looks after, or two of the same:

- The grid's command is killed: a pipe from it (DESCRIPTOR) ends, and the run is asked to save its state and stop.
- This process is killed: the system sends the run the same signal (Linux).
- In both cases the run holds the lock until it has ended, so the next command waits for it.

SIGTERM has the run save its state and end, and be killed where it does not in time; SIGINT, or a second SIGTERM, kills it at once.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Protocol

from bertlab.ablation.executor import BUSY, Assignment
from bertlab.ablation.failures import reason_of
from bertlab.ablation.graph import FINETUNING, Node, Record
from bertlab.ablation.locking import NodeLock
from bertlab.ablation.records import read_record, record_path, write_record
from bertlab.ablation.run_progress import tail
from bertlab.errors import UserError
from bertlab.interruption import is_a_repetition
from bertlab.patience import lock_seconds

DONE, FAILED, STOPPED = 0, 1, 143  # exit codes, besides BUSY
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATIENCE = 1.0  # seconds in which a lock may be held by someone who only looks whether it is
PAUSE = 0.1  # seconds between two looks at the run
LOG_TAIL = 16 * 1024  # bytes at the end of a log in which the reason of a failure stands
_ASK = signal.SIGTERM
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, from Linux's prctl.h


def log_path(runs: Path, key: str) -> Path:
    """Where a node's command writes what it has to say."""
    return runs / "grid" / f"{key}.log"


def command_of(assignment: Assignment) -> list[str]:
    """The run's whole command.

    Raises:
        UserError: what it starts from is not there.
    """
    node, runs = assignment.node, assignment.runs
    source = [] if node.source is None else [override("checkpoint" if node.kind == FINETUNING else "init", _source(node, runs))]
    words = [*node.overrides, *source, override("paths.runs", str(runs)), *assignment.words]
    return [*assignment.program, node.kind, *{word.lstrip("+").partition("=")[0]: word for word in words}.values()]  # of a key the last


def _source(node: Node, runs: Path) -> str:
    """The weights that a node starts from: a run's folder, or a file of kept weights in it. UserError where they are not there."""
    assert node.source is not None
    record = read_record(runs, node.source)
    if record is None or record.status != "done":
        raise UserError("The pretraining that it starts from is not done.")
    if node.step is None:
        return record.folder
    path = Path(record.folder) / "checkpoints" / f"step-{node.step:09d}.safetensors"
    if not path.is_file():
        raise UserError(
            f"{record.folder} has not kept its weights of step {node.step:,} ({path.name}): delete that folder, and the next call repeats "
            "the run to keep them."
        )
    return str(path)


def override(key: str, value: str) -> str:
    """``key=value`` in Hydra's grammar, quoted, for a path may hold blanks, commas and brackets.

    Quotes are escaped, and backslashes where they stand before one; elsewhere they are themselves.
    """
    escaped = re.sub(r'(\\*)("|\Z)', lambda found: 2 * found[1] + ('\\"' if found[2] else ""), value)
    return f'{key}="{escaped}"'


def run_node(assignment: Assignment, start: Start, life: int | None = None) -> int:
    """Run a node unless that is done, and keep its record; returns one of the exit codes above.

    Args:
        assignment: what is to be run.
        start: how a command becomes a process.
        life: an open file that ends when whoever wants the run is gone.
    """
    key, runs = assignment.node.key, assignment.runs
    with NodeLock(runs, key) as lock:
        if not lock.acquire(lock_seconds(PATIENCE)):
            return BUSY
        known = read_record(runs, key)
        if known is not None and known.status == "done":
            return DONE
        record_path(runs, key).unlink(missing_ok=True)  # of an earlier failure: this is a new try
        begin = time.monotonic()
        try:
            record = _run(assignment, lock, start, life)
        except (UserError, OSError) as error:
            record = Record(key, "failed", "", str(error))
        if record is None:
            return STOPPED
        write_record(runs, replace(record, seconds=round(max(time.monotonic() - begin, _trained_seconds(record)), 3)))
        return DONE if record.status == "done" else FAILED


def _trained_seconds(record: Record) -> float:
    """What a run that is done has trained, in all the processes that it had: this one may have found it all but finished."""
    try:
        return float(json.loads((Path(record.folder) / "result.json").read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def _run(assignment: Assignment, lock: NodeLock, start: Start, life: int | None) -> Record | None:
    """Run the node's command to its end; None when it was asked to stop before that."""
    node, log = assignment.node, log_path(assignment.runs, assignment.node.key)
    command = command_of(assignment)
    heading = f"$ {shlex.join(command)}\n"
    log.write_text(heading)
    with log.open("ab") as said, tempfile.TemporaryFile() as printed:
        stop = _Stop(life)
        child = start(command, printed.fileno(), said.fileno(), lock.descriptor)
        code = _look_after(child, stop, assignment.grace)
        printed.seek(0)
        lines = printed.read().decode(errors="replace").split("\n")
    folder = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if code == 0 and (Path(folder) / "result.json").is_file():
        return Record(node.key, "done", folder)
    if stop.asked:
        return None
    said_last = tail(log, LOG_TAIL).removeprefix(heading)
    if code == 0:
        said_last = f"It ended without a result in {folder or 'any folder'}. {said_last}".strip()
    return Record(node.key, "failed", folder, reason_of(code, said_last, node.kind))


def _look_after(child: Child, stop: _Stop, grace: float) -> int:
    """Wait for the run's end, and bring it about where that is asked for; returns its exit code."""
    deadline = None
    while (code := child.poll()) is None:
        if stop.asked and deadline is None:
            child.send_signal(_ASK)  # the run's first process saves the state and ends the others
            deadline = time.monotonic() + grace
        if deadline is not None and (stop.insisted or time.monotonic() > deadline):
            _end_group(child.pid)
        stop.wait(PAUSE)
    if code != 0:
        _end_group(child.pid)  # what a killed process has left running
    return code


def _end_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # there is nothing left of it (macOS says EPERM of a group of zombies)
        os.killpg(group, signal.SIGKILL)


class _Stop:
    """Whether the run is to stop: a signal came, or whoever wants it is gone. SIGINT, or a second signal, insists."""

    def __init__(self, life: int | None) -> None:
        self.asked = self.insisted = False
        self._life = life
        for number in STOPPING:
            signal.signal(number, self._note)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        again = self.asked and not is_a_repetition(signum)
        self.insisted, self.asked = self.insisted or again or signum == signal.SIGINT, True

    def wait(self, seconds: float) -> None:
        """Until something may have happened, or for some ``seconds``."""
        if self._life is None:
            time.sleep(seconds)
        elif select.select([self._life], [], [], seconds)[0]:  # nothing is ever written to it: this is its end
            self.asked, self._life = True, None


class Child(Protocol):
    """A process that was started, the first of a process group of its own."""

    @property
    def pid(self) -> int:
        """Its number, and its group's."""

    def poll(self) -> int | None:
        """Its exit code, minus a signal's number where one ended it; None while it runs."""

    def send_signal(self, signum: int) -> None:
        """Send it a signal."""


# Starts a command with the descriptors of its standard output and error, and of a lock that it holds as long as it lives.
Start = Callable[[Sequence[str], int, int, int], Child]


def start_command(command: Sequence[str], printed: int, said: int, lock: int) -> Child:
    """Start it as a new program."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=said,
        pass_fds=(lock,),
        process_group=0,
        preexec_fn=ending_with(os.getpid()),
    )


def ending_with(parent: int) -> Callable[[], None]:
    """What a process calls that is to be asked to stop when its ``parent`` is gone; only Linux can do that, elsewhere it does nothing."""
    prctl = None
    if sys.platform.startswith("linux"):
        import ctypes

        prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        if prctl is not None:
            prctl(_SET_PARENT_DEATH_SIGNAL, int(_ASK))
            if os.getppid() != parent:  # it was gone before that
                os._exit(128 + _ASK)

    return prepare


if __name__ == "__main__":
    sys.exit(run_node(Assignment.from_json(sys.argv[1]), start_command, int(sys.argv[2]) if len(sys.argv) > 2 else None))
