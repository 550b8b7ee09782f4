"""Being asked to stop: the first signal lets the running step finish and the state be saved, the second one ends at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """Within its ``with`` block SIGINT and SIGTERM are noted in ``signum`` and not acted on; a second one ends the process."""

    def __init__(self) -> None:
        self.signum = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
            self._previous = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum:
            os._exit(128 + signum)
        self.signum = signum
        # print() could find the stream locked by the very code that the signal interrupted.
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"\nStopping after this step; once more ends at once.\n")
