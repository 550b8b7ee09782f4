"""How far a reading of the corpus has come: a bar on standard error where that is a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 30.0


class Bar:
    """How far a reading of the corpus has come, in characters; how many there are in all is learned from the pieces that are finished."""

    def __init__(self, sizes: float) -> None:
        """``sizes`` is the sum of the sizes of all pieces, in any unit that is roughly proportional to their text."""
        self.characters = 0
        self._sizes = sizes
        self._finished_sizes = 0.0
        self._finished_at = 0

    def advance(self, characters: int) -> None:
        """Count characters that were read."""
        self.characters += characters

    def finish(self, size: float) -> None:
        """Note that a piece of this ``size`` is finished."""
        self._finished_sizes += size
        self._finished_at = self.characters

    @property
    def total(self) -> float:
        """The expected number of characters."""
        if not self._finished_sizes:
            return max(self._sizes, self.characters)
        return max(self._sizes * self._finished_at / self._finished_sizes, self.characters)


class SpokenBar(Bar):
    """One that says a line every half minute, for logs."""

    def __init__(self, title: str, sizes: float, say: Callable[[str], None]) -> None:
        super().__init__(sizes)
        self._title, self._say = title, say
        self._begin = self._said_at = time.monotonic()

    def advance(self, characters: int) -> None:
        """Count characters that were read, and say so if it is time."""
        super().advance(characters)
        now = time.monotonic()
        if now - self._said_at < SECONDS_BETWEEN_LINES:
            return
        self._said_at = now
        rate = max(self.characters, 1) / (now - self._begin)
        share, left = self.characters / max(self.total, 1), (self.total - self.characters) / rate
        self._say(f"{self._title}: {share:.0%}, {rate / 1e6:.1f} MB/s, about {left / 60:.0f} min left")


@contextmanager
def progress_bar(title: str, sizes: float, enabled: bool, say: Callable[[str], None]) -> Iterator[Bar]:
    """A ``Bar``; if ``enabled``, drawn with its rate in MB/s and the time left where standard error is a terminal, else a ``SpokenBar``."""
    if not enabled:
        yield Bar(sizes)
        return
    if not sys.stderr.isatty():
        yield SpokenBar(title, sizes, say)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        line = display.add_task(title, total=sizes)

        class _Drawn(Bar):
            def advance(self, characters: int) -> None:
                super().advance(characters)
                display.update(line, completed=self.characters, total=self.total)

        yield _Drawn(sizes)
