"""The files that a run reads, as they are just now, by which a later command knows whether it asks for the same run.

Not their contents: a corpus may be large, and hashing it is the run's own work.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bertlab.config import CorpusConfig, PretrainConfig
from bertlab.data.discovery import files_of
from bertlab.errors import UserError
from bertlab.files import is_plain_name, touched
from bertlab.finetune_config import FinetuneConfig
from bertlab.task_config import TaskConfig
from bertlab.tasks.discovery import find_files

State = tuple[str, list[int]]


def states_of_inputs(config: PretrainConfig | FinetuneConfig) -> list[State]:
    """(absolute path, ``files.touched``) of every file of the input that there is on this machine."""
    return [state for file in sorted(set(_files(config))) if (state := _state(file)) is not None]


def _state(file: str) -> State | None:
    try:
        return os.path.abspath(file), touched(os.stat(file))
    except OSError:
        return None


def _files(config: PretrainConfig | FinetuneConfig) -> Iterator[str]:
    if isinstance(config, PretrainConfig):
        yield from _all_of([*_of_corpus(config.corpus), config.tokenizer.path, config.init])
    else:
        yield from _all_of(_of_checkpoint(config.checkpoint, config.paths.runs_folder))
        yield from _of_task(config.task)


def _of_corpus(corpus: CorpusConfig) -> list[str | None]:
    return [corpus.path, *(source.path for source in corpus.sources.values())]


def _of_checkpoint(name: str, runs: Path) -> list[str | None]:
    """All that it may mean: a path, a run's id, or the end of one."""
    in_runs = [runs / name, *runs.glob(f"*-{glob.escape(name)}")] if is_plain_name(name) else []
    return [name, *map(str, in_runs)]


def _of_task(task: TaskConfig) -> Iterator[str]:
    if task.format == "probe":
        yield from _all_of([*_of_corpus(task.probe.corpus), task.probe.tokenizer.path])
    elif task.format == "huggingface":
        yield from _all_of([task.dataset])
    else:
        with suppress(UserError):  # which the run says itself
            yield from map(str, find_files(task).values())


def _all_of(paths: Iterable[str | None]) -> Iterator[str]:
    """The files of files, folders and globs; of what is none, as an id of a hub, there are none."""
    for path in paths:
        with suppress(UserError):
            yield from files_of(CorpusConfig(kind="text", path=path))
