"""A few processes that work through a list, report progress, and leave nothing behind whichever way the work ends.

Not ``concurrent.futures``: there a killed process's work is lost or waited for without end, an interruption waits for the running
tasks, and processes outlive a killed parent.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Self

from bertlab.errors import UserError

# A task gets an item and a function to report with how far it has come, in whatever unit; its result goes back to the parent.
Task = Callable[[Any, Callable[[int], None]], Any]


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Up to ``count`` processes, started when there is work for them and ended with the ``with`` block.

    Fewer items than ``count`` get a process each, with several threads of ``tokenizers`` in each.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
        for connection, process in self._processes.items():
            process.join()
            connection.close()
        self._processes.clear()

    def run(self, task: Task, items: Sequence[Any], progress: Callable[[int], None]) -> Iterator[tuple[int, Any]]:
        """Do ``task`` (a function of a module) with each item; yields (index, result) as they finish, in any order.

        An exception of a task is raised here. UserError when a process was killed from outside, most often for its memory.
        """
        if not self._processes:
            self._start(min(self.count, len(items)))
        waiting = deque(enumerate(items))
        at_work = {connection: _send_next(connection, task, waiting) for connection in self._processes if waiting}
        while at_work:
            for ready in multiprocessing.connection.wait(list(at_work)):
                assert isinstance(ready, Connection)
                kind, value = self._receive(ready)
                if kind == "progress":
                    progress(value)
                    continue
                index = at_work.pop(ready)
                if kind == "failed":
                    raise value
                if waiting:
                    at_work[ready] = _send_next(ready, task, waiting)
                yield index, value

    def _start(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads that do not exist in the child
        threads = max(1, self.count // max(1, count))
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, threads), daemon=True)
            with _script_hidden():
                process.start()
            theirs.close()  # so that the child's end closes with the child
            self._processes[ours] = process

    def _receive(self, connection: Connection) -> tuple[str, Any]:
        try:
            message: tuple[str, Any] = connection.recv()
        except (EOFError, ConnectionResetError) as error:
            process = self._processes[connection]
            process.join()
            raise UserError(
                f"A process that was preparing the corpus ended at once ({_how(process.exitcode)}): start the same command again to go on "
                "from there, with more memory or on fewer cores if the machine ran out of memory."
            ) from error
        return message


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Keeps a child from importing the script that runs: it needs nothing of it, and without a ``__main__`` guard would run it anew."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _how(exit_code: int | None) -> str:
    """What an exit code says, in words."""
    if exit_code is not None and exit_code < 0:
        return f"killed by {signal.Signals(-exit_code).name}"
    return f"exit code {exit_code}"


def _send_next(connection: Connection, task: Task, waiting: deque[tuple[int, Any]]) -> int:
    index, item = waiting.popleft()
    connection.send((task, item))
    return index


def _serve(connection: Connection, threads: int) -> None:
    """The child: does tasks until the parent closes its end, in whichever way it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends its children itself
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    try:
        while True:
            task, item = connection.recv()
            connection.send(_outcome(task, item, connection))
    except (EOFError, OSError):
        os._exit(1)


def _outcome(task: Task, item: Any, connection: Connection) -> tuple[str, Any]:
    def report(amount: int) -> None:
        try:
            connection.send(("progress", amount))
        except OSError:
            os._exit(1)  # the parent is gone

    try:
        return "done", task(item, report)
    except (UserError, OSError) as error:
        return "failed", error
    except Exception:
        return "failed", RuntimeError(f"a process that was preparing the corpus failed:\n{traceback.format_exc()}")
