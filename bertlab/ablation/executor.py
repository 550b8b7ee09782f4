"""What runs tasks: the one interface behind which local processes stand, or a cluster's queue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Handle = Any  # an executor's own word for a task that it was given


@dataclass(frozen=True)
class Task:
    """A command that runs one node wherever the runs' folder is in reach.

    It takes the node's lock, starts the run, and keeps the record, so that the record is written also where nobody waits for it any
    more. Of the exit code only ``runner.BUSY`` says more than the record.
    """

    key: str  # of the node
    title: str  # for people, and for a queue's list of jobs
    command: tuple[str, ...]
    log: Path


class Executor(Protocol):
    """Runs tasks. Nothing here waits: ``execute`` asks from time to time."""

    @property
    def words(self) -> tuple[str, ...]:
        """Overrides of both verbs for the machine that tasks run on, such as ``trainer.threads=1``."""

    @property
    def pause(self) -> float:
        """Seconds between two rounds of asking."""

    def capacity(self) -> int:
        """How many more tasks it takes now."""

    def submit(self, task: Task) -> Handle:
        """Start a task, or queue it; where a queue still holds the task of an earlier call, that one is meant."""

    def poll(self, handle: Handle) -> int | None:
        """The exit code of a task that has ended (of one that a signal ended: minus its number), or None."""

    def cancel(self, handle: Handle, *, at_once: bool) -> None:
        """Have a task stop: its run saves its state first, or, ``at_once``, does not. ``poll`` tells when it has."""

    def close(self) -> None:
        """Nothing more will be asked for; all tasks have ended."""
