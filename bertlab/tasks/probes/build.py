"""A probe's examples, made from its corpus or found in the cache."""

from __future__ import annotations

from bertlab.config import PathsConfig
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import TaskData


def build_probe(task: TaskConfig, paths: PathsConfig) -> TaskData:
    """The train, dev and test splits of the probe that ``task.probe`` describes."""
    raise NotImplementedError
