"""What starts the processes of a run on several nodes, with an srun and a scancel that only note what they are asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SRUN = """#!{python}
import os, signal, sys, time
from pathlib import Path
here = Path("{here}")
def end(number, frame):
    (here / "killed").touch()
    sys.exit(137)
signal.signal(signal.SIGTERM, end)
(here / "srun").write_text(" ".join(sys.argv[1:]))
while not (here / "asked").exists():
    time.sleep(0.02)
sys.exit(int(sys.argv[-1]))
"""


def step(folder: Path, *words: str, scancel: str) -> subprocess.Popen[bytes]:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "srun").write_text(SRUN.format(python=sys.executable, here=folder))
    (programs / "scancel").write_text(f"#!/bin/sh\n{scancel}\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    environment = {**os.environ, "SLURM_JOB_ID": "9", "PATH": f"{programs}:{os.environ['PATH']}"}
    process = subprocess.Popen([sys.executable, "-m", "bertlab.cluster.step", *words], env=environment)
    deadline = time.monotonic() + 60
    while not (folder / "srun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_the_processes_are_asked_and_srun_is_not(tmp_path: Path) -> None:
    process = step(tmp_path, "2", "4", "3", "train", "143", scancel=f'echo "$@" >> {tmp_path}/asked')
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # by SLURM, and passed on by who looks after the run
    assert process.wait(timeout=60) == 143
    assert (tmp_path / "asked").read_text() == "--signal=TERM 9\n"
    assert not (tmp_path / "killed").exists()
    said = (tmp_path / "srun").read_text().split()
    assert {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=3", "--kill-on-bad-exit=1"} <= set(said)
    assert said[-2:] == ["train", "143"]


@pytest.mark.parametrize("code", [0, 3])
def test_the_end_is_sruns(code: int, tmp_path: Path) -> None:
    process = step(tmp_path, "2", "1", "0", str(code), scancel="exit 1")
    (tmp_path / "asked").touch()
    assert process.wait(timeout=60) == code
    assert "--cpus-per-task" not in (tmp_path / "srun").read_text()


def test_where_the_processes_cannot_be_asked_srun_ends_them(tmp_path: Path) -> None:
    process = step(tmp_path, "2", "1", "0", "0", scancel="exit 1")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 137
    assert (tmp_path / "killed").exists()
