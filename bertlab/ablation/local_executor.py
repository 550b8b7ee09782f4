"""Tasks as processes of this machine: so many at a time, the cores or the GPUs divided among them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

from bertlab.ablation.executor import BERTLAB, Task
from bertlab.ablation.failures import exit_in_words
from bertlab.ablation.templates import Templates
from bertlab.cluster.alone import alone
from bertlab.data.workers import available_cores
from bertlab.errors import UserError

MEMORY_OF_A_RUN = 1.5 * 2**30  # bytes that a run is given room for where it is not said how many run at a time

_COLORS = ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")  # they would draw bars into logs


class Process(Protocol):
    """A task that was started."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""

    def send_signal(self, signum: int) -> None:
        """Send it a signal."""


class LocalExecutor:
    """Up to ``jobs`` tasks at a time, each in a process group of its own, with ``threads`` of the cores, or with GPUs of its own.

    When this process ends, in whatever way, the tasks notice it by a pipe that ends with it, and stop their runs.
    """

    is_queue = False
    pause = 0.1

    def __init__(self, jobs: int, threads: int, gpus: Sequence[str] = (), *, forking: bool = False) -> None:
        """Divide the machine.

        Args:
            jobs: tasks at a time.
            threads: of each.
            gpus: for each slot what its tasks see as CUDA_VISIBLE_DEVICES; slots beyond share them in turn. Empty: they see all.
            forking: import what trainings need once for all tasks, see ``template``; not with GPUs.
        """
        self.jobs, self.threads, self.gpus = jobs, threads, tuple(gpus)
        self._slots: dict[int, Process] = {}
        self._life, self._held = os.pipe()  # the reading end for the tasks; the writing end closes with this process
        self._templates = Templates(self._life, self._environment(0)) if forking else None

    @property
    def words(self) -> tuple[str, ...]:
        """Each run takes its share of the cores."""
        return (f"trainer.threads={self.threads}",)

    def capacity(self) -> int:
        """Free slots."""
        return self.jobs - len(self._slots)

    def find(self, key: str) -> None:
        """Tasks do not outlive the command that started them."""

    def submit(self, tasks: Sequence[Task]) -> list[Process]:
        """Start tasks."""
        return [self._start(task) for task in tasks]

    def _start(self, task: Task) -> Process:
        slot = min(set(range(self.jobs)) - set(self._slots))
        task.log.parent.mkdir(parents=True, exist_ok=True)
        if self._templates is not None and task.assignment.program == BERTLAB:
            self._slots[slot] = self._templates.start(task)
        else:
            self._slots[slot] = self._started(task, slot)
        return self._slots[slot]

    def _started(self, task: Task, slot: int) -> Process:
        with task.log.open("ab") as log:  # the task itself is silent; should it fail, it says here why
            return subprocess.Popen(
                [*task.command, str(self._life)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(slot),
                pass_fds=(self._life,),
                start_new_session=True,  # Ctrl-C in the terminal reaches this process alone, which passes it on
            )

    def poll(self, handle: Process) -> int | None:
        """The exit code, or None while the task runs."""
        code = handle.poll()
        if code is not None:
            self._slots = {slot: process for slot, process in self._slots.items() if process is not handle}
        return code

    def begun(self, handle: Process) -> bool:
        """A process runs from its start on."""
        return True

    def how_it_ended(self, handle: Process) -> str:
        """By its exit code."""
        return exit_in_words(handle.poll() or 0)

    def cancel(self, handle: Process, *, at_once: bool) -> None:
        """Signals to the task, see ``runner``."""
        handle.send_signal(signal.SIGINT if at_once else signal.SIGTERM)

    def close(self) -> None:
        """End what was kept for further tasks."""
        if self._templates is not None:
            self._templates.close()
        for descriptor in (self._held, self._life):
            os.close(descriptor)

    def _environment(self, slot: int) -> dict[str, str]:
        environment = {name: value for name, value in alone(os.environ).items() if name not in _COLORS}
        threads = str(self.threads)
        environment |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "NO_COLOR": "1"}
        environment |= {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false" if self.threads == 1 else "true"}
        if self.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self.gpus[slot % len(self.gpus)]
        return environment


def local_executor(
    jobs: int | None = None, threads: int | None = None, *, devices: int = 1, gpus: Sequence[str] | None = None
) -> LocalExecutor:
    """The processes that suit this machine.

    Args:
        jobs: tasks at a time. None: one a GPU, or, without GPUs, one a core and as many as the memory has room for.
        threads: of each. None: the cores divided among the jobs.
        devices: GPUs, or on a CPU processes, that one run takes (``trainer.devices``).
        gpus: those to use; none: the CPU. None: those of this machine that PyTorch can use.

    Raises:
        UserError: a number that is none, or more devices for a run than there are.
    """
    for name, number in (("--jobs", jobs), ("--threads", threads), ("trainer.devices", devices)):
        if number is not None and number < 1:
            raise UserError(f"{name} is {number}: give 1 or more.")
    gpus, cores = visible_gpus(os.environ) if gpus is None else gpus, available_cores()
    if gpus and devices > len(gpus):
        raise UserError(f"trainer.devices={devices} is more GPUs than there are: set trainer.devices={len(gpus)}, or less.")
    groups = [",".join(gpus[first : first + devices]) for first in range(0, len(gpus) - devices + 1, devices)]
    if jobs is None:
        jobs = len(groups) or max(1, min(cores // devices, int(_free_memory() / (MEMORY_OF_A_RUN * devices))))
    return LocalExecutor(jobs, threads or max(1, cores // (jobs * (1 if gpus else devices))), groups, forking=not gpus and devices == 1)


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """Those that CUDA_VISIBLE_DEVICES names, or, where it is not set, the numbers of all; none where PyTorch cannot use them."""
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is not None and (not named.strip() or named.strip() == "-1"):
        return []
    if named is None and shutil.which("nvidia-smi") is None:
        return []  # what is asked below takes seconds
    asked = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"], capture_output=True, text=True, check=False
    )
    there = int(asked.stdout) if asked.returncode == 0 and asked.stdout.strip().isdigit() else 0
    return [name.strip() for name in named.split(",")][:there] if named is not None else [str(number) for number in range(there)]


def _free_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().available)
