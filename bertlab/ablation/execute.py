"""Carrying out a plan: every run that has no result yet, after what it starts from, as many at a time as the executor takes.

What is known stands in files (records, locks, run folders), never in this process alone. So it may be killed at any moment, and
several calls may work on one runs folder at once: a node that another call runs is left to it, and its record is taken over.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bertlab.ablation.executor import BERTLAB, BUSY, Assignment, Executor, Handle, Task
from bertlab.ablation.failures import last_words
from bertlab.ablation.graph import Node, Plan, Record
from bertlab.ablation.live_view import View, view_of
from bertlab.ablation.locking import NodeLock, is_locked
from bertlab.ablation.records import read_record, record_path, write_record
from bertlab.ablation.run_progress import read_progress, tail
from bertlab.ablation.run_states import ENDED, RunState, State, count
from bertlab.ablation.runner import LOG_TAIL, log_path, override

LOOK_SECONDS = 1.0  # between two looks at logs, and at locks that others hold
GRACE = 60.0  # seconds that a run has for the step that it is in and for saving its state


@dataclass(frozen=True)
class Options:
    """What of a plan's execution changes no result."""

    overrides: tuple[str, ...] = ()  # of both verbs, after all others: logger=none, trainer.threads=2, …
    cache: str | None = None  # paths.cache
    grace: float = GRACE
    resubmit: bool = False  # to a queue, what was cancelled there or has failed
    follow: bool = True  # what a queue has, to its end
    program: tuple[str, ...] = BERTLAB


@dataclass(frozen=True)
class Outcome:
    """How far a plan came."""

    runs: list[RunState]  # of every node, in the plan's order
    stopped_by: int  # the signal that ended the execution early, or 0
    seconds: float
    left: bool = False  # to a queue

    @property
    def done(self) -> bool:
        """Whether every run has a result."""
        return all(run.state is State.DONE for run in self.runs)

    @property
    def failed(self) -> list[RunState]:
        """Those that failed."""
        return [run for run in self.runs if run.state is State.FAILED]

    @property
    def exit_code(self) -> int:
        """0, 1 where a run failed, 128 and the signal's number where one came."""
        if self.stopped_by:
            return 128 + self.stopped_by
        return 0 if self.done or (self.left and not self.failed) else 1


def execute(plan: Plan, runs: Path, executor: Executor, options: Options | None = None, view: View | None = None) -> Outcome:
    """Run every node of ``plan`` that has no result in the folder ``runs``, and keep the records there; see the module.

    A run that failed in an earlier call is tried again. SIGINT, SIGTERM and SIGHUP have the runs save their state and stop; a second
    one ends them at once. Where a queue keeps the tasks, signals end this call alone, the next one finds the tasks in the queue again,
    and what failed is queued again only on request (``options.resubmit``).

    Args:
        plan: the nodes; runnable ones are begun in its order.
        runs: the folder of run folders.
        executor: what runs the tasks.
        options: see there.
        view: what shows the progress; None: one that suits standard error.
    """
    return _Execution(plan, runs.absolute(), executor, options or Options(), view or view_of(plan)).run()


class _Execution:
    """One call of ``execute``."""

    def __init__(self, plan: Plan, runs: Path, executor: Executor, options: Options, view: View) -> None:
        self.runs, self.executor, self.options, self.view = runs, executor, options, view
        self.states = {key: RunState(node) for key, node in plan.nodes.items()}
        self.handles: dict[str, Handle] = {}
        self.old_failures: dict[str, int] = {}  # key → when its record was written: such are tried again
        self.signum, self.insisted, self.cancelled = 0, False, False
        self.looked_at = 0.0

    def run(self) -> Outcome:
        """Work until everything has ended, or a signal has."""
        begin = time.monotonic()
        self.read_records()
        with self.noting_signals(), self.view:
            try:
                self.find_queued()
                self.show()
                if self.is_left:
                    self.block()
                    self.submit()
                while self.is_wanted:
                    self.round()
                self.show()
            finally:
                self.end_all()
        return Outcome(list(self.states.values()), self.signum, time.monotonic() - begin, self.is_left)

    @property
    def is_wanted(self) -> bool:
        """Whether there is more to do for this call."""
        if self.executor.is_queue:
            return self.unfinished and not self.signum and not self.is_left
        return bool(self.handles) or (self.unfinished and not self.signum)

    @property
    def is_left(self) -> bool:
        """Whether this call ends when everything is queued."""
        return self.executor.is_queue and not self.options.follow

    @property
    def unfinished(self) -> bool:
        return any(run.state not in ENDED for run in self.states.values())

    def read_records(self) -> None:
        """Find what is done, and what failed before."""
        for key, run in self.states.items():
            record = read_record(self.runs, key)
            if record is not None and record.status == "done":
                run.state, run.found = State.DONE, True
            elif record is not None:
                self.old_failures[key] = self.written_at(key)

    def find_queued(self) -> None:
        """Take over what a queue has of an earlier call; what has failed there waits for a request to be queued again."""
        for key, run in self.states.items() if self.executor.is_queue else ():
            if run.state is State.DONE:
                continue
            handle = self.executor.find(key)
            code = None if handle is None else self.executor.poll(handle)
            if handle is not None and code is None:
                self.take(run, handle)
            elif self.options.resubmit:
                continue
            elif key in self.old_failures:
                self.old_failures.pop(key)
                self.take_over(run)
            elif handle is not None and code not in (0, BUSY):  # 0: it was done, and what it left was deleted
                self.ended_without_record(run, self.executor.how_it_ended(handle))

    def round(self) -> None:
        """Everything that there is to do now, once."""
        self.collect()
        if self.signum:
            self.stop_all()
        else:
            self.block()
            self.submit()
        now = time.monotonic()
        if now - self.looked_at >= LOOK_SECONDS:
            self.looked_at = now
            self.look()
            self.show()
        if self.handles or self.unfinished:
            time.sleep(self.executor.pause)

    # What has ended

    def collect(self) -> None:
        """Take note of tasks that have ended."""
        for key, handle in list(self.handles.items()):
            code = self.executor.poll(handle)
            if code is None:
                continue
            del self.handles[key]
            run = self.states[key]
            run.seconds = run.elapsed
            run.note(read_progress(log_path(self.runs, key), self.runs))
            if code == BUSY:
                self.change(run, State.ELSEWHERE)
            elif not self.take_over(run):
                self.ended_without_record(run, self.executor.how_it_ended(handle))

    def take_over(self, run: RunState) -> bool:
        """Take the node's state from its record; False where there is none that was written in the time of this call."""
        key = run.node.key
        record = read_record(self.runs, key)
        if record is None or (record.status == "failed" and self.old_failures.get(key) == self.written_at(key)):
            return False
        self.change(run, State.DONE if record.status == "done" else State.FAILED, record.reason)
        return True

    def ended_without_record(self, run: RunState, how: str) -> None:
        """A task was stopped, or was itself killed, or could not keep its record."""
        if self.signum:
            self.change(run, State.WAITING)
            return
        source = self.states.get(run.node.source or "")
        if source is not None and source.state in (State.FAILED, State.BLOCKED, State.ELSEWHERE, State.WAITING):
            self.change(run, State.WAITING)  # its queue has given it up, since the job before it did not end well
            return
        again = "; --resubmit queues it again" if self.executor.is_queue else "; the same command goes on from its last saved state"
        said = last_words(tail(log_path(self.runs, run.node.key), LOG_TAIL))
        reason = f"It was stopped from outside ({how}){again}.\n{said}".strip()
        with NodeLock(self.runs, run.node.key) as lock, suppress(OSError):
            if lock.acquire():
                write_record(self.runs, Record(run.node.key, "failed", "", reason))
        self.change(run, State.FAILED, reason)

    def written_at(self, key: str) -> int:
        """When a node's record was written, in nanoseconds; 0 where it is gone."""
        try:
            return record_path(self.runs, key).stat().st_mtime_ns
        except OSError:
            return 0

    # What can begin

    def block(self) -> None:
        """Give up nodes whose source failed, and those that hang on them."""
        for run in self.states.values():
            if run.state in (State.WAITING, State.QUEUED) and self.has_failed_source(run):
                if (handle := self.handles.pop(run.node.key, None)) is not None:
                    self.executor.cancel(handle, at_once=True)
                source = self.states[run.node.source or ""]
                self.change(run, State.BLOCKED, f"The run that it starts from failed: {source.title}.")

    def has_failed_source(self, run: RunState) -> bool:
        """Whether what it starts from was not, and will not be, trained."""
        source = self.states.get(run.node.source or "")
        return source is not None and source.state in (State.FAILED, State.BLOCKED)

    def submit(self) -> None:
        """Begin as many runnable nodes as the executor takes, in the plan's order."""
        chosen: list[RunState] = []
        for run in self.states.values():
            if len(chosen) >= self.executor.capacity():
                break
            if run.state is not State.WAITING or not self.is_runnable(run.node) or self.take_over(run):
                continue
            if is_locked(self.runs, run.node.key):
                self.change(run, State.ELSEWHERE)
                continue
            run.state = State.QUEUED  # so that what starts from it can be queued behind it
            chosen.append(run)
        handles = self.executor.submit([self.task(run) for run in chosen]) if chosen else []
        for run, handle in zip(chosen, handles, strict=True):
            self.take(run, handle)

    def take(self, run: RunState, handle: Handle) -> None:
        """Look after a task from now on."""
        self.handles[run.node.key] = handle
        if self.executor.begun(handle):
            run.begun_at = time.monotonic()
            self.change(run, State.RUNNING)
        else:
            self.change(run, State.QUEUED)

    def is_runnable(self, node: Node) -> bool:
        """Whether what it starts from is done, or queued before it; where that is not in the plan, its task finds out."""
        if node.source not in self.states:
            return True
        there = (State.DONE, State.QUEUED, State.RUNNING) if self.executor.is_queue else (State.DONE,)
        return self.states[node.source].state in there

    def task(self, run: RunState) -> Task:
        """A node as the executor takes it."""
        options = self.options
        words = [*self.executor.words, *([override("paths.cache", options.cache)] if options.cache else []), *options.overrides]
        assignment = Assignment(run.node, self.runs, tuple(words), options.program, options.grace)
        return Task(run.node.key, run.title, assignment, log_path(self.runs, run.node.key))

    # What goes on

    def look(self) -> None:
        """How far the runs are, and whether those of other commands have ended."""
        for key, run in self.states.items():
            if key in self.handles and self.executor.begun(self.handles[key]) != (run.state is State.RUNNING):
                self.take(run, self.handles[key])  # it has begun, or was put back into its queue
            if run.state in (State.RUNNING, State.ELSEWHERE):
                run.note(read_progress(log_path(self.runs, key), self.runs))
            if run.state is State.ELSEWHERE and not is_locked(self.runs, key) and not self.take_over(run):
                self.change(run, State.WAITING)  # the other command was stopped: it is this one's turn

    def change(self, run: RunState, state: State, reason: str = "") -> None:
        """Note a run's new state, and have it shown."""
        run.state, run.reason = state, reason
        with suppress(OSError):  # the terminal may be gone
            self.view.changed(run, list(self.states.values()))

    def show(self) -> None:
        """Have the view show everything."""
        with suppress(OSError):
            self.view.show(list(self.states.values()))

    # Stopping

    @contextmanager
    def noting_signals(self) -> Iterator[None]:
        """Within the block signals are noted; what was ignored before (by nohup, or in a shell's background) stays so."""
        numbers = [each for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self.note_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def note_signal(self, signum: int, frame: FrameType | None) -> None:
        self.insisted, self.cancelled = bool(self.signum), False
        self.signum = self.signum or signum

    def stop_all(self) -> None:
        """Ask the tasks to stop; once more where the user insists. Those of a queue go on."""
        if self.cancelled or self.executor.is_queue:
            return
        self.cancelled = True
        with suppress(OSError):
            self.view.stopping(count(list(self.states.values()), State.RUNNING), at_once=self.insisted)
        for handle in self.handles.values():
            self.executor.cancel(handle, at_once=self.insisted)

    def end_all(self) -> None:
        """Leave nothing behind, also after an error of this process, but what a queue keeps."""
        if self.executor.is_queue:
            self.handles.clear()
        for handle in self.handles.values():
            self.executor.cancel(handle, at_once=False)
        while self.handles:
            self.handles = {key: handle for key, handle in self.handles.items() if self.executor.poll(handle) is None}
            time.sleep(self.executor.pause)
        self.executor.close()
