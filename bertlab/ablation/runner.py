"""The process that looks after one run: ``python -m bertlab.ablation.runner ASSIGNMENT``.

It takes the node's lock, starts the run's command, passes signals on, and writes the record of how it ended. It is a process of its own,
small and without PyTorch, so that the record is written also when the run is killed for its memory, and also when the grid's command is
gone (a cluster's queue starts it on another machine). What must not happen is a run that nobody looks after, or two of the same:

- The grid's command is killed: the pipe from it ends, and the run is asked to save its state and stop.
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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from bertlab.ablation.failures import reason_of
from bertlab.ablation.graph import FINETUNE, Node, Record
from bertlab.ablation.locking import NodeLock
from bertlab.ablation.records import read_record, record_path, write_record
from bertlab.ablation.run_progress import tail
from bertlab.errors import UserError

DONE, FAILED, BUSY, STOPPED = 0, 1, 75, 143  # exit codes; BUSY: another process has the node's lock
PATIENCE = 1.0  # seconds in which a lock may be held by someone who only looks whether it is
PAUSE = 0.1  # seconds between two looks at the run
LOG_TAIL = 16 * 1024  # bytes at the end of a log in which the reason of a failure stands
_ASK, _TERMINATE = signal.SIGTERM, signal.SIGKILL
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, from Linux's prctl.h


@dataclass(frozen=True)
class Assignment:
    """A node and what of it depends on the machine."""

    node: Node
    runs: Path  # absolute
    words: tuple[str, ...]  # overrides that come after the node's own
    program: tuple[str, ...]  # what the verb and the overrides are given to
    grace: float  # seconds from asking a run to stop until it is killed
    watched: bool  # standard input ends when whoever wants the run is gone

    def to_json(self) -> str:
        """As the process's argument."""
        return json.dumps({**asdict(self), "runs": str(self.runs)})

    @classmethod
    def from_json(cls, text: str) -> Assignment:
        """The same back."""
        values = json.loads(text)
        node = Node(**{**values["node"], "overrides": tuple(values["node"]["overrides"]), "wanted_by": tuple(values["node"]["wanted_by"])})
        return cls(node, Path(values["runs"]), tuple(values["words"]), tuple(values["program"]), values["grace"], values["watched"])


def log_path(runs: Path, key: str) -> Path:
    """Where a node's command writes what it has to say."""
    return runs / "grid" / f"{key}.log"


def command_of(assignment: Assignment) -> list[str]:
    """The run's whole command.

    Raises:
        UserError: what it starts from is not there.
    """
    node, runs = assignment.node, assignment.runs
    source = [] if node.source is None else [override("checkpoint" if node.kind == FINETUNE else "init", _source(node, runs))]
    return [*assignment.program, node.kind, *node.overrides, *source, override("paths.runs", str(runs)), *assignment.words]


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
            f"{record.folder} has not kept its weights of step {node.step:,} ({path.name}): delete that folder, and the next call trains "
            "it again and keeps them."
        )
    return str(path)


def override(key: str, value: str) -> str:
    """``key=value`` in Hydra's grammar, quoted, for a path may hold blanks, commas and brackets.

    Quotes are escaped, and backslashes where they stand before one; elsewhere they are themselves.
    """
    escaped = re.sub(r'(\\*)("|\Z)', lambda found: 2 * found[1] + ('\\"' if found[2] else ""), value)
    return f'{key}="{escaped}"'


def run_node(assignment: Assignment) -> int:
    """Run a node unless that is done, and keep its record; returns one of the exit codes above."""
    key, runs = assignment.node.key, assignment.runs
    with NodeLock(runs, key) as lock:
        if not lock.acquire(PATIENCE):
            return BUSY
        known = read_record(runs, key)
        if known is not None and known.status == "done":
            return DONE
        record_path(runs, key).unlink(missing_ok=True)  # of an earlier failure: this is a new try
        begin = time.monotonic()
        try:
            record = _run(assignment, lock)
        except (UserError, OSError) as error:
            record = Record(key, "failed", "", str(error))
        if record is None:
            return STOPPED
        write_record(runs, Record(key, record.status, record.folder, record.reason, round(time.monotonic() - begin, 3)))
        return DONE if record.status == "done" else FAILED


def _run(assignment: Assignment, lock: NodeLock) -> Record | None:
    """Run the node's command to its end; None when it was asked to stop before that."""
    node, log = assignment.node, log_path(assignment.runs, assignment.node.key)
    command = command_of(assignment)
    heading = f"$ {shlex.join(command)}\n"
    log.write_text(heading)
    with log.open("ab") as said, tempfile.TemporaryFile() as printed:
        code, stopped = _look_after(command, said, printed, lock, assignment)
        printed.seek(0)
        lines = printed.read().decode(errors="replace").split("\n")
    folder = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if code == 0 and (Path(folder) / "result.json").is_file():
        return Record(node.key, "done", folder)
    if stopped:
        return None
    said_last = tail(log, LOG_TAIL).removeprefix(heading)
    if code == 0:
        said_last = f"It ended without a result in {folder or 'any folder'}. {said_last}".strip()
    return Record(node.key, "failed", folder, reason_of(code, said_last, node.kind))


def _look_after(command: list[str], said: BinaryIO, printed: Any, lock: NodeLock, assignment: Assignment) -> tuple[int, bool]:
    """Start ``command`` and wait for its end; returns its exit code, and whether it was asked to stop."""
    stop = _Stop(watched=assignment.watched)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=said,
        pass_fds=(lock.descriptor,),
        process_group=0,
        preexec_fn=_ending_with(os.getpid()),
    )
    deadline = None
    while (code := process.poll()) is None:
        if stop.asked and deadline is None:
            process.send_signal(_ASK)  # the run's first process saves the state and ends the others
            deadline = time.monotonic() + assignment.grace
        if deadline is not None and (stop.insisted or time.monotonic() > deadline):
            _end_group(process.pid)
        stop.wait(PAUSE)
    if code != 0:
        _end_group(process.pid)  # what a killed process has left running
    return code, stop.asked


def _end_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # there is nothing left of it (macOS says EPERM of a group of zombies)
        os.killpg(group, _TERMINATE)


class _Stop:
    """Whether the run is to stop: a signal came, or the pipe from whoever wants it has ended. SIGINT, or a second signal, insists."""

    def __init__(self, *, watched: bool) -> None:
        self.asked = self.insisted = False
        self._watched = watched
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.insisted, self.asked = self.insisted or self.asked or signum == signal.SIGINT, True

    def wait(self, seconds: float) -> None:
        """Until something may have happened, or for some ``seconds``."""
        if not self._watched:
            time.sleep(seconds)
            return
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        if ready and not os.read(sys.stdin.fileno(), 1):
            self.asked, self._watched = True, False


def _ending_with(parent: int) -> Callable[[], None] | None:
    """What the run's process does before it becomes the command: ask the system to stop it when ``parent`` is gone."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, int(_ASK))
        if os.getppid() != parent:  # it was gone before that
            os._exit(128 + _ASK)

    return prepare


if __name__ == "__main__":
    sys.exit(run_node(Assignment.from_json(sys.argv[1])))
