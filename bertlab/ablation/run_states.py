"""Where each run of a plan stands while the plan is carried out: what the execution changes and a view shows."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum

from bertlab.ablation.graph import Node
from bertlab.ablation.run_progress import Progress


class State(Enum):
    """What can be said of a run."""

    WAITING = "waiting"
    QUEUED = "queued"  # a cluster's queue has it, and it has not begun
    RUNNING = "running"
    ELSEWHERE = "running elsewhere"  # by another command, whose record is waited for
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "not runnable"  # what it starts from failed


ENDED = (State.DONE, State.FAILED, State.BLOCKED)


@dataclass
class RunState:
    """One run."""

    node: Node
    state: State = State.WAITING
    reason: str = ""  # why it failed, or is not runnable
    found: bool = False  # it was done before
    begun_at: float | None = None  # on the monotonic clock, by this command
    first_share: float | None = None  # how much of it was done when it was first heard of
    seconds: float | None = None  # that it took this command
    progress: Progress = field(default_factory=Progress)

    @property
    def title(self) -> str:
        """The run in words."""
        return f"{self.node.kind} {self.node.label or next(iter(self.node.wanted_by), self.node.key)}"

    @property
    def elapsed(self) -> float:
        """Seconds since this command began it."""
        return 0.0 if self.begun_at is None else time.monotonic() - self.begun_at

    def note(self, progress: Progress) -> None:
        """Take over how far it has come."""
        self.progress = progress
        if self.first_share is None and progress.begun:
            self.first_share = progress.share


def count(runs: list[RunState], *states: State) -> int:
    """How many runs are in one of the ``states``."""
    return sum(run.state in states for run in runs)
