"""Examples → the numbers that a model reads."""

from __future__ import annotations

from pathlib import Path

from bertlab.data.tokenizer import Vocabulary
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import TaskData
from bertlab.tasks.inputs import Inputs


def featurise(
    data: TaskData, split: str, task: TaskConfig, vocabulary: Vocabulary, cache: Path | None = None, *, progress: bool = True
) -> Inputs:
    """The examples of ``data.splits[split]`` as sequences of at most ``task.max_length`` tokens."""
    raise NotImplementedError
