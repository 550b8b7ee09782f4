"""What a run asks SLURM for."""

from __future__ import annotations

import sys

import pytest

from bertlab.cluster.resources import Resources
from bertlab.config import LauncherConfig, TrainerConfig


@pytest.mark.parametrize(
    ("accelerator", "there", "given", "gpus"),
    [
        ("auto", True, None, 4), ("auto", False, None, 0), ("auto", True, 0, 0),
        ("cpu", True, None, 0), ("cpu", False, 2, 2), ("gpu", False, None, 4),
    ],
)  # fmt: skip
def test_gpus(accelerator: str, there: bool, given: int | None, gpus: int) -> None:
    asked: list[str | None] = []

    def has_gpus(partition: str | None) -> bool:
        asked.append(partition)
        return there

    launcher = LauncherConfig(partition="p", gpus=given)
    resources = Resources.of(launcher, TrainerConfig(accelerator=accelerator, devices=4), has_gpus)
    assert resources.gpus == gpus
    assert resources.parameters()["gpus_per_node"] == (gpus or None)
    assert asked == (["p"] if accelerator == "auto" and given is None else [])


def test_on_one_node_the_run_starts_its_processes_and_on_several_slurm_does() -> None:
    launcher = LauncherConfig(cpus=3)
    one = Resources.of(launcher, TrainerConfig(accelerator="gpu", devices=4), lambda partition: True)
    several = Resources.of(launcher, TrainerConfig(accelerator="gpu", devices=4, nodes=2), lambda partition: True)
    shape = ("nodes", "ntasks_per_node", "cpus_per_task", "gpus_per_node")
    assert [one.parameters()[name] for name in shape] == [1, 1, 12, 4]
    assert [several.parameters()[name] for name in shape] == [2, 4, 3, 4]
    assert (one.start, several.start) == ((), (sys.executable, "-m", "bertlab.cluster.step", "2", "4", "3"))
    assert one.words == ("trainer.threads=3",)


def test_options_of_ones_own() -> None:
    launcher = LauncherConfig(memory="64G", warning=60, options={"exclude": "n[1-3]", "exclusive": "True", "contiguous": "true"})
    resources = Resources.of(launcher, TrainerConfig(accelerator="cpu"), lambda partition: True)
    bare = {"exclusive": True, "contiguous": True}  # which submitit writes as --exclusive
    assert resources.options() == {"signal": "B:USR2@60", "requeue": True, "mem": "64G", "exclude": "n[1-3]", **bare}
    assert "exclude=n[1-3], exclusive, contiguous" in resources.in_words()
