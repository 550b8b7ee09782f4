"""A view that also has the tables made anew as runs finish, for whoever looks into their folder while a cluster works."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from bertlab.ablation.live_view import View
from bertlab.ablation.run_states import RunState, State
from bertlab.errors import UserError

PAUSE = 30.0  # seconds between two times at least
SHARE = 0.1  # of the time at most that goes into it


class Rebuilding:
    """Shows through another view, and calls ``rebuild`` some time after runs have finished."""

    def __init__(self, view: View, rebuild: Callable[[], None], pause: float = PAUSE) -> None:
        self._view, self._rebuild, self._pause = view, rebuild, pause
        self._new = False
        self._not_before = 0.0

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._view.__exit__(kind, error, trace)

    def changed(self, run: RunState, runs: list[RunState]) -> None:
        """A run that is done is news for the tables, and so is one that failed."""
        self._new = self._new or run.state in (State.DONE, State.FAILED)
        self._view.changed(run, runs)

    def show(self, runs: list[RunState]) -> None:
        """Show, and rebuild where there is news and the last time is long enough ago."""
        self._view.show(runs)
        if not self._new or time.monotonic() < self._not_before:
            return
        self._new, begin = False, time.monotonic()
        with suppress(UserError, OSError):  # said when the table is made in the end
            self._rebuild()
        end = time.monotonic()
        self._not_before = end + max(self._pause, (end - begin) / SHARE)

    def stopping(self, running: int, *, at_once: bool) -> None:
        """As the other view does."""
        self._view.stopping(running, at_once=at_once)
