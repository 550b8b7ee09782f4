"""What a person sees while a plan is carried out: in a terminal a picture that changes, in a log a line for whatever happens."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bertlab.ablation.graph import Plan
from bertlab.ablation.run_states import ENDED, RunState, State, count
from bertlab.ablation.time_left import seconds_left, seconds_left_of, share_done
from bertlab.counting import counted
from bertlab.messages import say
from bertlab.training.progress import duration

SECONDS_BETWEEN_LINES = 300.0  # in which nothing happens, before a log is told that all is well
MOST_RUNNING = 16  # runs that are shown; where there are more, their number is
_ACTIVE = (State.RUNNING, State.ELSEWHERE)


class View(Protocol):
    """Shows the execution of a plan, from the beginning of a ``with`` block to its end."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leave the screen as it should stay."""

    def changed(self, run: RunState, runs: list[RunState]) -> None:
        """``run``, one of ``runs``, has another state."""

    def show(self, runs: list[RunState]) -> None:
        """About once a second."""

    def stopping(self, running: int, *, at_once: bool) -> None:
        """A signal came, and ``running`` tasks are asked to stop."""


def view_of(plan: Plan) -> View:
    """The view that suits standard error."""
    console = Console(stderr=True)
    return LiveView(console, _title(plan)) if console.is_terminal else LogView(_title(plan))


def _title(plan: Plan) -> str:
    return ", ".join(plan.cells) or "runs"


class LogView:
    """Lines on standard error."""

    def __init__(self, title: str = "runs") -> None:
        self._title = title
        self._said_at: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def changed(self, run: RunState, runs: list[RunState]) -> None:
        """A line for it."""
        if line := event(run, runs):
            self._say(line)

    def show(self, runs: list[RunState]) -> None:
        """A line in the beginning, and where nothing happened for long."""
        if self._said_at is None:
            self._say(f"{self._title}: {summary(runs)}")
        elif time.monotonic() - self._said_at > SECONDS_BETWEEN_LINES:
            running = "; ".join(f"{run.title}: {_how_far(run)}" for run in runs if run.state in _ACTIVE)
            self._say(f"{summary(runs)} · {running}")

    def stopping(self, running: int, *, at_once: bool) -> None:
        """A line for it."""
        self._say(stopping_line(running, at_once=at_once))

    def _say(self, line: str) -> None:
        self._said_at = time.monotonic()
        say(line)


class LiveView:
    """A bar for the whole, one for each run that goes on, and above them what failed. rich honours NO_COLOR."""

    def __init__(self, console: Console, title: str = "runs") -> None:
        self._title = title
        self._begin = time.monotonic()
        self._console = console
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    def changed(self, run: RunState, runs: list[RunState]) -> None:
        """Failures stay on the screen; everything else is in the picture."""
        if run.state is State.FAILED:
            self._print(event(run, runs))
        self.show(runs)

    def show(self, runs: list[RunState]) -> None:
        """Draw the picture anew."""
        self._live.update(self.picture(runs), refresh=True)

    def stopping(self, running: int, *, at_once: bool) -> None:
        """A line for it."""
        self._print(stopping_line(running, at_once=at_once))

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def picture(self, runs: list[RunState]) -> RenderableType:
        """Everything, as it is now."""
        heading = Text.assemble((self._title, "bold"), f" · {summary(runs)}", no_wrap=True, overflow="ellipsis")
        return Group(heading, self._whole(runs), self._running([run for run in runs if run.state in _ACTIVE]))

    def _whole(self, runs: list[RunState]) -> RenderableType:
        share, left = share_done(runs), seconds_left(runs)
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True, justify="right")
        words = [f"{share:.0%}", f"for {duration(time.monotonic() - self._begin)}"]
        words += [] if left is None else [f"about {duration(left)} left"]
        grid.add_row(ProgressBar(total=1.0, completed=share), " · ".join(words))
        return grid

    @staticmethod
    def _running(runs: list[RunState]) -> RenderableType:
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
        grid.add_column(width=12)
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
        for run in runs[:MOST_RUNNING]:
            grid.add_row(Text(f"  {run.title}"), ProgressBar(total=1.0, completed=run.progress.share, width=12), Text(_how_far(run)))
        if len(runs) > MOST_RUNNING:
            grid.add_row(Text(f"  and {len(runs) - MOST_RUNNING} more"), "", "")
        return grid


def event(run: RunState, runs: list[RunState]) -> str:
    """A line for what has become of ``run``; nothing where that is no news."""
    if run.state is State.RUNNING:
        return f"begun: {run.title}"
    if run.state is State.QUEUED:
        return ""  # it waits; the summary counts such
    if run.state is State.ELSEWHERE:
        return f"another command runs it: {run.title}"
    if run.state is State.DONE:
        took = "" if run.seconds is None else f" in {duration(run.seconds)}"
        left = seconds_left(runs)
        time_left = "" if left is None or all(each.state in ENDED for each in runs) else f"; about {duration(left)} left"
        return f"done ({count(runs, State.DONE)} of {len(runs)}){took}: {run.title}{time_left}"
    if run.state in (State.FAILED, State.BLOCKED):
        return f"{run.state.value}: {run.title}\n" + "\n".join(f"    {line}" for line in run.reason.splitlines())
    return ""


def summary(runs: list[RunState]) -> str:
    """``12 of 40 runs done · 2 running · 25 waiting · 1 failed``."""
    words = [f"{count(runs, State.DONE)} of {counted(len(runs), 'run')} done"]
    words += [f"{number} {state.value}" for state in State if state is not State.DONE and (number := count(runs, state))]
    return " · ".join(words)


def stopping_line(running: int, *, at_once: bool) -> str:
    """What is said when a signal came."""
    runs = counted(running, "run")
    return f"Ending {runs} at once." if at_once else f"Stopping: {runs} save their state. A second signal ends them at once."


def _how_far(run: RunState) -> str:
    """``56% · 12,300 tokens/s · 2 min 10 s left``; before that, what the run says itself."""
    progress = run.progress
    if not progress.begun:
        return progress.note if progress.note and not progress.note.startswith("$ ") else "starting"
    words = [f"{progress.share:.0%}"]
    words += [] if progress.rate is None else [f"{progress.rate:,.0f} tokens/s"]
    left = seconds_left_of(run)
    return " · ".join([*words, *([] if left is None else [f"{duration(left)} left"])])
