"""The processes of a run on several nodes: ``python -m bertlab.cluster.step NODES PROCESSES CORES COMMAND…``, in the place of srun.

PROCESSES are those of each node, CORES those of each process (0: as SLURM gives them). All of it is said to srun, whatever the
environment has of it. srun itself, asked to end by SIGTERM, kills the run's processes, which then cannot save its state: here they are
asked.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from bertlab.cluster import queue
from bertlab.cluster.queue import QueueSilent
from bertlab.interruption import is_a_repetition

_PAUSE = 0.1  # seconds between two looks at the processes


def run_step(nodes: int, processes: int, cores: int, command: Sequence[str]) -> int:
    """Start the processes and wait for their end; returns the exit code of the one that failed, or 0."""
    asked = _Asked()
    child = subprocess.Popen([*_srun(nodes, processes, cores), *command])
    told = 0
    while (code := child.poll()) is None:
        if asked.times > told:
            told = asked.times
            if told > 1 or not _processes_asked():
                child.send_signal(signal.SIGTERM)
        time.sleep(_PAUSE)
    return code if code >= 0 else 128 - code


def _srun(nodes: int, processes: int, cores: int) -> list[str]:
    words = ["srun", "--kill-on-bad-exit=1", "--unbuffered", f"--nodes={nodes}", f"--ntasks={nodes * processes}"]
    # Since SLURM 22.05 srun does not take the cores of a process over from the job.
    return [*words, f"--ntasks-per-node={processes}", *([f"--cpus-per-task={cores}"] if cores else [])]


def _processes_asked() -> bool:
    """Whether they could be asked to save the state and end."""
    try:
        queue.ask_processes(os.environ["SLURM_JOB_ID"])
    except QueueSilent:
        return False
    return True


class _Asked:
    """How often this process was asked to end."""

    def __init__(self) -> None:
        self.times = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, self._note)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.times += not (self.times and is_a_repetition(signum))


if __name__ == "__main__":
    sys.exit(run_step(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
