"""Tasks as jobs of SLURM: an array a stage, and behind it the arrays of what starts from it.

A fine-tuning waits for its own pre-training, not for all of the array: each job of an array gets a dependency of its own. SLURM keeps
the order, so nobody has to stay: the command may end at any time, and the next one finds its jobs by what is in ``<runs>/slurm``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bertlab.ablation.executor import Task
from bertlab.ablation.failures import exit_in_words
from bertlab.ablation.graph import PRETRAINING, Node, Plan
from bertlab.ablation.records import read_record
from bertlab.cluster import queue, submission
from bertlab.cluster.follow import QUEUE_SECONDS
from bertlab.cluster.queue import JobState, QueueSilent
from bertlab.cluster.reasons import explained
from bertlab.cluster.resources import Resources
from bertlab.cluster.submission import Command, Element
from bertlab.messages import say, warn

MOST = 1000  # jobs of an array that SLURM allows as it comes
NO_BOUND = 10**6  # a queue takes what it is given; the cluster's own limits are told by sbatch


@dataclass
class SlurmTask:
    """A task that the queue has, or has had."""

    element: Element
    missed_at: int | None = None  # which answer of the queue was the first in which it had ended; it had not said so itself
    how: str = ""  # SLURM's word for its end


class SlurmExecutor:
    """Queues tasks, and asks after them."""

    is_queue = True
    pause = 1.0
    words = ()

    def __init__(self, runs: Path, title: str, resources: Callable[[Node], Resources]) -> None:
        """Nothing is queued yet.

        Args:
            runs: the folder of run folders.
            title: what the jobs' names begin with.
            resources: what a node's job asks for.
        """
        queue.check_there()
        self._runs, self._resources = runs, resources
        self._title = re.sub(r"[^\w.-]+", "_", title)[:40]
        self.jobs: list[str] = []  # the arrays that this call has queued
        self._states: dict[str, JobState] = {}
        self._told: set[str] = set()  # reasons for waiting
        self._known: dict[str, Element] | None = None
        self._asked_at, self._answers = -QUEUE_SECONDS, 0

    def capacity(self) -> int:
        """Any number."""
        return NO_BOUND

    def find(self, key: str) -> SlurmTask | None:
        """The newest job of a node, whether the queue still has it or not."""
        if self._known is None:
            self._look_up()
        assert self._known is not None
        element = self._known.get(key)
        return None if element is None else SlurmTask(element, None if self._holds(element) else -1)

    def _look_up(self) -> None:
        """Read what was ever queued, and what of it the queue still has."""
        try:
            self._states = queue.states()
        except QueueSilent as error:
            raise error.as_user_error() from error
        self._asked_at, self._answers = time.monotonic(), self._answers + 1
        self._known = submission.find(self._runs, self._states)

    def _holds(self, element: Element) -> bool:
        state = self._states.get(element.job or "")
        return state is not None and not state.ended

    def submit(self, tasks: Sequence[Task]) -> list[SlurmTask]:
        """Queue tasks, but for those that another call has queued in the meantime."""
        with submission.queueing(self._runs):
            self._look_up()
            assert self._known is not None
            held = {key: element for key, element in self._known.items() if self._holds(element)}
            new = {task.key: task for task in tasks if task.key not in held}
            for array in arrays([task.assignment.node for task in new.values()], self._resources, queue.largest_array()):
                held |= self._submit_array([new[node.key] for node in array], held)
        self._asked_at = -QUEUE_SECONDS
        return [SlurmTask(held[task.key]) for task in tasks]

    def _submit_array(self, tasks: Sequence[Task], held: Mapping[str, Element]) -> dict[str, Element]:
        """Queue tasks of one stage, each behind the job, if there is one, of what it starts from."""
        kind = tasks[0].assignment.node.kind
        resources = self._resources(tasks[0].assignment.node)
        sources = {task.key: source.job for task in tasks if (source := held.get(task.assignment.node.source or "")) is not None}
        whole = dict.fromkeys(str(job).partition("_")[0] for job in sources.values())
        # Of all of the stage before it at first, so that nothing begins too early, or never, if this process is killed just here.
        dependency = f"afterany:{':'.join(whole)}" if whole else None
        commands = [self._command(task, resources) for task in tasks]
        elements = submission.submit(self._runs, f"{self._title}-{kind}", commands, resources, dependency)
        queued = dict(zip([task.key for task in tasks], elements, strict=True))
        if whole:
            _depend(queued, sources)
        first = str(elements[0].job).partition("_")[0]
        waiting = f", {'each ' if len(tasks) > 1 else ''}after its pre-training (job {', '.join(whole)})" if whole else ""
        self.jobs.append(first)
        say(f"queued as job {first}: {counted_runs(len(tasks), kind)}{waiting}; {resources.in_words()}")
        return queued

    @staticmethod
    def _command(task: Task, resources: Resources) -> Command:
        assignment = task.assignment
        own = replace(assignment, program=(*resources.start, *assignment.program), words=(*resources.words, *assignment.words))
        own = replace(own, grace=max(own.grace, float(resources.launcher.warning)))  # SLURM says so long before what is to be saved by then
        return Command(task.key, task.title, replace(task, assignment=own).command)

    def poll(self, handle: SlurmTask) -> int | None:
        """What the job has noted of its end, or, where it was ended from outside, 1."""
        if (end := handle.element.end) is None and not self._is_gone(handle):
            return None
        # Its record was written on another machine. Reading the folder has a network file system look whether it is there.
        with suppress(OSError):  # there is no folder where nothing has begun yet
            os.listdir(self._runs / "grid")
        return 1 if end is None else end.code

    def _is_gone(self, handle: SlurmTask) -> bool:
        """Whether the queue has said twice that the job has ended: the job's own word of it may come a little later."""
        self._ask_again()
        state = self._states.get(handle.element.job or "")
        if self._holds(handle.element):
            handle.missed_at = None
            self._tell_why(handle.element, state)
            return False
        handle.how = "gone from the queue" if state is None else state.state
        handle.missed_at = self._answers if handle.missed_at is None else handle.missed_at
        return self._answers > handle.missed_at

    def _tell_why(self, element: Element, state: JobState | None) -> None:
        """Say why a job waits that will not begin by itself; of several jobs with the same reason only of the first."""
        if state is None or not state.waits or state.reason in self._told or not (why := explained(state.reason)):
            return
        self._told.add(state.reason)
        say(f"job {element.job} waits ({state.reason}){why}")

    def _ask_again(self) -> None:
        """Ask the queue, unless it was asked just now."""
        if time.monotonic() - self._asked_at < QUEUE_SECONDS:
            return
        self._asked_at = time.monotonic()
        with suppress(QueueSilent):  # the controller is busy, or is being started again: the jobs go on
            self._states = queue.states()
            self._answers += 1

    def begun(self, handle: SlurmTask) -> bool:
        """Whether the job runs."""
        return self._holds(handle.element) and not self._states[str(handle.element.job)].waits

    def how_it_ended(self, handle: SlurmTask) -> str:
        """By the job's own word, or SLURM's."""
        job = f"job {handle.element.job}" if handle.element.job else "a job that was never queued"
        return f"{job}: {handle.how if (end := handle.element.end) is None else exit_in_words(end.code)}"

    def cancel(self, handle: SlurmTask, *, at_once: bool) -> None:
        """End the job; SLURM gives its run the time to save its state."""
        with suppress(QueueSilent):  # it has ended
            queue.cancel([handle.element.job] if handle.element.job else [])

    def close(self) -> None:
        """The jobs go on."""


def _depend(queued: Mapping[str, Element], sources: Mapping[str, str | None]) -> None:
    """Have each job wait for the one of what it starts from, in place of the whole stage."""
    waiting: dict[str | None, list[str]] = {}
    for key, element in queued.items():
        waiting.setdefault(sources.get(key), []).append(str(element.job))
    try:
        for source, jobs in waiting.items():
            queue.wait_for(jobs, source)
    except QueueSilent as error:
        warn(f"SLURM does not let single jobs of an array wait ({error}): they begin when all jobs before them have ended.")


def show_arrays(plan: Plan, runs: Path, resources: Callable[[Callable[[str | None], bool]], Callable[[Node], Resources]]) -> None:
    """Print what would be queued of a plan, and what the queue has of it. Where there is no SLURM, as for a cluster with GPUs."""
    try:
        states, most, has_gpus = queue.states(), queue.largest_array(), queue.has_gpus
    except QueueSilent:
        say("No SLURM can be reached: this is what a cluster with GPUs would be asked for.")
        states, most, has_gpus = {}, MOST, lambda partition: True
    known = submission.find(runs, states)
    held = {key: states[job].state for key, each in known.items() if (job := each.job or "") in states and not states[job].ended}
    held = {key: state.lower() for key, state in held.items() if key in plan.nodes}
    left = [node for key, node in plan.nodes.items() if key not in held and not _is_done(runs, key)]
    for number, array in enumerate(arrays(left, asked := resources(has_gpus), most), 1):
        behind = ", each after the run that it starts from" if any(node.source for node in array) else ""
        print(f"Array {number}: {counted_runs(len(array), array[0].kind)}{behind}; {asked(array[0]).in_words()}.")
    for state in sorted(set(held.values())):
        print(f"In the queue already: {sum(each == state for each in held.values())} {state}.")


def _is_done(runs: Path, key: str) -> bool:
    record = read_record(runs, key)
    return record is not None and record.status == "done"


def stages(nodes: Iterable[Node]) -> list[list[Node]]:
    """Nodes by how many of them stand before each, and by their kind: what can be queued as one array, in the order of the plan."""
    given = {node.key: node for node in nodes}
    found: dict[tuple[int, str], list[Node]] = {}
    for node in given.values():
        depth, source = 0, given.get(node.source or "")
        while source is not None:
            depth, source = depth + 1, given.get(source.source or "")
        found.setdefault((depth, node.kind), []).append(node)
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] != PRETRAINING))]


def arrays(nodes: Iterable[Node], resources: Callable[[Node], Resources], most: int) -> list[list[Node]]:
    """The stages, cut where jobs ask for other resources, and where an array would be larger than SLURM allows."""
    found: list[list[Node]] = []
    for stage in stages(nodes):
        alike: list[tuple[Resources, list[Node]]] = []
        for node in stage:
            asked = resources(node)
            if all(asked != other for other, _ in alike):
                alike.append((asked, []))
            next(group for other, group in alike if other == asked).append(node)
        found += [group[place : place + most] for _, group in alike for place in range(0, len(group), most)]
    return found


def counted_runs(number: int, kind: str) -> str:
    """``12 pre-trainings``."""
    return f"{number} {'pre-training' if kind == PRETRAINING else 'fine-tuning'}{'' if number == 1 else 's'}"
