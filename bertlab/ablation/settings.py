"""What the command says of all tables that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The flags and overrides of ``bertlab ablate``, as planning takes them."""

    scale: str = "laptop"
    seeds: int | None = None  # None: as the table or the scale says
    budget: str = "tokens"  # tokens | flops | minutes: what rows have alike
    tasks: str | None = None  # the folder of labelled tasks
    pretrain: tuple[str, ...] = ()  # overrides of every pretraining
    finetune: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()  # overrides of both that change no number: logger, paths, threads
    config_dir: Path | None = None
