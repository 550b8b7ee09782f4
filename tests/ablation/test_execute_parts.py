"""What is read from logs, what is estimated, what is shown, and how a machine is divided."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fake_grids import finetuning, pretraining
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from bertlab.ablation import templates
from bertlab.ablation.executor import Assignment, Task
from bertlab.ablation.failures import last_words, reason_of
from bertlab.ablation.graph import FINETUNING, PRETRAINING, Node
from bertlab.ablation.live_view import LiveView, LogView, summary
from bertlab.ablation.local_executor import local_executor, visible_gpus
from bertlab.ablation.run_progress import Progress, read_progress
from bertlab.ablation.run_states import RunState, State
from bertlab.ablation.time_left import seconds_left, seconds_left_of, share_done
from bertlab.data.workers import available_cores
from bertlab.errors import UserError

# Templates

OBEDIENT = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"ended": json.loads(line)["start"], "code": 0}), flush=True)
"""


def test_a_template_that_was_killed_while_it_had_nothing_to_do_costs_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "TEMPLATE", (sys.executable, "-c", OBEDIENT))
    reading, writing = os.pipe()
    used = templates.Templates(reading, os.environ)

    def code_of(key: str) -> int:
        task = used.start(Task(key, key, Assignment(pretraining(key), tmp_path, ()), tmp_path / "log"))
        deadline = time.monotonic() + 30.0
        while (code := task.poll()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return code

    try:
        assert code_of("one") == 0
        assert used._current is not None
        assert used._current._process is not None
        used._current._process.kill()
        assert used._current._process.wait() == -signal.SIGKILL
        assert code_of("two") == 0
    finally:
        used.close()
        os.close(reading)
        os.close(writing)


# Failures


def test_the_sentence_of_a_mistake() -> None:
    log = (
        "bertlab: warning: norm=batch sees later tokens.\n"
        "step 10 (17%) · loss 8.044 · 3,068 tokens/s · 36 s left\n"
        "bertlab: The run runs/x failed at step 20:\nthe loss became nan. Lower optimizer.lr.\n"
        "wandb: You can sync this run to the cloud\n"
    )
    assert last_words(log) == "The run runs/x failed at step 20:\nthe loss became nan. Lower optimizer.lr."
    assert reason_of(1, log, PRETRAINING) == last_words(log)


def test_without_a_sentence_the_last_lines() -> None:
    log = "Tokenising: 3%, 1.0 MB/s, about 1 min left\n" + "".join(f"\x1b[31mline {number}\x1b[0m\r\n" for number in range(20))
    assert last_words(log).splitlines() == [f"line {number}" for number in range(12, 20)]
    assert last_words("") == ""
    assert reason_of(3, "", PRETRAINING) == "It ended with exit code 3 and said nothing."


def test_what_to_lower_when_memory_runs_out() -> None:
    assert "tuning.micro" in reason_of(-signal.SIGKILL, "", FINETUNING)
    assert "batch.micro" in reason_of(-signal.SIGKILL, "", PRETRAINING)
    said = "bertlab: stopped by OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert reason_of(1, said, FINETUNING).endswith(
        "The memory ran out: run fewer at once (--jobs), or set tuning.micro to a part of tuning.batch."
    )
    assert "bertlab" not in reason_of(143, "", PRETRAINING)
    assert "SIGTERM" in reason_of(143, "", PRETRAINING)


# Progress


def test_progress(tmp_path: Path) -> None:
    log, rows = tmp_path / "log", tmp_path / "pretrain-tiny-mlm-0123abcd" / "throughput.jsonl"
    assert read_progress(log, tmp_path) == Progress()
    log.write_text("$ python -m bertlab pretrain\nAnother process is making stores/x: waiting for it.\n")
    assert read_progress(log, tmp_path) == Progress(note="Another process is making stores/x: waiting for it.")
    with log.open("a") as file:
        file.write("pretrain-tiny-mlm-0123abcd: 760,322 parameters, 4,000 steps, resumed after step 1,000\n")
    assert read_progress(log, tmp_path).share == 0.25
    rows.parent.mkdir()
    rows.write_text(json.dumps({"step": 2000, "seconds": 3.0, "tokens_per_second": 512.5}) + '\n{"step": 3000, "sec')
    progress = read_progress(log, tmp_path)
    assert (progress.begun, progress.share, progress.rate) == (True, 0.5, 512.5)


def test_progress_of_a_budget_of_time_and_of_a_finetuning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name, announced, share in (
        ("pretrain-tiny-ltr-0123abcd", "760,322 parameters, 2.5 minutes, resumed after step 100", 0.4),
        ("pretrain-tiny-ltr-1123abcd", "760,322 parameters, 1 minute", 1.0),
        ("finetune-mnli-tiny-0123abcd", "1,000 examples, 20 of 760,322 parameters trained, 120 steps", 0.5),
        ("finetune-mnli-tiny-1123abcd", "1 example, 20 of 760,322 parameters trained, 1 step, resumed after step 0", 1.0),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "throughput.jsonl").write_text(json.dumps({"step": 60, "seconds": 60.0, "tokens_per_second": 1.0}) + "\n")
        log.write_text(f"{name}: {announced}\n")
        assert read_progress(log, tmp_path).share == pytest.approx(share)
    log.write_text("pretrain-x: , steps\npretrain-x: e steps\npretrain-x: 1,2.e minutes\n")  # numbers that are none
    assert not read_progress(log, tmp_path).begun


@given(st.binary(max_size=300))
def test_any_log_is_read(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "log").write_bytes(content)
        read_progress(Path(folder) / "log", Path(folder))
        last_words(content.decode(errors="replace"))


# Estimates


def at(
    state: State, node: Node, share: float = 0.0, elapsed: float | None = None, seconds: float | None = None, first: float = 0.0
) -> RunState:
    run = RunState(node, state, seconds=seconds, progress=Progress(begun=share > 0, share=share), first_share=first)
    run.begun_at = None if elapsed is None else time.monotonic() - elapsed
    return run


def test_time_left_by_the_rates_seen() -> None:
    runs = [
        at(State.DONE, pretraining("a"), share=1.0, elapsed=500.0, seconds=100.0),
        at(State.RUNNING, pretraining("b"), share=0.5, elapsed=50.0),
        at(State.WAITING, pretraining("c")),
        at(State.DONE, finetuning("a1", "a"), share=1.0, elapsed=90.0, seconds=20.0),
        at(State.RUNNING, finetuning("a2", "a"), share=0.25, elapsed=5.0),
        at(State.WAITING, finetuning("c1", "c")),
    ]
    assert seconds_left(runs) == pytest.approx(100, rel=0.01)  # no shorter than the longest run, although 185 are shared by two
    assert share_done(runs) == pytest.approx((1.5 * 1e9 + 1.25 * 1e8) / (3 * 1e9 + 3 * 1e8))
    more = [*runs, at(State.WAITING, pretraining("d")), at(State.FAILED, pretraining("e"))]
    assert seconds_left(more) == pytest.approx((50 + 100 + 100 + 15 + 20) / 2, rel=0.01)
    assert share_done(more) == pytest.approx((2.5 * 1e9 + 1.25 * 1e8) / (5 * 1e9 + 3 * 1e8))  # what has failed is done with


def test_time_left_of_a_resumed_run_and_of_one_of_unknown_size() -> None:
    # A tenth took 10 seconds: the rest of this one takes 20, and the other, after it, 100.
    runs = [at(State.RUNNING, pretraining("a"), share=0.8, elapsed=10.0, first=0.7), at(State.WAITING, pretraining("b"))]
    assert seconds_left(runs) == pytest.approx(120, rel=0.01)
    unknown = replace(pretraining("c"), flops=0.0)  # counts as much as the mean of the others, 5.5e8
    runs = [at(State.DONE, pretraining("a")), at(State.WAITING, finetuning("a1", "a")), at(State.WAITING, unknown)]
    assert share_done(runs) == pytest.approx(1e9 / 1.65e9)


def test_time_left_is_unknown_until_something_was_seen() -> None:
    runs = [at(State.RUNNING, pretraining("a"), elapsed=10.0), at(State.WAITING, pretraining("b"))]
    assert seconds_left(runs) is None
    assert seconds_left([at(State.DONE, pretraining("a"))]) == 0.0
    # One that resumed goes by what it has done since; one that was found finished says nothing.
    assert seconds_left_of(at(State.RUNNING, pretraining("a"), share=0.8, elapsed=10.0, first=0.7)) == pytest.approx(20.0, rel=0.01)
    found = [at(State.DONE, pretraining("a"), elapsed=4.0, seconds=3.0), at(State.WAITING, pretraining("b"))]
    assert seconds_left(found) is None


# Views


def some_runs() -> list[RunState]:
    failed = at(State.FAILED, pretraining("bad"))
    failed.reason = "The loss became nan.\nLower optimizer.lr [x]."
    waiting = at(State.RUNNING, finetuning("a3", "a"), elapsed=3.0)
    waiting.progress = Progress(note="Another process is making it: waiting for it.")
    going = at(State.RUNNING, finetuning("a1", "a"), share=0.5, elapsed=60.0)
    going.progress = Progress(begun=True, share=0.5, rate=12345.0)
    return [at(State.DONE, pretraining("a")), going, waiting, at(State.WAITING, finetuning("a2", "a")), failed]


@pytest.mark.parametrize("width", [30, 80, 160])
def test_the_picture_fits(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, no_color=True)
    console.print(LiveView(console, "table5").picture(some_runs()))
    assert isinstance(console.file, io.StringIO)
    lines = Text.from_ansi(console.file.getvalue()).plain.splitlines()
    assert len(lines) == 4
    assert all(len(line) <= width for line in lines)
    if width == 160:
        assert lines[0] == "table5 · 1 of 5 runs done · 1 waiting · 2 running · 1 failed"
        assert "50% · 12,345 tokens/s · 1 min 00 s left" in lines[2]
        assert "Another process is making it: waiting for it." in lines[3]


def test_failures_stay_on_the_screen() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, no_color=True)
    runs = some_runs()
    with LiveView(console, "table5") as view:
        view.changed(runs[4], runs)
        view.stopping(2, at_once=False)
    assert isinstance(console.file, io.StringIO)
    assert "    Lower optimizer.lr [x]." in console.file.getvalue()
    assert "Stopping: 2 runs save their state." in console.file.getvalue()


def test_a_log_gets_a_line_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    runs = some_runs()
    with LogView("table5") as view:
        view.show(runs)
        view.show(runs)
        view.changed(runs[1], runs)
        runs[1].state, runs[1].seconds = State.DONE, 61.0
        view.changed(runs[1], runs)
        view.changed(runs[4], runs)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"bertlab: table5: {summary(some_runs())}"
    assert lines[1] == "bertlab: begun: finetune table: a1"
    assert lines[2].startswith("bertlab: done (2 of 5) in 1 min 01 s: finetune table: a1; about ")
    assert lines[3:] == ["bertlab: failed: pretrain bad", "    The loss became nan.", "    Lower optimizer.lr [x]."]


# The machine


def test_cores_are_divided() -> None:
    executor = local_executor(jobs=2, gpus=())
    assert (executor.jobs, executor.threads) == (2, max(1, available_cores() // 2))
    executor = local_executor(gpus=())
    assert 1 <= executor.jobs <= available_cores()
    assert executor.jobs * executor.threads <= available_cores()
    assert local_executor(jobs=1000, gpus=()).threads == 1
    assert local_executor(jobs=3, threads=5, gpus=()).words == ("trainer.threads=5",)


def test_gpus_are_divided() -> None:
    assert local_executor(gpus=["0", "1", "2", "3", "4"], devices=2).gpus == ("0,1", "2,3")
    executor = local_executor(gpus=["GPU-a", "GPU-b"])
    assert executor.jobs == 2
    assert local_executor(jobs=4, gpus=["0", "1"]).gpus == ("0", "1")  # two runs share each


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"threads": -1}, {"devices": 3, "gpus": ["0"]}])
def test_numbers_that_are_none(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError):
        local_executor(**wrong)


def test_gpus_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == visible_gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == []
    counting = tmp_path / "python"
    counting.write_text("#!/bin/sh\necho 2\n")
    counting.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(counting))
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b,GPU-c"}) == ["GPU-a", "GPU-b"]
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert visible_gpus({}) == ["0", "1"]
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert visible_gpus({}) == []
