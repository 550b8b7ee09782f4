"""Ctrl-C, remembered: a library that is interrupted while it is imported may raise an error of its own in place of it."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

_came = threading.Event()


def remember() -> None:
    """From now on Ctrl-C raises ``KeyboardInterrupt``, as ever, and ``came`` knows of it. Handlers of others stay."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def came() -> bool:
    """Whether Ctrl-C came, so that an error that follows is none."""
    return _came.is_set()


def is_a_repetition(signum: int) -> bool:
    """Whether a second signal to stop is the first one once more, and does not insist.

    SLURM sends SIGTERM to every process of a job, those that look after a run pass theirs on, and of processes on several nodes each gets
    it on both ways. What does not end in time is killed by SLURM.
    """
    return signum == signal.SIGTERM and "SLURM_JOB_ID" in os.environ


def _interrupt(signum: int, frame: FrameType | None) -> None:
    _came.set()
    raise KeyboardInterrupt
