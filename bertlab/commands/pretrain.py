"""``bertlab pretrain``: from raw text to a trained model."""

from __future__ import annotations

from pathlib import Path

from bertlab.allocator import tune_allocator
from bertlab.arguments import parse_arguments
from bertlab.commands.jobs import run_jobs
from bertlab.config import PretrainConfig
from bertlab.interop.initial import take_over
from bertlab.schemas import PRETRAIN


def run(words: list[str]) -> int:
    """Train what the words describe. Returns the exit code."""
    arguments = parse_arguments(words)
    if arguments.help:
        from bertlab.help import show_help

        return show_help("pretrain", arguments)
    tune_allocator()  # takes effect only before PyTorch is imported
    return run_jobs("pretrain", PRETRAIN, arguments, _pretrain, complete=take_over, check=_check)


def _check(config: PretrainConfig) -> None:
    from bertlab.training.pretrain import check_machine

    check_machine(config)


def _pretrain(config: PretrainConfig) -> Path:
    from bertlab.training.pretrain import pretrain

    return pretrain(config)
