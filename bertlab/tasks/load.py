"""A task's files as examples."""

from __future__ import annotations

from collections.abc import Sequence

from bertlab.config import PathsConfig
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import TaskData


def load_task(task: TaskConfig, paths: PathsConfig, splits: Sequence[str]) -> TaskData:
    """Read the ``splits`` of a task.

    Raises:
        UserError: a file or a column is missing, a row is too short, a label is unknown: file, line and what was expected.
    """
    raise NotImplementedError


def available_splits(task: TaskConfig, paths: PathsConfig) -> list[str]:
    """The splits that ``load_task`` can read: those whose files are there."""
    raise NotImplementedError
