"""What a person sees while a run trains: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PARTS = 1000  # the bar's resolution: a run with a budget of time has no number of steps


def say(line: str) -> None:
    """Print a line to standard error, where everything goes that is not the command's result."""
    print(line, file=sys.stderr, flush=True)


class ProgressDisplay:
    """A bar with loss, tokens a second and the time left, or, where standard error is no terminal, about ten lines a run.

    ``shown=False`` shows neither. The bar is drawn twice a second by its own thread, so a step pays next to nothing for it. rich
    honours NO_COLOR.
    """

    def __init__(self, shown: bool, begun: float = 0.0, title: str = "training") -> None:
        """``begun``: the share of the run that is already behind, where it resumes."""
        self.console = Console(stderr=True)
        self._shown = shown
        self._tenth = int(10 * begun)
        self._text = ""
        self._begin = time.monotonic()
        self._begun = begun
        self._bar: Progress | None = None
        if shown and self.console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TaskProgressColumn(),
                TextColumn("{task.fields[text]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(compact=True, elapsed_when_finished=False),
                console=self.console,
                refresh_per_second=2,
                transient=True,
            )
            self._task = self._bar.add_task(title, total=PARTS, completed=int(PARTS * begun), text="")
            self._bar.start()

    @property
    def say(self) -> Callable[[str], None]:
        """Prints a line to standard error, above the bar where there is one."""
        console = self.console
        return say if self._bar is None else lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True)

    def advance(self, share: float) -> None:
        """Move to ``share`` of the run, 0 to 1. Called every step."""
        if self._bar is not None:
            self._bar.update(self._task, completed=PARTS * share)

    def describe(self, step: int, share: float, loss: float, tokens_per_second: float) -> None:
        """Show the newest figures. Called at logged steps."""
        self._text = f"loss {loss:.3f} · {tokens_per_second:,.0f} tokens/s"
        if self._bar is not None:
            self._bar.update(self._task, description=f"step {step:,}", text=self._text)
        elif self._shown and int(10 * share) > self._tenth:
            self._tenth = int(10 * share)
            left = (time.monotonic() - self._begin) * (1.0 - share) / max(share - self._begun, 1e-9)
            say(f"step {step:,} ({share:.0%}) · {self._text} · {duration(left)} left")

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def duration(seconds: float) -> str:
    """``3 h 05 min``, ``4 min 10 s`` or ``12 s``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_left:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
