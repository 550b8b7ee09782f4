"""What cannot be meant of ``launcher.…`` is refused here, for every kind of configuration, before a cluster is asked."""

from __future__ import annotations

import math
import re
from dataclasses import fields

from bertlab.config import LauncherConfig
from bertlab.errors import UserError

_TIME = re.compile(r"\d+(-\d+)?(:\d+){0,2}|UNLIMITED", re.IGNORECASE)  # as sbatch's manual has it
_MEMORY = re.compile(r"\d+[KMGT]?")
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
# Of sbatch, by the key that says it here, or None: without it the job would not be the one that is looked after.
_TAKEN = {
    "partition": "launcher.partition",
    "account": "launcher.account",
    "qos": "launcher.qos",
    "constraint": "launcher.constraint",
    "gpus-per-node": "launcher.gpus",
    "cpus-per-task": "launcher.cpus",
    "mem": "launcher.memory",
    "time": "launcher.time",
    "signal": "launcher.warning",
    "nodes": "trainer.nodes",
    "ntasks": "trainer.devices",
    "ntasks-per-node": "trainer.devices",
    **dict.fromkeys(("array", "dependency", "job-name", "output", "error", "open-mode", "requeue", "no-requeue", "wrap")),
}


def check_launcher(launcher: LauncherConfig) -> None:
    """Refuse what no queue can be asked for. Raises ``UserError``."""
    for field in fields(launcher):
        value = getattr(launcher, field.name)
        if isinstance(value, str):
            _check_text(f"launcher.{field.name}", value)
    if launcher.time is not None and not _TIME.fullmatch(launcher.time):
        raise UserError(f"launcher.time={launcher.time}: write minutes, hours:minutes:seconds or days-hours, as in 90, 12:00:00, 2-00.")
    if launcher.time is not None and (limit := seconds_of(launcher.time)) <= 2 * launcher.warning:
        raise UserError(
            f"launcher.time={launcher.time} is {limit:.0f} seconds, of which launcher.warning={launcher.warning} are for saving the state:"
            " lower launcher.warning below half of the time, or raise the time."
        )
    if launcher.memory is not None and not _MEMORY.fullmatch(launcher.memory):
        raise UserError(f"launcher.memory={launcher.memory}: write a whole number and K, M, G or T, as in 64G.")
    for name, value in launcher.options.items():
        _check_option(name, value)


def seconds_of(time: str) -> float:
    """A limit as sbatch takes it, in seconds: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes[:seconds]."""
    if time.upper() == "UNLIMITED":
        return math.inf
    days, dash, rest = time.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    units = (3600, 60, 1) if dash or len(parts) == 3 else (60, 1)
    return 86400.0 * int(days or 0) + sum(part * unit for part, unit in zip(parts, units, strict=False))


def _check_option(name: str, value: str) -> None:
    if name in _TAKEN:
        instead = f"set {_TAKEN[name]}" if _TAKEN[name] else "bertlab sets it itself"
        raise UserError(f"launcher.options.{name} is not one of the further options of sbatch: {instead}.")
    if not _OPTION.fullmatch(name):
        raise UserError(f"launcher.options.{name}: give options of sbatch by their long names without leading dashes, as in exclude.")
    if value.lower() == "false":
        raise UserError(f"launcher.options.{name}=false: leave an option out that is not meant.")
    _check_text(f"launcher.options.{name}", value)


def _check_text(key: str, value: str) -> None:
    """A line break would end the option in the job's script, and what comes after it would be run."""
    if not value.strip() or not value.isprintable():
        raise UserError(f"{key}={value!r} must be a word or words on one line.")
