"""Checks that every kind of configuration has in common: words that a key can hold, and numbers with a bound."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from bertlab.config import TrainerConfig
from bertlab.errors import UserError, unknown

# Of the sections that pre-training and fine-tuning share.
WORDS: dict[str, tuple[str, ...]] = {
    "optimizer.kind": ("bert_adam", "adamw"),
    "optimizer.decay": ("linear", "constant"),
    "trainer.accelerator": ("auto", "cpu", "gpu"),
    "trainer.strategy": ("auto", "ddp", "fsdp"),
    "trainer.precision": ("fp32", "bf16"),
    "launcher.kind": ("local", "slurm"),
    "logger.kind": ("wandb", "none"),
}


_SEEDS = 2**63
_WEEK = 7 * 24 * 3600


@dataclass(frozen=True)
class Bounds:
    """Keys of numbers by their bound. One that may be null is bounded only where it is not."""

    positive: tuple[str, ...]
    not_negative: tuple[str, ...]
    below_one: tuple[str, ...]  # at least 0
    shares: tuple[str, ...]
    momenta: tuple[str, ...] = ()  # more than 0, at most 1


# Of the sections that pre-training and fine-tuning share.
BOUNDS = Bounds(
    positive=(
        "optimizer.lr",
        "optimizer.epsilon",
        "optimizer.clip",
        "checkpointing.every",
        "checkpointing.keep_every",
        "trainer.devices",
        "trainer.nodes",
        "trainer.timeout",
        "trainer.threads",
        "trainer.log_every",
        "launcher.cpus",
        "launcher.warning",
        "launcher.concurrency",
    ),
    not_negative=("optimizer.weight_decay", "trainer.workers", "launcher.gpus", "launcher.requeues", "seed"),
    below_one=("optimizer.beta1", "optimizer.beta2", "optimizer.warmup"),
    shares=(),
)


def check_words(config: Any, words: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a word that its key does not know. Raises ``UserError``."""
    for key, known in words.items():
        if (value := value_of(config, key)) not in known:
            raise unknown(key, value, known)


def check_paths(config: Any) -> None:
    """Refuse an empty name of a folder, which would be the one that the command runs in, and that of a file. Raises ``UserError``."""
    for key in ("paths.runs", "paths.cache", "paths.local"):
        if (value := value_of(config, key)) == "":
            raise UserError(f"{key} is empty: name a folder, or leave it out.")
        if value is not None and not os.path.isdir(there := _nearest_existing(value)):
            raise UserError(f"{key}={value}: {there} is a file: name a folder instead.")


def _nearest_existing(path: str) -> str:
    """``path``, or the nearest folder above it that is there; the current one is."""
    path = os.path.expanduser(path)
    while not os.path.exists(path):
        path = os.path.dirname(path) or os.curdir
    return path


def check_numbers(config: Any, bounds: Bounds) -> None:
    """Refuse a number beyond its bound. Raises ``UserError``."""

    def demand(keys: Iterable[str], holds: Callable[[float], bool], words: str) -> None:
        for key in keys:
            value = value_of(config, key)
            if value is not None and not (math.isfinite(value) and holds(value)):
                finite = "" if math.isfinite(value) else "a finite number, "
                raise UserError(f"{key}={value} must be {finite}{words}.")

    demand(bounds.positive, lambda value: value > 0, "more than 0")
    demand(bounds.not_negative, lambda value: value >= 0, "0 or more")
    demand(bounds.below_one, lambda value: 0 <= value < 1, "at least 0 and less than 1")
    demand(bounds.shares, lambda value: 0 <= value <= 1, "a share between 0 and 1")
    demand(["seed"], lambda value: value < _SEEDS, "less than 2^63")  # what PyTorch's generators take
    demand(bounds.momenta, lambda value: 0 < value <= 1, "more than 0 and at most 1")


def check_trainer(trainer: TrainerConfig) -> None:
    """Refuse what cannot be meant of the devices. Raises ``UserError``."""
    if trainer.timeout > _WEEK:
        raise UserError(
            f"trainer.timeout={trainer.timeout:g} is longer than a week ({_WEEK} seconds): shorten it, or a lost process goes unnoticed."
        )
    if trainer.compile and trainer.strategy == "fsdp":
        raise UserError(
            "trainer.compile=true needs blocks that hold all their weights, but under trainer.strategy=fsdp none does: leave it out."
        )
    if trainer.compile and trainer.checkpoint_activations:
        raise UserError(
            "trainer.compile=true chooses itself what the backward pass recomputes: leave out trainer.compile or"
            " trainer.checkpoint_activations."
        )


def trainer_warnings(trainer: TrainerConfig) -> Iterable[str]:
    """What of the devices will run but may not be what was meant."""
    if trainer.strategy != "auto" and trainer.world == 1:
        yield f"trainer.strategy={trainer.strategy} runs on a single device: trainer.devices and trainer.nodes set their number."


def devices_in_words(trainer: TrainerConfig) -> str:
    """The keys that say how many devices there are, as a message names them."""
    return f"trainer.devices={trainer.devices}" + (f" on trainer.nodes={trainer.nodes}" if trainer.nodes > 1 else "")


def value_of(config: Any, key: str) -> Any:
    """What a dotted ``key`` holds."""
    return reduce(getattr, key.split("."), config)
