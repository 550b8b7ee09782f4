"""A process that has imported everything once, and forks a process for each task: ``python -m bertlab.ablation.template DESCRIPTOR``.

A training's imports take several seconds of a core, which of a grid of small runs would be most of the time. The runs are processes of
their own all the same, and the processes that look after them are, too (see ``runner``): what is shared is what was imported. It is
used on CPUs only; a process that may have touched a GPU must not be forked.

It reads requests from standard input, one JSON object a line, and answers on standard output; both end with the command that wants the
tasks, and so does this process, which has its tasks stop:

    {"start": KEY, "assignment": …, "log": …}   →   {"ended": KEY, "code": …}, some time later
    {"signal": NUMBER, "to": KEY}
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

from bertlab.ablation.executor import Assignment
from bertlab.ablation.runner import STOPPING, Child, ending_with, run_node

PAUSE = 0.05  # seconds between two looks at the tasks
TEMPLATE = (sys.executable, "-m", "bertlab.ablation.template")

# What pretrain and finetune import in their own time.
MODULES = (
    "bertlab.cli",
    "bertlab.commands.pretrain",
    "bertlab.commands.finetune",
    "bertlab.composition",
    "bertlab.data.assembly",
    "bertlab.data.prepare",
    "bertlab.interop.finetuned",
    "bertlab.models.task_model",
    "bertlab.objectives.ltr",
    "bertlab.objectives.mlm",
    "bertlab.objectives.mlm_nsp",
    "bertlab.objectives.rtl",
    "bertlab.tasks.featurise",
    "bertlab.tasks.load",
    "bertlab.tasks.probes.build",
    "bertlab.training.finetune_bookkeeping",
    "bertlab.training.finetune_data",
    "bertlab.training.finetune_model",
    "bertlab.training.finetune_module",
    "bertlab.training.finetune_result",
    "bertlab.training.frozen",
    "bertlab.training.machine",
    "bertlab.training.pretrain_bookkeeping",
    "bertlab.training.wandb_mirror",
)


def import_everything() -> None:
    """Import what trainings need. What this process has not got, a training will miss by itself, and say so."""
    from bertlab.allocator import tune_allocator

    tune_allocator()  # takes effect only before PyTorch is imported
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a forked process would write to, and so copy, every page that is shared


class Template:
    """The tasks of one command."""

    def __init__(self, life: int) -> None:
        """``life``: an open file that ends with the command."""
        self._life = life
        self._tasks: dict[str, int] = {}  # key → process

    def serve(self) -> None:
        """Until the command is gone."""
        rest = b""
        while True:
            if select.select([0], [], [], PAUSE)[0]:
                received = os.read(0, 1 << 16)
                if not received:
                    return
                *lines, rest = (rest + received).split(b"\n")
                for line in lines:
                    self._do(json.loads(line))
            self._report()

    def _do(self, request: dict[str, Any]) -> None:
        if "signal" in request:
            if request["to"] in self._tasks:
                os.kill(self._tasks[request["to"]], request["signal"])
            return
        parent = os.getpid()
        if child := os.fork():
            self._tasks[request["start"]] = child
            return
        _be_a_task(Assignment.from_json(request["assignment"]), request["log"], parent, self._life)

    def _report(self) -> None:
        for key, process in list(self._tasks.items()):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                del self._tasks[key]
                print(json.dumps({"ended": key, "code": os.waitstatus_to_exitcode(status)}), flush=True)


def _be_a_task(assignment: Assignment, log: str, parent: int, life: int) -> NoReturn:
    """What ``python -m bertlab.ablation.runner`` does, in a process that was forked from ``parent``."""
    code = 1
    try:
        os.setsid()
        ending_with(parent)()
        nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        _take_streams(nothing, said, said)
        for descriptor in (nothing, said):
            os.close(descriptor)
        code = run_node(assignment, start_fork, life)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def start_fork(command: Sequence[str], printed: int, said: int, lock: int) -> Child:
    """Start ``command``, which begins with ``executor.BERTLAB``, as a copy of this process."""
    from bertlab.ablation.executor import BERTLAB

    assert tuple(command[: len(BERTLAB)]) == BERTLAB
    ending, parent = ending_with(os.getpid()), os.getpid()
    if process := os.fork():
        return Forked(process)
    try:
        os.setpgid(0, 0)
        for number in STOPPING:
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        ending()
        _take_streams(0, printed, said)  # nothing is to be read
        _be_bertlab(list(command[len(BERTLAB) :]))
    finally:
        assert os.getpid() != parent
        os._exit(1)


def _be_bertlab(words: list[str]) -> NoReturn:
    """What ``python -m bertlab`` does, up to the end of the process."""
    from bertlab.cli import main

    sys.argv = ["bertlab", *words]
    code: Any = 1
    try:
        main(words)
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]  # as at the end of every process: waits for threads,
    atexit._run_exitfuncs()  # and has libraries finish
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _take_streams(*descriptors: int) -> None:
    """Make these the standard input, output and error."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)


class Forked:
    """A process that was forked from this one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or None."""
        if self._code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if found else None
        return self._code

    def send_signal(self, signum: int) -> None:
        """Nothing happens where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)


if __name__ == "__main__":
    import_everything()
    Template(int(sys.argv[1])).serve()
