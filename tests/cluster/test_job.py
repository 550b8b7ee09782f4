"""The batch process of a job, with a scontrol that only notes what it is asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bertlab.cluster.submission import COMMANDS, End, read_end

# Says that it has begun; then waits for what it is told, and ends as the first argument says.
COMMAND = """
import os, signal, sys, time
from pathlib import Path
here = Path(sys.argv[1])
signals = []
if sys.argv[2] != "die":
    signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
(here / "begun").write_text(" ".join(name for name in os.environ if name.startswith(("SLURM_NTASKS", "SLURM_PROCID", "BERTLAB_LOCK"))))
while not signals and not (here / "go").exists():
    time.sleep(0.02)
(here / "signals").write_text(str(len(signals)))
print("something")
print(here)
sys.exit(int(sys.argv[2]) if not signals else 143)
"""


class Job:
    """One that runs."""

    def __init__(self, folder: Path, ends: str, restarts: int = 0, requeues: int = 5, left: str = "UNLIMITED") -> None:
        self.folder = folder
        (folder / "program.py").write_text(COMMAND)
        command = {"key": "k", "title": "a run", "words": [sys.executable, str(folder / "program.py"), str(folder), ends]}
        (folder / COMMANDS).write_text(json.dumps({"requeues": requeues, "warning": 30, "commands": [{}, {}, command]}))
        programs = folder / "bin"
        programs.mkdir()
        (programs / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n')
        (programs / "squeue").write_text(f"#!/bin/sh\ntouch {folder}/squeue_asked\necho {left}\n")
        for program in programs.iterdir():
            program.chmod(0o755)
        slurm = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}
        slurm |= {"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}
        environment = {**os.environ, **slurm, "PATH": f"{programs}:{os.environ['PATH']}"}
        words = [sys.executable, "-m", "bertlab.cluster.job", str(folder)]
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: (folder / "begun").exists())

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err

    @property
    def asked(self) -> str:
        path = self.folder / "asked"
        return path.read_text() if path.exists() else ""


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_commands_end_is_the_jobs(tmp_path: Path) -> None:
    job = Job(tmp_path, ends="0")
    (tmp_path / "go").touch()
    code, out, err = job.end()
    assert (code, out) == (0, f"something\n{tmp_path}\n")
    assert "job 7_2: a run" in err
    assert read_end(tmp_path, 2) == End(0, str(tmp_path))
    assert (tmp_path / "begun").read_text() == "BERTLAB_LOCK_SECONDS"  # alone, and patient with locks of a node that was lost
    assert job.asked == ""


def test_a_failure_is_the_jobs(tmp_path: Path) -> None:
    job = Job(tmp_path, ends="3")
    (tmp_path / "go").touch()
    assert job.end()[0] == 3
    end = read_end(tmp_path, 2)
    assert end is not None
    assert (end.code, end.folder) == (3, None)


@pytest.mark.parametrize("ends", ["0", "die"], ids=["which saves its state", "which has none yet"])
def test_near_the_time_limit_the_command_stops_and_the_job_is_queued_again(ends: str, tmp_path: Path) -> None:
    job = Job(tmp_path, ends)
    job.process.send_signal(signal.SIGUSR2)
    code, _, err = job.end()
    assert "The time limit is near" in err
    assert job.asked == "requeue 7_2\n"
    assert code != 0  # or jobs that depend on this one would begin
    assert read_end(tmp_path, 2) is None
    assert ends == "die" or (tmp_path / "signals").read_text() == "1"


def test_a_signal_that_slurm_sends_too_early_is_heeded_when_it_is_time(tmp_path: Path) -> None:
    job = Job(tmp_path, ends="0", left="1:25")
    job.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: (tmp_path / "squeue_asked").exists())
    (tmp_path / "go").touch()
    code, _, err = job.end()
    assert (code, job.asked, "time limit" in err) == (0, "", False)


def test_with_little_time_left_it_is_heeded_at_once(tmp_path: Path) -> None:
    job = Job(tmp_path, ends="0", left="0:30")
    job.process.send_signal(signal.SIGUSR2)
    assert "The time limit is near" in job.end()[2]
    assert job.asked == "requeue 7_2\n"


def test_what_ends_well_in_spite_of_the_warning_is_not_queued_again(tmp_path: Path) -> None:
    job = Job(tmp_path, ends="0")
    (tmp_path / "go").touch()
    wait_until(lambda: (tmp_path / "signals").exists())
    job.process.send_signal(signal.SIGUSR2)
    assert job.end()[0] == 0
    assert (job.asked, read_end(tmp_path, 2)) == ("", End(0, str(tmp_path)))


def test_it_is_given_up_when_it_was_queued_again_too_often(tmp_path: Path) -> None:
    job = Job(tmp_path, ends="0", restarts=5, requeues=5)
    job.process.send_signal(signal.SIGUSR2)
    code, _, err = job.end()
    assert code == 143
    assert "launcher.requeues=5" in err
    assert job.asked == ""
    assert read_end(tmp_path, 2) == End(143, "")


def test_slurm_ends_the_job(tmp_path: Path) -> None:
    """It sends the signal to every process itself; whether the job begins again is its own affair, so no end is noted."""
    job = Job(tmp_path, ends="0")
    job.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert not (tmp_path / "signals").exists()  # the command has its signal of SLURM, not a second one of this process
    (child,) = children_of(job.process.pid)
    os.kill(child, signal.SIGTERM)
    code, _, _ = job.end()
    assert code == 143
    assert (job.asked, read_end(tmp_path, 2)) == ("", None)


def test_one_that_was_begun_again_elsewhere_says_nothing_of_its_end(tmp_path: Path) -> None:
    """Its node was out of reach, and it never knew."""
    job = Job(tmp_path, ends="3")
    (tmp_path / "2.attempt").write_text("1")
    (tmp_path / "go").touch()
    assert job.end()[0] == 3
    assert read_end(tmp_path, 2) is None


def children_of(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
