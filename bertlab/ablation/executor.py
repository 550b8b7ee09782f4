"""What runs tasks: the one interface behind which local processes stand, or a cluster's queue."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from bertlab.ablation.graph import Node

BERTLAB = (sys.executable, "-m", "bertlab")
RUNNER = (sys.executable, "-m", "bertlab.ablation.runner")
BUSY = 75  # the exit code of a task that left its node to another process, which has the lock

Handle = Any  # an executor's own word for a task that it was given


@dataclass(frozen=True)
class Assignment:
    """A node to be run, and what of that depends on the machine."""

    node: Node
    runs: Path  # absolute
    words: tuple[str, ...]  # overrides that come after the node's own
    program: tuple[str, ...] = BERTLAB  # what the verb and the overrides are given to
    grace: float = 60.0  # seconds from asking the run to stop until it is killed

    def to_json(self) -> str:
        """As an argument of a process."""
        return json.dumps({**asdict(self), "runs": str(self.runs)})

    @classmethod
    def from_json(cls, text: str) -> Assignment:
        """The same back."""
        values = json.loads(text)
        node = Node(**{**values["node"], "overrides": tuple(values["node"]["overrides"]), "wanted_by": tuple(values["node"]["wanted_by"])})
        return cls(node, Path(values["runs"]), tuple(values["words"]), tuple(values["program"]), values["grace"])


@dataclass(frozen=True)
class Task:
    """A command that runs one node wherever the runs' folder is in reach.

    It takes the node's lock, starts the run, and keeps the record, so that the record is written also where nobody waits for it any
    more. Of the exit code only ``BUSY`` says more than the record.
    """

    key: str  # of the node
    title: str  # for people, and for a queue's list of jobs
    assignment: Assignment
    log: Path

    @property
    def command(self) -> tuple[str, ...]:
        """To be run in a process of its own, in this process's working directory."""
        return (*RUNNER, self.assignment.to_json())


class Executor(Protocol):
    """Runs tasks. Nothing here waits: ``execute`` asks from time to time."""

    @property
    def is_queue(self) -> bool:
        """Whether tasks are kept by a queue: they may be given before what they start from is done, and go on when this process ends."""

    @property
    def words(self) -> tuple[str, ...]:
        """Overrides of both verbs for the machine that tasks run on, such as ``trainer.threads=1``."""

    @property
    def pause(self) -> float:
        """Seconds between two rounds of asking."""

    def capacity(self) -> int:
        """How many more tasks it takes now."""

    def find(self, key: str) -> Handle | None:
        """The task of an earlier call for a node; only a queue knows of any, also of such as have ended."""

    def submit(self, tasks: Sequence[Task]) -> list[Handle]:
        """Start tasks, or queue them, each after the one of what it starts from."""

    def poll(self, handle: Handle) -> int | None:
        """The exit code of a task that has ended (of one that a signal ended: minus its number), or None."""

    def begun(self, handle: Handle) -> bool:
        """Whether a task that has not ended runs; otherwise it waits."""

    def how_it_ended(self, handle: Handle) -> str:
        """In words, of a task that has ended and whose run has left none: ``SIGKILL``, ``exit code 1``."""

    def cancel(self, handle: Handle, *, at_once: bool) -> None:
        """Have a task stop: its run saves its state first, or, ``at_once``, does not. ``poll`` tells when it has."""

    def close(self) -> None:
        """Nothing more will be asked for. All tasks have ended, but for those that a queue keeps."""
