"""Progress bars on standard error, where that is a terminal; nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


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


@contextmanager
def progress_bar(title: str, sizes: float, enabled: bool) -> Iterator[Bar]:
    """A ``Bar``, drawn with its rate in MB/s and the time left if ``enabled`` and standard error is a terminal."""
    if not (enabled and sys.stderr.isatty()):
        yield Bar(sizes)
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
