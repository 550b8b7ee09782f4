"""What is right when nothing is read: one answer to every example, whichever is the best by a metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Prediction
from bertlab.tasks.metrics import ExampleScores, example_scores, metrics_of_scores


def constant_metrics(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> dict[str, float]:
    """Every metric of the task as high as one answer to all examples can make it.

    The answer is chosen for each metric by itself, and among those that are right of some example: the most frequent class does not have
    the highest F1, and the most frequent one in training need not be that of other examples. Of a span the answer is that there is none.

    Args:
        task: what is predicted.
        predictions: of the examples that are judged; only what is right of them is taken.
        labels: classes or tags by index.

    Raises:
        UserError: it is not known of an example what is right.
    """
    best: dict[str, float] = {}
    for scores in _constant_scores(task, predictions, labels):
        for name, value in metrics_of_scores(task, scores, labels).items():
            best[name] = max(value, best.get(name, value))
    if task.no_answer:  # a threshold makes no difference where there is no other answer
        best |= {f"best_{name}": best[name] for name in ("exact", "f1")}
    return best


def _constant_scores(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> Iterator[ExampleScores]:
    if task.kind in ("classification", "choice"):
        scores = example_scores(task, [replace(each, prediction=each.gold) for each in predictions], labels)
        for answer in np.unique(scores["gold"]):
            yield scores | {"predicted": np.full_like(scores["gold"], answer)}
        return
    for answer in _answers(task, predictions):
        yield example_scores(task, [_with(answer, each, task.kind) for each in predictions], labels)


def _answers(task: TaskConfig, predictions: Iterable[Prediction]) -> list[Any]:
    if task.kind == "tagging":
        return sorted({tag for each in predictions for tag in each.gold})
    return [""] if task.kind == "span" else [0.0]  # numbers that are all alike follow no others, whichever they are


def _with(answer: Any, prediction: Prediction, kind: str) -> Prediction:
    given = [answer] * len(prediction.gold) if kind == "tagging" else answer
    return replace(prediction, prediction=given, scores=None, answer=None)
