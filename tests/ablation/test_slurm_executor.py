"""Plans of fake runs as jobs of a real SLURM: their order, attaching, cancelling, preemption, and what each call does of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from fake_grids import finetuning, journal, options, plan_of, pretraining, wait_until
from slurm_cluster import SlurmCluster

from bertlab.ablation.execute import Outcome, execute
from bertlab.ablation.executor import Assignment, Task
from bertlab.ablation.graph import FINETUNING, PRETRAINING, Node, Plan
from bertlab.ablation.live_view import LogView
from bertlab.ablation.run_states import State
from bertlab.ablation.slurm_executor import SlurmExecutor, SlurmTask, arrays, stages
from bertlab.cluster import queue
from bertlab.cluster.queue import JobState
from bertlab.cluster.resources import Resources
from bertlab.cluster.submission import Element, submissions_folder
from bertlab.config import LauncherConfig, TrainerConfig

ASKED_EVERY = 1.0  # seconds between questions to a queue that has nobody else to answer


def resources(**changes: object) -> Callable[[Node], Resources]:
    asked = Resources.of(LauncherConfig(kind="slurm", **changes), TrainerConfig(accelerator="cpu"), lambda partition: False)
    return lambda node: asked


@pytest.fixture
def cluster(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """The cluster, which this process's commands reach; empty in the end."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))
    monkeypatch.setattr("bertlab.ablation.slurm_executor.QUEUE_SECONDS", ASKED_EVERY)
    yield slurm
    slurm.empty()


def queued(plan: Plan, runs: Path, *, resubmit: bool = False, follow: bool = True, **changes: object) -> tuple[Outcome, SlurmExecutor]:
    executor = SlurmExecutor(runs, "tests", resources(**changes))
    return execute(plan, runs, executor, options(resubmit=resubmit, follow=follow), LogView()), executor


def start_call(plan: Plan, runs: Path) -> subprocess.Popen[bytes]:
    """The same by a process of its own."""
    content = json.dumps([asdict(node) for node in plan.nodes.values()])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, __file__, str(runs), content], env=environment)


def began(runs: Path) -> list[str]:
    return [name for what, name in journal(runs) if what == "begin"]


def ended(runs: Path) -> list[str]:
    return [name for what, name in journal(runs) if what == "end"]


@pytest.mark.parametrize(("warning", "grace"), [(10, 60.0), (600, 600.0)])
def test_a_run_has_as_long_to_save_its_state_as_slurm_warns_before_its_end(warning: int, grace: float, tmp_path: Path) -> None:
    node = pretraining("one")
    asked = resources(warning=warning)(node)
    command = SlurmExecutor._command(Task("one", "a run", Assignment(node, tmp_path, ()), tmp_path / "log"), asked)
    assert Assignment.from_json(command.words[-1]).grace == grace


def test_why_jobs_wait_that_will_not_begin_by_themselves_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = {"7": "Priority", "8_0": "PartitionConfig", "8_1": "PartitionConfig"}
    states = {job: JobState("PENDING", reason, "n") for job, reason in reasons.items()}
    monkeypatch.setattr(queue, "states", lambda: states)
    monkeypatch.setattr(queue, "check_there", lambda: None)
    executor = SlurmExecutor(tmp_path, "tests", resources())
    for index, job in enumerate([*reasons, *reasons]):
        assert executor.poll(SlurmTask(Element(tmp_path, index, job))) is None
    told = capsys.readouterr().err
    assert told.startswith("bertlab: job 8_0 waits (PartitionConfig): the partition does not have what the job asks for; ")
    assert told.count("\n") == 1


@pytest.mark.slurm
def test_an_array_a_stage_and_each_run_after_its_source(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Fine-tunings of the quick pre-training do not wait for the slow one, although all are one array."""
    plan = plan_of(
        pretraining("slow", "steps=40", "pause=0.3"), finetuning("slow1", "slow"),
        pretraining("quick"), finetuning("quick1", "quick"), finetuning("quick2", "quick"),
        pretraining("further", source="quick"), finetuning("further1", "further"),
    )  # fmt: skip
    outcome, executor = queued(plan, tmp_path)
    assert outcome.done
    assert len(executor.jobs) == 4  # pre-trainings, those that go on from one, fine-tunings of the first, and of the second
    order = ended(tmp_path)
    assert order[-2:] == ["slow", "slow1"]
    assert sorted(order[:-2]) == ["further", "further1", "quick", "quick1", "quick2"]
    assert (tmp_path / "finetune-fake-quick1" / "started_from").read_text() == str(tmp_path / "pretrain-fake-quick")
    noted = [json.loads(path.read_text())["job"] for path in submissions_folder(tmp_path).glob("*/job.json")]
    assert sorted(noted) == sorted(executor.jobs)
    again, second = queued(plan, tmp_path)
    assert again.done
    assert second.jobs == []
    assert len(began(tmp_path)) == 7


@pytest.mark.slurm
def test_concurrency_bounds_what_runs_at_a_time(cluster: SlurmCluster, tmp_path: Path) -> None:
    plan = plan_of(*(pretraining(f"p{number}", "steps=2", "pause=0.3") for number in range(4)))
    assert queued(plan, tmp_path, concurrency=1)[0].done
    assert [what for what, _ in journal(tmp_path)] == ["begin", "end"] * 4


@pytest.mark.slurm
def test_a_second_call_attaches_to_what_is_queued(cluster: SlurmCluster, tmp_path: Path) -> None:
    plan = plan_of(pretraining("a", "steps=30", "pause=0.2"), finetuning("a1", "a"))
    outcome, first = queued(plan, tmp_path, follow=False)
    assert (outcome.left, outcome.exit_code) == (True, 0)
    assert [run.state for run in outcome.runs] == [State.QUEUED, State.QUEUED]
    for folder in submissions_folder(tmp_path).glob("*/job.json"):
        folder.unlink()  # as if the first call had been killed before it could note the ids: the queue knows the jobs by their names
    outcome, second = queued(plan, tmp_path)
    assert outcome.done
    assert (len(first.jobs), second.jobs) == (2, [])
    assert began(tmp_path) == ["a", "a1"]


@pytest.mark.slurm
def test_failures_and_cancelled_jobs_are_queued_again_on_request_alone(cluster: SlurmCluster, tmp_path: Path) -> None:
    plan = plan_of(
        pretraining("bad", "fail=The loss became nan."), finetuning("bad1", "bad"),
        pretraining("cut", "steps=500", "pause=0.2"), finetuning("cut1", "cut"),
        pretraining("good"), finetuning("good1", "good"),
    )  # fmt: skip
    outcome, executor = queued(plan, tmp_path, follow=False)
    wait_until(lambda: "cut" in began(tmp_path) and "good1" in ended(tmp_path))
    cluster.call("scancel", f"{executor.jobs[0]}_1")
    outcome, _ = queued(plan, tmp_path)
    states = {run.node.key: run.state for run in outcome.runs}
    assert states == {
        "bad": State.FAILED, "bad1": State.BLOCKED, "cut": State.FAILED, "cut1": State.BLOCKED, "good": State.DONE, "good1": State.DONE,
    }  # fmt: skip
    reasons = {run.node.key: run.reason for run in outcome.runs}
    assert reasons["bad"] == "The loss became nan."
    assert "CANCELLED" in reasons["cut"]
    assert "--resubmit" in reasons["cut"]
    assert outcome.exit_code == 1
    so_far = began(tmp_path)
    outcome, second = queued(plan, tmp_path)  # nobody asked for it
    assert {run.node.key: run.state for run in outcome.runs} == states
    assert (second.jobs, began(tmp_path)) == ([], so_far)
    plan.nodes["bad"] = pretraining("bad")
    plan.nodes["cut"] = pretraining("cut", "steps=3")
    outcome, third = queued(plan, tmp_path, resubmit=True)
    assert outcome.done
    assert len(third.jobs) == 2
    assert sorted(ended(tmp_path)) == ["bad", "bad1", "cut", "cut1", "good", "good1"]


@pytest.mark.slurm
def test_a_requeued_run_goes_on_where_it_was(cluster: SlurmCluster, tmp_path: Path) -> None:
    plan = plan_of(pretraining("a", "steps=40", "pause=0.2"), finetuning("a1", "a"))
    _, executor = queued(plan, tmp_path, follow=False)
    saved = tmp_path / "pretrain-fake-a" / "saved"
    wait_until(lambda: saved.exists() and int(saved.read_text()) >= 5)
    cluster.call("scontrol", "requeue", executor.jobs[0])
    assert queued(plan, tmp_path)[0].done
    assert [what for what, name in journal(tmp_path) if name == "a"] == ["begin", "stopped", "begin", "end"]
    rows = [json.loads(line)["step"] for line in (tmp_path / "pretrain-fake-a" / "throughput.jsonl").read_text().splitlines()]
    assert rows == list(range(1, 41))  # each step was done once, and none is missing


@pytest.mark.slurm
def test_signals_end_the_call_and_not_the_jobs(cluster: SlurmCluster, tmp_path: Path) -> None:
    plan = plan_of(pretraining("a", "steps=30", "pause=0.2"), finetuning("a1", "a"))
    caller = start_call(plan, tmp_path)
    wait_until(lambda: began(tmp_path) == ["a"])
    caller.send_signal(signal.SIGHUP)  # the login shell is gone
    assert caller.wait(timeout=30) == 128 + signal.SIGHUP
    wait_until(lambda: ended(tmp_path) == ["a", "a1"])
    outcome, executor = queued(plan, tmp_path)
    assert outcome.done
    assert executor.jobs == []


@pytest.mark.slurm
def test_two_calls_at_once_queue_every_run_once(cluster: SlurmCluster, tmp_path: Path) -> None:
    plan = plan_of(*(pretraining(f"p{number}", "steps=5", "pause=0.2") for number in range(3)), finetuning("f", "p1"))
    callers = [start_call(plan, tmp_path) for _ in range(2)]
    assert [caller.wait(timeout=120) for caller in callers] == [0, 0]
    assert sorted(began(tmp_path)) == ["f", "p0", "p1", "p2"]


def test_stages_are_what_can_be_one_array() -> None:
    nodes = [
        pretraining("a"), finetuning("a1", "a"), pretraining("b", source="a"), finetuning("b1", "b"), finetuning("c1", "elsewhere"),
    ]  # fmt: skip
    assert [[node.key for node in stage] for stage in stages(nodes)] == [["a"], ["c1"], ["b"], ["a1"], ["b1"]]


def test_arrays_are_cut_where_resources_differ_and_at_the_largest_size() -> None:
    def asked(node: Node) -> Resources:
        trainer = TrainerConfig(devices=2 if node.key == "b" else 1)
        return Resources.of(LauncherConfig(time="60" if node.kind == PRETRAINING else "10"), trainer, lambda partition: True)

    nodes = [pretraining(name) for name in "abcde"] + [finetuning("a1", "a")]
    found = arrays(nodes, asked, most=3)
    assert [[node.key for node in array] for array in found] == [["a", "c", "d"], ["e"], ["b"], ["a1"]]
    assert {asked(node).gpus for node in found[2]} == {2}
    assert [array[0].kind for array in found] == [PRETRAINING] * 3 + [FINETUNING]


if __name__ == "__main__":
    nodes = [Node(**{**node, "overrides": tuple(node["overrides"]), "wanted_by": ()}) for node in json.loads(sys.argv[2])]
    sys.exit(queued(plan_of(*nodes), Path(sys.argv[1]))[0].exit_code)
