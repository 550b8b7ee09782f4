"""Being asked to stop: the first signal lets the running step finish and the state be saved, the second one ends at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from bertlab.interruption import is_a_repetition, note

# What asks a training to stop: Ctrl-C, whoever ends processes, a terminal that is gone, a cluster's queue before its time limit.
_ASKING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
_MAY_BE_IGNORED = ("SIGHUP", "SIGUSR1")  # nohup has the first ignored: a run that was started so outlives its terminal


class StopRequest:
    """Within its ``with`` block the signals that ask to stop are noted in ``signum`` and not acted on; a second one ends the process."""

    def __init__(self) -> None:
        self.signum = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
            self._previous = {number: signal.signal(number, self._note) for number in _to_be_noted()}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum and is_a_repetition(signum):
            return
        if self.signum:
            os._exit(128 + signum)
        self.signum = signum
        note(signum)
        # print() could find the stream locked by the very code that the signal interrupted.
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"\nStopping after this step; once more ends at once.\n")


def _to_be_noted() -> list[signal.Signals]:
    """Those of the signals that this system has and that are not ignored on purpose."""
    there = {name: getattr(signal, name) for name in _ASKING if hasattr(signal, name)}
    return [number for name, number in there.items() if name not in _MAY_BE_IGNORED or signal.getsignal(number) is not signal.SIG_IGN]
