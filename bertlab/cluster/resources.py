"""What a job asks SLURM for, from ``launcher`` and ``trainer``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bertlab.config import LauncherConfig, TrainerConfig


def is_bare(value: str) -> bool:
    """Whether an option of sbatch stands without a value, as --exclusive does: said as NAME=true."""
    return value.lower() == "true"


@dataclass(frozen=True)
class Resources:
    """Of one job, or of each job of an array."""

    launcher: LauncherConfig
    nodes: int
    devices: int  # of a node
    gpus: int  # of a node

    @classmethod
    def of(cls, launcher: LauncherConfig, trainer: TrainerConfig, has_gpus: Callable[[str | None], bool]) -> Resources:
        """Those of a run. ``has_gpus``: whether the nodes of a partition have GPUs; asked only where the run takes what there is."""
        gpus = launcher.gpus
        if gpus is None:
            takes = trainer.accelerator == "gpu" or (trainer.accelerator == "auto" and has_gpus(launcher.partition))
            gpus = trainer.devices if takes else 0
        return cls(launcher, nodes=trainer.nodes, devices=trainer.devices, gpus=gpus)

    @property
    def start(self) -> tuple[str, ...]:
        """What stands before the run's command: on one node Lightning starts the further processes, on several SLURM does."""
        if self.nodes == 1:
            return ()
        shape = (self.nodes, self.devices, self.launcher.cpus or 0)
        return (sys.executable, "-m", "bertlab.cluster.step", *map(str, shape))

    @property
    def words(self) -> tuple[str, ...]:
        """Overrides of the run that follow: a job that asked for cores uses as many, also where the queue does not confine it to them."""
        return () if self.launcher.cpus is None else (f"trainer.threads={self.launcher.cpus}",)

    def parameters(self) -> dict[str, Any]:
        """As submitit's executor takes them."""
        launcher, tasks = self.launcher, self.devices if self.nodes > 1 else 1
        return {
            "partition": launcher.partition,
            "account": launcher.account,
            "qos": launcher.qos,
            "constraint": launcher.constraint,
            "time": launcher.time,
            "nodes": self.nodes,
            "ntasks_per_node": tasks,
            "gpus_per_node": self.gpus or None,
            "cpus_per_task": None if launcher.cpus is None else launcher.cpus * self.devices // tasks,
            "wckey": None,  # submitit would set its own name
        }

    def options(self) -> dict[str, Any]:
        """Those of sbatch that submitit has no word for, or another value."""
        return {
            # To the batch process alone: any other process of a job that has no handler for the signal would die of it.
            "signal": f"B:USR2@{self.launcher.warning}",
            "requeue": True,
            **({} if self.launcher.memory is None else {"mem": self.launcher.memory}),
            **{name: is_bare(value) or value for name, value in self.launcher.options.items()},
        }

    def in_words(self) -> str:
        """For people: ``partition gpu, 4 GPUs, 1-00:00:00, at most 8 at a time``."""
        launcher = self.launcher
        words = [f"partition {launcher.partition or 'of the cluster'}"]
        words += [f"{name} {value}" for name in ("account", "qos", "constraint") if (value := getattr(launcher, name)) is not None]
        words += [f"{self.nodes} nodes"] if self.nodes > 1 else []
        words += [f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}{' a node' if self.nodes > 1 else ''}"] if self.gpus else ["no GPU"]
        words += [f"{launcher.cpus} cores a process"] if launcher.cpus is not None else []
        words += [f"{launcher.memory} of memory"] if launcher.memory is not None else []
        words += [f"limit {launcher.time}"] if launcher.time is not None else ["the partition's time limit"]
        words += [name if is_bare(value) else f"{name}={value}" for name, value in launcher.options.items()]
        words += [f"at most {launcher.concurrency} at a time"] if launcher.concurrency is not None else []
        return ", ".join(words)
