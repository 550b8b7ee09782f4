"""How good predictions are: the metrics of a task, as fractions between 0 and 1 (correlations between -1 and 1)."""

from __future__ import annotations

from collections.abc import Sequence

from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Prediction


def known_metrics(task: TaskConfig) -> list[str]:
    """The metrics that ``metrics_of`` can give for a task of this kind."""
    raise NotImplementedError


def metrics_of(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> dict[str, float]:
    """Every metric of the task's kind, whether or not the task names it."""
    raise NotImplementedError


def degeneracy(task: TaskConfig, predictions: Sequence[Prediction]) -> str | None:
    """Why the predictions say nothing (all of them are alike), in a few words; None where they say something."""
    raise NotImplementedError
