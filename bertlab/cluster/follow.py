"""Showing what jobs say until they end. Nothing of the jobs hangs on it: who follows may leave at any moment, and follow again."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bertlab.cluster import queue
from bertlab.cluster.queue import JobState, QueueSilent
from bertlab.cluster.reasons import explained
from bertlab.cluster.submission import Element, End
from bertlab.messages import say

LOOK_SECONDS = 0.5  # between two looks at logs and ends, which are files
QUEUE_SECONDS = 10.0  # between two questions to SLURM, which has many others to answer
BEFORE = 2000  # bytes of a log that are shown of what was said before this command began to follow


class Follower:
    """Shows one job."""

    def __init__(self, element: Element, prefix: str = "", *, begun: bool = False, ended: bool = False) -> None:
        """Of a job that was ``begun`` by an earlier call only the last of what it has said is shown, of one that had ``ended`` nothing."""
        self.element, self._prefix = element, prefix
        self.ended, self.how = ended, ""  # how, where the job has left no word of its end: SLURM's word
        size = element.log.stat().st_size if begun and element.log.is_file() else 0
        self._place, self._torn = max(0, size - BEFORE), size > BEFORE
        self._said, self._missed = "", 0

    @property
    def end(self) -> End | None:
        """How the command ended, once it has; None where it was stopped."""
        return self.element.end

    def look(self) -> None:
        """Show what is new in the log, and find out whether that was all."""
        over = self.end is not None
        self._show_log()
        self.ended = self.ended or over

    def note(self, state: JobState | None) -> None:
        """Take what SLURM says of the job: twice that it is gone, for the job's own word of its end may come a little later."""
        if state is None or state.ended:
            self._missed += 1
            self.how = "gone from the queue" if state is None else state.state
            if self._missed > 1:
                self.ended = True
                self._show_log()
            return
        self._missed, self.how = 0, ""
        reason = f" ({state.reason}){explained(state.reason)}" if state.reason not in ("", "None") else ""
        said = f"waits{reason}" if state.waits else ""
        if said and said != self._said:
            say(f"{self._prefix}job {self.element.job} {said}")
        self._said = said

    def _show_log(self) -> None:
        try:
            with self.element.log.open("rb") as log:
                log.seek(self._place)
                new = log.read()
        except OSError:
            return
        whole = new if self.ended or self.end is not None else new[: new.rfind(b"\n") + 1]
        self._place += len(whole)
        lines = whole.decode(errors="replace").splitlines()[1 if self._torn else 0 :]
        self._torn = self._torn and not whole
        for line in lines:
            print(f"{self._prefix}{line}", file=sys.stderr, flush=True)


def follow(followers: Sequence[Follower]) -> None:
    """Show what jobs say until all have ended."""
    asked_at = -QUEUE_SECONDS
    while True:
        for follower in followers:
            if not follower.ended:
                follower.look()
        open_ones = [follower for follower in followers if not follower.ended]
        if not open_ones:
            return
        if time.monotonic() - asked_at > QUEUE_SECONDS:
            asked_at = time.monotonic()
            _ask(open_ones)
        time.sleep(LOOK_SECONDS)


def _ask(followers: Sequence[Follower]) -> None:
    try:
        states = queue.states()
    except QueueSilent:
        return  # the controller is busy, or is being started again: the jobs go on
    for follower in followers:
        follower.note(states.get(follower.element.job or ""))


def folder_of(follower: Follower) -> Path | None:
    """The finished run's folder, of a job that has ended well."""
    return None if follower.end is None else follower.end.folder
