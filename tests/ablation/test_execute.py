"""What is run, in which order, what is not run again, and what becomes of failures."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_grids import PROGRAM, carry_out, finetuning, journal, options, plan_of, pretraining
from hypothesis import example, given
from hypothesis import strategies as st

from bertlab.ablation.execute import execute
from bertlab.ablation.executor import Assignment, Task
from bertlab.ablation.graph import FINETUNING, Node
from bertlab.ablation.live_view import LogView
from bertlab.ablation.local_executor import LocalExecutor
from bertlab.ablation.locking import NodeLock, is_locked
from bertlab.ablation.records import read_record
from bertlab.ablation.run_states import State
from bertlab.ablation.runner import command_of, override
from bertlab.overrides import parse_override


def test_everything_is_run_once_in_the_plans_order_after_its_source(tmp_path: Path) -> None:
    plan = plan_of(pretraining("a"), finetuning("a1", "a"), pretraining("b"), finetuning("b1", "b"), finetuning("a2", "a"))
    outcome = carry_out(plan, tmp_path, jobs=1)
    assert outcome.done
    assert outcome.exit_code == 0
    assert [name for what, name in journal(tmp_path) if what == "begin"] == ["a", "a1", "b", "b1", "a2"]
    assert (tmp_path / "finetune-fake-a2" / "started_from").read_text() == str(tmp_path / "pretrain-fake-a")
    record = read_record(tmp_path, "a2")
    assert record is not None
    assert (record.status, record.folder) == ("done", str(tmp_path / "finetune-fake-a2"))
    assert carry_out(plan, tmp_path).done
    assert len([what for what, _ in journal(tmp_path) if what == "begin"]) == 5


def test_what_waits_does_not_hold_up_what_is_runnable(tmp_path: Path) -> None:
    plan = plan_of(
        pretraining("slow", "steps=5", "pause=0.3"), finetuning("after", "slow"), pretraining("quick"), finetuning("then", "quick")
    )
    assert carry_out(plan, tmp_path, jobs=2).done
    ended = [name for what, name in journal(tmp_path) if what == "end"]
    assert ended == ["quick", "then", "slow", "after"]


def test_a_run_that_was_finished_by_hand_has_its_whole_time(tmp_path: Path) -> None:
    folder = tmp_path / "pretrain-fake-a"
    folder.mkdir()
    (folder / "result.json").write_text('{"seconds": 1234.5}')
    assert carry_out(plan_of(pretraining("a"), pretraining("b")), tmp_path).done
    by_hand, own = (read_record(tmp_path, key) for key in "ab")
    assert by_hand is not None
    assert by_hand.seconds == 1234.5
    assert own is not None
    assert 0 < own.seconds < 1000


def test_starts_from_kept_weights(tmp_path: Path) -> None:
    kept = tmp_path / "pretrain-fake-a" / "checkpoints" / "step-000000020.safetensors"
    kept.parent.mkdir(parents=True)
    kept.touch()
    plan = plan_of(pretraining("a"), finetuning("at", "a", step=20), finetuning("lost", "a", step=30), pretraining("on", source="a"))
    outcome = carry_out(plan, tmp_path)
    assert (tmp_path / "finetune-fake-at" / "started_from").read_text() == str(kept)
    assert (tmp_path / "pretrain-fake-on" / "started_from").read_text() == str(tmp_path / "pretrain-fake-a")
    (failed,) = outcome.failed
    assert failed.node.key == "lost"
    assert "step-000000030.safetensors" in failed.reason


def test_one_that_fails_leaves_the_others_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = pretraining("bad", "fail=The loss became nan.")
    plan = plan_of(
        broken, finetuning("bad1", "bad"), pretraining("further", source="bad1"), pretraining("good"), finetuning("good1", "good")
    )
    outcome = carry_out(plan, tmp_path)
    assert outcome.exit_code == 1
    assert {run.node.key: run.state for run in outcome.runs} == {
        "bad": State.FAILED,
        "bad1": State.BLOCKED,
        "further": State.BLOCKED,
        "good": State.DONE,
        "good1": State.DONE,
    }
    assert outcome.failed[0].reason == "The loss became nan."
    record = read_record(tmp_path, "bad")
    assert record is not None
    assert (record.status, record.reason) == ("failed", "The loss became nan.")
    assert "The run that it starts from failed: pretrain bad" in capsys.readouterr().err
    # The cause is removed, as by a change of the machine: the second call does what is missing and nothing else.
    plan.nodes["bad"] = pretraining("bad")
    assert carry_out(plan, tmp_path).done
    begun = [name for what, name in journal(tmp_path) if what == "begin"]
    assert sorted(begun) == ["bad", "bad", "bad1", "further", "good", "good1"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (f"kill={signal.SIGKILL.value}", "killed (SIGKILL), which is what a system does when its memory runs out"),
        (f"kill={signal.SIGSEGV.value}", "ended by SIGSEGV"),
        ("mute=1", "without a result"),
        ("steps=none", "ValueError"),  # a mistake of ours, with its traceback
        ("fail=CUDA out of memory. Tried to allocate 2 GiB", "set batch.micro to a part of batch.sequences"),
    ],
)
def test_bad_ends(word: str, reason: str, tmp_path: Path) -> None:
    outcome = carry_out(plan_of(pretraining("a", word), pretraining("b")), tmp_path)
    assert [run.state for run in outcome.runs] == [State.FAILED, State.DONE]
    assert reason in outcome.runs[0].reason
    assert "loss 1.000" not in outcome.runs[0].reason


def test_a_deleted_run_is_run_again(tmp_path: Path) -> None:
    plan = plan_of(pretraining("a"))
    assert carry_out(plan, tmp_path).done
    (tmp_path / "pretrain-fake-a" / "result.json").unlink()
    assert carry_out(plan, tmp_path).done
    assert (tmp_path / "pretrain-fake-a" / "result.json").exists()


def test_the_source_is_not_in_the_plan(tmp_path: Path) -> None:
    outcome = carry_out(plan_of(finetuning("a1", "a")), tmp_path)
    assert outcome.failed[0].reason == "The pretraining that it starts from is not done."
    assert carry_out(plan_of(pretraining("a")), tmp_path).done
    assert carry_out(plan_of(finetuning("a1", "a")), tmp_path).done


def test_a_command_in_hydras_grammar(tmp_path: Path) -> None:
    runs = tmp_path / 'it\'s "a", b\\'
    assert carry_out(plan_of(pretraining("a")), runs).done
    assignment = Assignment(Node("k", FINETUNING, ("task=mnli",), 1, "a"), runs, ("logger=none",), PROGRAM, 1.0)
    assert Assignment.from_json(assignment.to_json()) == assignment
    command = command_of(assignment)
    assert command[:4] == [*PROGRAM, "finetune", "task=mnli"]
    values = {each.key_or_group: each.value() for each in map(parse_override, command[4:])}
    assert values == {"checkpoint": str(runs / "pretrain-fake-a"), "paths.runs": str(runs), "logger": "none"}


def test_what_concerns_the_machine_replaces_a_word_of_the_plan(tmp_path: Path) -> None:
    """A command of ours takes no key twice."""
    node = Node("k", "pretrain", ("seed=1", "+trainer.threads=2", "logger=wandb"), 1, None)
    command = command_of(Assignment(node, tmp_path, ("trainer.threads=1", "logger=none", "logger=none"), PROGRAM, 1.0))
    assert sorted(command[len(PROGRAM) + 1 :]) == ["logger=none", override("paths.runs", str(tmp_path)), "seed=1", "trainer.threads=1"]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="$"), min_size=1))
@example("back\\slash")
@example('\\"\\\\')
def test_any_path_is_read_back_by_hydra(path: str) -> None:
    assert parse_override(override("paths.cache", path)).value() == path


def test_what_concerns_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("BERTLAB_CACHE", "somewhere")
    machine = options(overrides=("logger=none",), cache="the cache")
    assert execute(plan_of(pretraining("a")), tmp_path, LocalExecutor(2, threads=3), machine, LogView()).done
    seen = json.loads((tmp_path / "pretrain-fake-a" / "environment").read_text())
    assert not {"RANK", "FORCE_COLOR"} & seen.keys()
    assert (seen["OMP_NUM_THREADS"], seen["BERTLAB_CACHE"]) == ("3", "somewhere")
    heading = (tmp_path / "grid" / "a.log").read_text().splitlines()[0]
    assert heading.endswith("""trainer.threads=3 'paths.cache="the cache"' logger=none""")


def test_another_command_runs_it(tmp_path: Path) -> None:
    """A node that is held elsewhere is left alone while others are run, and its record is taken over."""
    plan = plan_of(pretraining("held"), finetuning("after", "held"), pretraining("free"))

    class Releasing(LocalExecutor):
        """Ends the other command once this one has found something else to do."""

        def poll(self, handle: object) -> int | None:
            code = super().poll(handle)
            if code is not None and is_locked(tmp_path, "held"):
                folder = tmp_path / "pretrain-fake-held"
                folder.mkdir()
                (folder / "result.json").touch()
                (tmp_path / "grid" / "held.json").write_text(json.dumps({"key": "held", "status": "done", "folder": str(folder)}))
                lock.release()
            return code

    lock = NodeLock(tmp_path, "held")
    assert lock.acquire()
    assert carry_out(plan, tmp_path, executor=Releasing(1, 1)).done
    assert [name for what, name in journal(tmp_path) if what == "begin"] == ["free", "after"]


def test_a_lock_is_held_until_its_last_holder_ends(tmp_path: Path) -> None:
    first, second = NodeLock(tmp_path, "a"), NodeLock(tmp_path, "a")
    assert not is_locked(tmp_path, "a")
    assert first.acquire()
    inherited = os.dup(first.descriptor)
    first.release()
    assert not second.acquire(patience=0.1)
    assert is_locked(tmp_path, "a")
    os.close(inherited)
    assert second.acquire()


def test_any_executor_will_do(tmp_path: Path) -> None:
    """One that takes everything and runs it later, in an order of its own, as a queue does."""

    class Later:
        is_queue = False
        words = ("trainer=gpu",)
        pause = 0.0

        def __init__(self) -> None:
            self.tasks: list[Task] = []
            self.ended: dict[str, int] = {}
            self.closed = False

        def capacity(self) -> int:
            return 100

        def find(self, key: str) -> None:
            raise AssertionError("nothing outlives this process")

        def submit(self, tasks: Sequence[Task]) -> list[str]:
            self.tasks += tasks
            return [task.key for task in tasks]

        def poll(self, handle: str) -> int | None:
            if handle not in self.ended:
                key = self.tasks.pop().key
                write_result(tmp_path, key)
                self.ended[key] = 0
            return self.ended.get(handle)

        def begun(self, handle: str) -> bool:
            return True

        def how_it_ended(self, handle: str) -> str:
            raise AssertionError("all end well")

        def cancel(self, handle: str, *, at_once: bool) -> None:
            raise AssertionError("nothing is to be stopped")

        def close(self) -> None:
            self.closed = True

    later = Later()
    plan = plan_of(pretraining("a"), pretraining("b"), pretraining("c"), finetuning("a1", "a"), finetuning("b1", "b"))
    assert carry_out(plan, tmp_path, executor=later).done
    assert later.closed
    assert len(later.ended) == 5


def write_result(runs: Path, key: str) -> None:
    """What a run leaves that is done."""
    folder = runs / key
    folder.mkdir()
    (folder / "result.json").touch()
    (runs / "grid").mkdir(exist_ok=True)
    (runs / "grid" / f"{key}.json").write_text(json.dumps({"key": key, "status": "done", "folder": str(folder)}))
