"""Ctrl-C, remembered: a library that is interrupted while it is imported may raise an error of its own in place of it."""

from __future__ import annotations

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


def _interrupt(signum: int, frame: FrameType | None) -> None:
    _came.set()
    raise KeyboardInterrupt
