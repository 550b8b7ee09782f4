"""``bertlab prepare``: from raw text to a vocabulary and a token store."""

from __future__ import annotations

from pathlib import Path

from bertlab.arguments import parse_arguments
from bertlab.commands.jobs import run_jobs
from bertlab.config import PretrainConfig
from bertlab.interop.initial import take_over
from bertlab.schemas import PRETRAIN


def run(words: list[str]) -> int:
    """Build the store that the words describe. Returns the exit code."""
    arguments = parse_arguments(words)
    if arguments.help:
        from bertlab.help import show_help

        return show_help("prepare", arguments)
    return run_jobs("prepare", PRETRAIN, arguments, _prepare, complete=take_over)


def _prepare(config: PretrainConfig) -> Path:
    from bertlab.data.prepare import prepare

    return prepare(config.corpus, config.tokenizer, config.paths, progress=config.trainer.progress).folder
