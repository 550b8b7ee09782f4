"""``bertlab finetune``: a pre-trained model on a downstream task."""

from __future__ import annotations

from pathlib import Path

from bertlab.allocator import tune_allocator
from bertlab.arguments import parse_arguments
from bertlab.commands.jobs import run_jobs
from bertlab.finetune_config import FinetuneConfig
from bertlab.schemas import FINETUNE


def run(words: list[str]) -> int:
    """Fine-tune what the words describe. Returns the exit code."""
    arguments = parse_arguments(words)
    if arguments.help:
        from bertlab.help import show_help

        return show_help("finetune", arguments)
    tune_allocator()  # takes effect only before PyTorch is imported
    from bertlab.commands.seeds import show_seeds

    return run_jobs("finetune", FINETUNE, arguments, _finetune, check=_check, summarise=show_seeds)


def _check(config: FinetuneConfig) -> None:
    from bertlab.training.finetune import check_machine

    check_machine(config)


def _finetune(config: FinetuneConfig) -> Path:
    from bertlab.training.finetune import finetune

    return finetune(config)
