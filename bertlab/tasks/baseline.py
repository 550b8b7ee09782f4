"""What is right when nothing is read: one answer to every example, the most frequent one of the training split (or the mean number)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import ChoiceExample, Example, Prediction, TaggingExample, TextExample


def constant_predictions(
    task: TaskConfig, training: Sequence[Example], labels: Sequence[str], of: Sequence[Prediction]
) -> list[Prediction]:
    """The examples that ``of`` predicts, with the constant answer in place of each prediction.

    It is the most frequent class, choice or tag of ``training``, its mean number, or, of a span, that there is no answer.
    """
    if task.kind == "span":
        return [replace(prediction, prediction="", scores=None, answer=None) for prediction in of]
    if task.kind == "tagging":
        tags = (tag for example in training if isinstance(example, TaggingExample) for tag in example.tags or ())
        tag = labels[_most_frequent(tags)]
        return [replace(each, prediction=[tag] * len(each.prediction), scores=None) for each in of if isinstance(each.prediction, list)]
    known = [example.label for example in training if isinstance(example, TextExample | ChoiceExample) and example.label is not None]
    if task.kind == "regression":
        mean = sum(known) / len(known)
        return [replace(prediction, prediction=mean, scores=None) for prediction in of]
    index = _most_frequent(int(label) for label in known)
    answer = labels[index] if task.kind == "classification" else index
    return [replace(prediction, prediction=answer, scores=None) for prediction in of]


def _most_frequent(values: Iterable[int]) -> int:
    """Of equally frequent ones the smallest."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))
