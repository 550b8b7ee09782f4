"""What a call does where a queue keeps the tasks: give them all, leave them, find them again; failures wait for a request."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fake_grids import finetuning, options, plan_of, pretraining, wait_until

from bertlab.ablation.execute import Outcome, execute
from bertlab.ablation.executor import BUSY, Task
from bertlab.ablation.graph import Plan
from bertlab.ablation.live_view import LogView
from bertlab.ablation.rebuilding import Rebuilding
from bertlab.ablation.run_states import RunState, State

PLAN = plan_of(pretraining("a"), finetuning("a1", "a"), pretraining("b"), finetuning("b1", "b"))


class Queue:
    """A cluster that outlives calls. In each round one of its jobs begins, or ends as ``ends`` says: an exit code, or a word of its own."""

    is_queue = True
    words = ()
    pause = 0.0

    def __init__(self, runs: Path, ends: dict[str, int | str] | None = None) -> None:
        self.runs, self.ends = runs, ends or {}
        self.given: list[list[str]] = []  # by call of submit
        self.waiting: list[str] = []
        self.running: list[str] = []
        self.over: dict[str, int | str] = {}
        self.cancelled: list[str] = []
        self.at_each_round: Callable[[], None] = lambda: None

    def capacity(self) -> int:
        return 100

    def find(self, key: str) -> str | None:
        return key if key in (*self.waiting, *self.running, *self.over) else None

    def submit(self, tasks: Sequence[Task]) -> list[str]:
        self.given.append([task.key for task in tasks])
        self.waiting += self.given[-1]
        for key in self.given[-1]:
            self.over.pop(key, None)
        return self.given[-1]

    def poll(self, handle: str) -> int | None:
        self.at_each_round()
        end = self.over.get(handle)
        return 1 if isinstance(end, str) else end

    def work(self) -> None:
        """One thing more happens."""
        if self.running:
            key = self.running.pop(0)
            self.over[key] = end = self.ends.get(key, 0)
            if isinstance(end, int) and end != BUSY:
                note(self.runs, key, "failed" if end else "done")
        elif ready := [key for key in self.waiting if self.over.get(source_of(key), 0) == 0 and source_of(key) not in self.waiting]:
            self.waiting.remove(ready[0])
            self.running.append(ready[0])
        elif self.waiting:
            self.over[self.waiting.pop(0)] = "its dependency will never be satisfied"

    def begun(self, handle: str) -> bool:
        return handle in self.running

    def how_it_ended(self, handle: str) -> str:
        return str(self.over[handle])

    def cancel(self, handle: str, *, at_once: bool) -> None:
        self.cancelled.append(handle)

    def close(self) -> None:
        pass


def source_of(key: str) -> str:
    return key[0] if len(key) > 1 else ""


def note(runs: Path, key: str, status: str) -> None:
    """The record that the process on the node writes."""
    folder = runs / key
    folder.mkdir(exist_ok=True)
    (folder / "result.json").touch()
    (runs / "grid").mkdir(exist_ok=True)
    (runs / "grid" / f"{key}.json").write_text(json.dumps({"key": key, "status": status, "folder": str(folder), "reason": "It diverged."}))


def carry_out(plan: Plan, queue: Queue, *, works: bool = True, **changes: object) -> Outcome:
    queue.at_each_round = queue.work if works else lambda: None
    return execute(plan, queue.runs, queue, options(**changes), LogView())


def states(outcome: Outcome) -> dict[str, State]:
    return {run.node.key: run.state for run in outcome.runs}


def test_everything_is_given_at_once_in_the_plans_order(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    assert carry_out(PLAN, queue).done
    assert queue.given == [["a", "a1", "b", "b1"]]


def test_a_call_may_end_before_the_queue_does(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    outcome = carry_out(PLAN, queue, works=False, follow=False)
    assert (outcome.left, outcome.exit_code) == (True, 0)
    assert set(states(outcome).values()) == {State.QUEUED}
    queue.work()
    assert carry_out(PLAN, queue).done
    assert (len(queue.given), queue.cancelled) == (1, [])


def test_a_signal_ends_the_call_alone(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.at_each_round = lambda: os.kill(os.getpid(), signal.SIGTERM)
    outcome = execute(PLAN, tmp_path, queue, options(), LogView())
    assert (outcome.exit_code, queue.cancelled, len(queue.waiting)) == (143, [], 4)
    assert carry_out(PLAN, queue).done
    assert len(queue.given) == 1


def test_more_runs_are_queued_beside_what_is_there(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    carry_out(PLAN, queue, works=False, follow=False)
    more = replace(PLAN, nodes={**PLAN.nodes, "a2": finetuning("a2", "a"), "c": pretraining("c")})
    assert carry_out(more, queue).done
    assert queue.given == [["a", "a1", "b", "b1"], ["a2", "c"]]


@pytest.mark.parametrize("end", [1, "CANCELLED"])
def test_what_did_not_end_well_is_queued_again_on_request(end: int | str, tmp_path: Path) -> None:
    queue = Queue(tmp_path, {"a": end})
    expected = {"a": State.FAILED, "a1": State.BLOCKED, "b": State.DONE, "b1": State.DONE}
    outcome = carry_out(PLAN, queue)
    assert (states(outcome), outcome.exit_code) == (expected, 1)
    reason = outcome.failed[0].reason
    assert reason == "It diverged." if end == 1 else "CANCELLED" in reason and "--resubmit" in reason
    assert states(carry_out(PLAN, queue)) == expected
    assert len(queue.given) == 1
    queue.ends = {}
    assert carry_out(PLAN, queue, resubmit=True).done
    assert queue.given[1:] == [["a", "a1"]]


def test_cancelled_while_nobody_followed(tmp_path: Path) -> None:
    queue = Queue(tmp_path, {"b1": "CANCELLED"})
    carry_out(PLAN, queue, works=False, follow=False)
    for _ in range(20):
        queue.work()
    outcome = carry_out(PLAN, queue)
    assert states(outcome) == {"a": State.DONE, "a1": State.DONE, "b": State.DONE, "b1": State.FAILED}
    assert len(queue.given) == 1


def test_a_run_that_another_command_has_is_waited_for(tmp_path: Path) -> None:
    """Its job left it to the other one, so what was behind the job was given up; it is queued again without being asked for."""
    queue = Queue(tmp_path, {"a": BUSY})
    outcome = carry_out(plan_of(pretraining("a"), finetuning("a1", "a")), queue, works=True, follow=False)
    for _ in range(20):
        queue.work()
    queue.ends = {}
    outcome = carry_out(plan_of(pretraining("a"), finetuning("a1", "a")), queue)
    assert outcome.done
    assert queue.given == [["a", "a1"], ["a", "a1"]]


def test_deleted_results_are_made_again(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    assert carry_out(PLAN, queue).done
    (tmp_path / "b1" / "result.json").unlink()
    assert carry_out(PLAN, queue).done
    assert queue.given[1:] == [["b1"]]


def test_tables_are_made_anew_when_there_is_news(tmp_path: Path) -> None:
    made: list[int] = []
    runs = [RunState(node) for node in PLAN.nodes.values()]
    with Rebuilding(LogView(), lambda: made.append(1), pause=0.0) as view:
        view.show(runs)
        assert made == []
        for run, state in ((runs[0], State.RUNNING), (runs[0], State.DONE), (runs[1], State.FAILED)):
            run.state = state
            view.changed(run, runs)
            view.show(runs)
        wait_until(lambda: [view.show(runs), len(made) == 2][1])
        view.show(runs)
    assert len(made) == 2
    with Rebuilding(LogView(), lambda: made.append(1), pause=1e6) as view:
        for run in runs:
            run.state = State.DONE
            view.changed(run, runs)
            view.show(runs)
    assert len(made) == 3
