"""Real trainings as jobs of a real SLURM: put back, preempted, out of time, their node lost. Their weights are those of one left alone."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster

STEPS = 400
SEEN = 40  # steps that a run has logged before something happens to it

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A small pre-training on a corpus of its own; its state is saved when it is asked to stop, and not before its end."""
    folder, draw = tmp_path_factory.mktemp("text"), random.Random(7)
    for number in range(12):
        lines = [" ".join(draw.choice("abcdefgh") * draw.randint(1, 4) for _ in range(8)) for _ in range(30)]
        (folder / f"{number:02d}.txt").write_text("".join(f"{line}.\n" for line in lines))
    cache = tmp_path_factory.mktemp("cache")
    return [
        "model.layers=1", "model.hidden=32", "model.heads=2", "model.positions=64", "corpus=text", f"corpus.path={folder}",
        "corpus.held_out=0.2", "corpus.sentence_splitting=line", f"budget.steps={STEPS}", "trainer=cpu", "trainer.threads=1",
        "trainer.log_every=10", "logger=none", "tokenizer.vocab_size=120", "batch.sequences=8", "batch.length=24", "lengths=constant",
        "validation.sequences=16", "validation.every=100000", "checkpointing.every=100000", f"paths.cache={cache}",
    ]  # fmt: skip


@dataclass
class Calls:
    """Commands of ours within reach of the cluster, in a folder of their own."""

    cluster: SlurmCluster
    words: list[str]
    folder: Path

    def start(self, *more: str, verb: str = "pretrain") -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "bertlab", verb, *(self.words if verb == "pretrain" else []), *more]
        environment = {**self.cluster.environment, "NO_COLOR": "1"}
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self, *more: str, verb: str = "pretrain", code: int = 0) -> tuple[str, str]:
        """What a call prints on standard output, and on standard error."""
        call = self.start(*more, verb=verb)
        out, err = call.communicate(timeout=400)
        assert call.returncode == code, f"{out}\n{err}\n{self.cluster.logs()}"
        return out, err

    def queue(self, *more: str) -> str:
        """Queue the run; the job's id."""
        return self.run("launcher=slurm", "launcher.follow=false", *more)[0].strip()

    @property
    def run_folder(self) -> Path:
        (folder,) = (self.folder / "runs").glob("pretrain-*")
        return folder

    def steps_seen(self) -> int:
        rows = [row for path in (self.folder / "runs").glob("pretrain-*/metrics.jsonl") for row in path.read_text().splitlines()]
        return 10 * sum('"train"' in row for row in rows)

    def log(self) -> str:
        return "".join(path.read_text() for path in (self.folder / "runs" / "slurm").glob("*/*.log"))

    def wait_until(self, holds: Callable[[], bool]) -> None:
        self.cluster.wait_until(holds, seconds=240)

    def numbers(self) -> tuple[bytes, bytes]:
        return (self.run_folder / "model.safetensors").read_bytes(), (self.run_folder / "metrics.jsonl").read_bytes()


@pytest.fixture
def calls(slurm: SlurmCluster, words: list[str], tmp_path: Path) -> Iterator[Calls]:
    yield Calls(slurm, words, tmp_path)
    slurm.empty()


@pytest.fixture(scope="module")
def undisturbed(slurm: SlurmCluster, words: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Weights and metrics of the run that was never queued."""
    calls = Calls(slurm, words, tmp_path_factory.mktemp("whole"))
    calls.run()
    return calls.numbers()


def test_a_job_is_followed_to_its_end_and_left_alone_when_done(calls: Calls, undisturbed: tuple[bytes, bytes]) -> None:
    out, err = calls.run("launcher=slurm")
    job = re.search(r"queued as job (\d+)", err)
    assert job is not None
    assert f"step {STEPS} (100%)" in err  # of the job's log
    assert out.strip() == str(calls.run_folder)
    assert calls.numbers() == undisturbed
    out, err = calls.run("launcher=slurm")
    assert (out.strip(), "queued as job" in err) == (str(calls.run_folder), False)


def test_put_back_by_hand(calls: Calls, undisturbed: tuple[bytes, bytes]) -> None:
    job = calls.queue()
    calls.wait_until(lambda: calls.steps_seen() >= SEEN)
    calls.cluster.call("scontrol", "requeue", job)
    follower = calls.start("launcher=slurm")
    out, err = follower.communicate(timeout=400)
    assert (follower.returncode, out.strip()) == (0, str(calls.run_folder)), err
    assert f"in the queue already: job {job}" in err
    assert_went_on(calls, undisturbed)


def test_preempted(calls: Calls, undisturbed: tuple[bytes, bytes]) -> None:
    calls.queue("launcher.partition=main")
    calls.wait_until(lambda: calls.steps_seen() >= SEEN)
    calls.cluster.call("sbatch", "--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 2")
    calls.run("launcher=slurm", "launcher.partition=main")
    assert_went_on(calls, undisturbed)


def test_out_of_time(calls: Calls, undisturbed: tuple[bytes, bytes]) -> None:
    """The limit of a minute is real. The run is stopped in its middle until the signal comes, however fast the machine is."""
    calls.queue("launcher.time=1", "launcher.warning=10")
    calls.wait_until(lambda: calls.steps_seen() >= SEEN)
    training = process_of(calls.folder)
    os.kill(training, signal.SIGSTOP)
    calls.wait_until(lambda: "The time limit is near" in calls.log())
    os.kill(training, signal.SIGCONT)
    calls.run("launcher=slurm", "launcher.time=1", "launcher.warning=10")
    assert "The job is queued again" in calls.log()
    assert_went_on(calls, undisturbed)


def test_its_node_is_lost(calls: Calls, undisturbed: tuple[bytes, bytes]) -> None:
    """Nothing is signalled: the run goes on from its last saved state, and the steps after it are done once more."""
    job = calls.queue("++checkpointing.every=15")
    calls.wait_until(lambda: calls.steps_seen() >= SEEN)
    training = process_of(calls.folder)
    os.kill(training, signal.SIGSTOP)  # as if it were gone: it can save nothing
    node = calls.cluster.node(job)
    calls.cluster.lose_node(node)
    calls.wait_until(lambda: "queued again for time 1" in calls.log())  # on the other node; it waits for the locks of the one that is lost
    os.kill(training, signal.SIGKILL)
    calls.run("launcher=slurm", "++checkpointing.every=15")
    calls.cluster.bring_back(node)
    assert_went_on(calls, undisturbed)


def test_cancelled_jobs_are_queued_again_by_the_same_command(calls: Calls, undisturbed: tuple[bytes, bytes]) -> None:
    follower = calls.start("launcher=slurm")
    calls.wait_until(lambda: calls.steps_seen() >= SEEN)
    calls.cluster.call("scancel", "--me")
    out, err = follower.communicate(timeout=400)
    assert (follower.returncode, out) == (1, "")
    assert "has no result (CANCELLED); the same command queues it again" in err
    calls.run("launcher=slurm")
    assert_went_on(calls, undisturbed)


def test_who_follows_may_leave(calls: Calls, undisturbed: tuple[bytes, bytes]) -> None:
    follower = calls.start("launcher=slurm")
    calls.wait_until(lambda: calls.steps_seen() >= SEEN)
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out) == (130, "")
    assert "The jobs go on" in err
    calls.wait_until(lambda: (calls.run_folder / "result.json").is_file())
    assert calls.numbers() == undisturbed


def test_a_sweep_is_one_array(calls: Calls) -> None:
    more = ("-m", "seed=1,2,3", "launcher=slurm", "launcher.concurrency=2", "++budget.steps=20")
    out, err = calls.run(*more)
    assert len(out.split()) == 3
    assert all((Path(folder) / "result.json").is_file() for folder in out.split())
    assert "3 jobs of an array" in err
    (submission,) = (calls.folder / "runs" / "slurm").glob("*/*_submission.sh")
    assert "--array=0-2%2" in submission.read_text()


def test_one_run_on_two_nodes(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process on each, started by SLURM; stopped and put back as one. The run's numbers are those of two processes on one node."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    more = ("trainer.nodes=2", "launcher=slurm")
    job = calls.queue(*more)
    calls.wait_until(lambda: calls.steps_seen() >= SEEN)
    assert calls.cluster.node(job) == "one,two"
    calls.cluster.call("scontrol", "requeue", job)
    calls.run(*more)
    monkeypatch.delenv("MASTER_ADDR")
    here = Calls(calls.cluster, calls.words, calls.folder / "here")
    here.folder.mkdir()
    here.run("trainer.devices=2")
    assert_went_on(calls, here.numbers())


def test_the_time_of_one_run_on_two_nodes_is_short(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """SLURM's signal comes to the batch process alone; the processes on both nodes have to hear of it, and to save their state."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    more = ("trainer.nodes=2", "launcher=slurm")
    job = calls.queue(*more)
    calls.wait_until(lambda: calls.steps_seen() >= SEEN)
    calls.cluster.call("scancel", "--signal=USR2", "--batch", job)
    calls.wait_until(lambda: "The job is queued again" in calls.log())
    calls.run(*more)
    monkeypatch.delenv("MASTER_ADDR")
    here = Calls(calls.cluster, calls.words, calls.folder / "here")
    here.folder.mkdir()
    here.run("trainer.devices=2")
    assert_went_on(calls, here.numbers())


def test_what_a_run_says_of_its_failure_is_seen(calls: Calls) -> None:
    _, err = calls.run("launcher=slurm", "corpus.filter.min_words=100000", code=1)
    assert "No text was found" in err  # said by the job: the corpus is read there
    assert re.search(r"job \d+ failed with exit code 1", err)


def test_what_can_be_known_to_fail_is_not_queued(calls: Calls) -> None:
    _, err = calls.run("launcher=slurm", "++corpus.path=nowhere", code=2)
    assert "there is no such file or folder" in err
    assert not list((calls.folder / "runs").glob("slurm/*"))


def assert_went_on(calls: Calls, undisturbed: tuple[bytes, bytes]) -> None:
    """The run was resumed, at a step in its middle, and its numbers are those of the undisturbed one."""
    resumed = [int(step) for step in re.findall(r"resumed after step (\d+)", calls.log())]
    assert resumed, calls.log()
    assert all(SEEN - 15 <= step < STEPS for step in resumed)
    assert calls.numbers() == undisturbed


def process_of(folder: Path) -> int:
    """The training that writes into a folder."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"bertlab" in words and b"pretrain" in words and os.readlink(entry / "cwd") == str(folder):
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError("there is no such process")
