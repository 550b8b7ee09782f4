"""Being asked to stop, remembered for those that the asking does not reach.

A library that Ctrl-C interrupts while it is imported may raise an error of its own in place of it; and a training that was about to end
when it was asked ends as ever, but the next one is not to begin.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

_came = threading.Event()
_noted: list[int] = []


def remember() -> None:
    """From now on Ctrl-C raises ``KeyboardInterrupt``, as ever, and ``came`` knows of it. Handlers of others stay."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def came() -> bool:
    """Whether Ctrl-C came, so that an error that follows is none."""
    return _came.is_set()


def note(signum: int) -> None:
    """A training was asked to stop by this signal and will do so by itself. Safe in a signal's handler."""
    _noted.append(signum)


def noted() -> int:
    """The signal of the last ``note`` since ``forget``; 0 for none."""
    return _noted[-1] if _noted else 0


def forget() -> None:
    """What was noted concerned a command that has ended."""
    _noted.clear()


def is_a_repetition(signum: int) -> bool:
    """Whether a second signal to stop is the first one once more, and does not insist.

    SLURM sends SIGTERM to every process of a job, those that look after a run pass theirs on, and of processes on several nodes each gets
    it on both ways. What does not end in time is killed by SLURM.
    """
    return signum == signal.SIGTERM and "SLURM_JOB_ID" in os.environ


def _interrupt(signum: int, frame: FrameType | None) -> None:
    _came.set()
    raise KeyboardInterrupt
