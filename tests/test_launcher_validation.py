"""What no queue can be asked for is refused before any is."""

from __future__ import annotations

import math

import pytest

from bertlab.config import LauncherConfig
from bertlab.errors import UserError
from bertlab.launcher_validation import check_launcher, seconds_of


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90", 5400), ("90:30", 5430), ("12:00:00", 43200), ("2-0", 172800), ("1-12", 129600), ("1-12:30", 131400),
        ("1-00:00:05", 86405), ("UNLIMITED", math.inf),
    ],
)  # fmt: skip
def test_times_are_sbatchs(time: str, seconds: float) -> None:
    check_launcher(LauncherConfig(time=time))
    assert seconds_of(time) == seconds


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        (LauncherConfig(time="a day"), "launcher.time=a day: write minutes"),
        (LauncherConfig(time="1-"), "launcher.time"),
        (LauncherConfig(time="1:2:3:4"), "launcher.time"),
        (LauncherConfig(time="3", warning=90), "launcher.warning=90"),
        (LauncherConfig(memory="64 GB"), "launcher.memory=64 GB"),
        (LauncherConfig(partition=""), "launcher.partition="),
        (LauncherConfig(account="mine\ntouch /tmp/owned"), "launcher.account="),
        (LauncherConfig(options={"exclude": "node7\nrm -rf ."}), "launcher.options.exclude="),
        (LauncherConfig(options={"comment": ""}), "launcher.options.comment="),
        (LauncherConfig(options={"--exclude": "node7"}), "launcher.options.--exclude"),
        (LauncherConfig(options={"array": "0-3"}), "launcher.options.array .* bertlab sets it itself"),
        (LauncherConfig(options={"time": "5"}), r"launcher.options.time .* set launcher\.time"),
        (LauncherConfig(options={"wrap": "echo"}), "launcher.options.wrap"),
        (LauncherConfig(options={"exclusive": "False"}), "launcher.options.exclusive=false: leave an option out"),
    ],
)
def test_refused(launcher: LauncherConfig, said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_launcher(launcher)


def test_what_a_cluster_wants_is_taken() -> None:
    check_launcher(LauncherConfig(partition="gpu,long", constraint="a100|h100", memory="64G", time="60", options={"exclude": "n[1-3]"}))
