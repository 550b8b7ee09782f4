"""How good predictions are: the metrics of a task, as fractions between 0 and 1 (correlations between -1 and 1).

Where a metric is not defined it is 0: Matthews when every prediction or every label is of one class, a correlation when all numbers are
the same, F1 when nothing is found and nothing is there to be found. ``degeneracy`` says so in words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertlab.arrays import Floats, Int64s
from bertlab.counting import counted
from bertlab.errors import UserError, unknown
from bertlab.task_config import TaskConfig
from bertlab.tasks.entities import entities_of
from bertlab.tasks.examples import Prediction
from bertlab.tasks.squad_metrics import answer_scores, best_thresholds, span_metrics

ExampleScores = dict[str, NDArray[Any]]  # name → a value for each example, (E,)

_HARDLY = 1e-3  # numbers whose deviation is so small a share of the labels' are called constant


def metrics_of(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> dict[str, float]:
    """Every metric of the task's kind, whether or not the task names it.

    Args:
        task: its kind, and what decides how to count (``scheme``, ``no_answer``).
        predictions: of distinct examples.
        labels: classes or tags by index; with two classes, ``f1`` is that of the second one.

    Raises:
        UserError: it is not known of an example what is right, or a label is unknown.
    """
    return metrics_of_scores(task, example_scores(task, predictions, labels), labels)


def example_scores(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> ExampleScores:
    """What the metrics are sums or functions of, by example, so that examples can be drawn again (bootstrap).

    Classification and choice: ``gold`` and ``predicted`` indices. Regression: the same as numbers. Tagging: counts of ``words``, of
    ``right_words``, and of entities ``gold``, ``predicted`` and ``correct``. Span: ``exact``, ``f1``, whether it ``has_answer``; the same
    of the best answer where it was not given (``answered_exact``, ``answered_f1``), and whether that ``says_something``; and, where every
    prediction has it, how much speaks for no answer (``null``).
    """
    if not predictions:
        raise UserError("There is nothing to score: no prediction.")
    if without := sum(prediction.gold is None for prediction in predictions):
        raise UserError(f"The right answer of {without:,} of the {counted(len(predictions), 'example')} is not known.")
    return _SCORES[task.kind](task, predictions, labels)


def metrics_of_scores(task: TaskConfig, scores: ExampleScores, labels: Sequence[str]) -> dict[str, float]:
    """The metrics of a task from the scores of (some of) its examples."""
    if task.kind == "classification":
        return _classification_metrics(scores["gold"], scores["predicted"], labels)
    if task.kind == "regression":
        return {"pearson": pearson(scores["gold"], scores["predicted"]), "spearman": spearman(scores["gold"], scores["predicted"])}
    if task.kind == "choice":
        return {"accuracy": float(np.mean(scores["gold"] == scores["predicted"]))}
    if task.kind == "tagging":
        return _tagging_metrics(scores)
    found = span_metrics(scores["exact"], scores["f1"], scores["has_answer"])
    if "null" in scores:
        graded = {name: scores[f"answered_{name}"] for name in ("exact", "f1")}  # a threshold that was applied hides no other
        found |= best_thresholds(graded, scores["has_answer"], scores["says_something"], scores["null"])
    return found


def degeneracy(task: TaskConfig, predictions: Sequence[Prediction]) -> str | None:
    """Why the predictions say nothing (all of them are alike), in a few words; None where they say something."""
    if len(predictions) < 2:
        return None
    count = len(predictions)
    if task.kind == "regression":
        numbers = np.array([float(prediction.prediction) for prediction in predictions])  # type: ignore[arg-type]  # by the kind
        gold = np.array([float(prediction.gold) for prediction in predictions if prediction.gold is not None])
        constant = numbers.std() <= _HARDLY * (gold.std() if gold.size else 1.0)
        return f"all {count:,} predictions are {numbers.mean():.4g} or nearly so" if constant else None
    if task.kind == "tagging":
        tags = {tag for prediction in predictions if isinstance(prediction.prediction, list) for tag in prediction.prediction}
        return f"every word of all {count:,} predictions is tagged {next(iter(tags))}" if len(tags) == 1 else None
    used = {prediction.prediction for prediction in predictions if not isinstance(prediction.prediction, list)}
    if len(used) > 1:
        return None
    return f"all {count:,} predictions are {next(iter(used))!r}" + (" (no answer)" if used == {""} else "")


def nothing_learned(task: TaskConfig, predictions: Sequence[Prediction], metric: str, value: float, baseline: float) -> str | None:
    """Why a run has failed although it came to its end, in a few words; None where it has not.

    ``baseline``: the ``metric`` of one answer to every example.
    """
    if reason := degeneracy(task, predictions):
        return reason
    if value <= baseline:
        return f"{metric} {value:.4f} is no better than that of one answer to every example, {baseline:.4f}"
    return None


def _indexed(predictions: Sequence[Prediction], labels: Sequence[str]) -> tuple[Int64s, Int64s]:
    index = {label: number for number, label in enumerate(labels)}
    found = []
    for values in ([prediction.gold for prediction in predictions], [prediction.prediction for prediction in predictions]):
        for value in Counter(map(str, values)):
            if value not in index:
                raise unknown("label", value, labels)
        found.append(np.array([index[str(value)] for value in values], dtype=np.int64))
    return found[0], found[1]


def _class_scores(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> ExampleScores:
    gold, predicted = _indexed(predictions, labels)
    return {"gold": gold, "predicted": predicted}


def _choice_scores(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> ExampleScores:
    pairs = np.array([(prediction.gold, prediction.prediction) for prediction in predictions], dtype=np.int64)
    return {"gold": pairs[:, 0], "predicted": pairs[:, 1]}


def _number_scores(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> ExampleScores:
    pairs = np.array([(prediction.gold, prediction.prediction) for prediction in predictions], dtype=np.float64)
    return {"gold": pairs[:, 0], "predicted": pairs[:, 1]}


def _tag_scores(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> ExampleScores:
    counts = [_sentence_counts(task, prediction, labels) for prediction in predictions]
    columns = np.array(counts, dtype=np.int64).T
    return dict(zip(("words", "right_words", "gold", "predicted", "correct"), columns, strict=True))


def _sentence_counts(task: TaskConfig, prediction: Prediction, labels: Sequence[str]) -> tuple[int, int, int, int, int]:
    gold, predicted = list(prediction.gold), prediction.prediction
    if not isinstance(predicted, list) or len(predicted) != len(gold):
        raise UserError(f"Example {prediction.id!r} has {len(gold)} words: its prediction must be a list of as many tags.")
    right = sum(one == other for one, other in zip(gold, predicted, strict=True))
    there: set[Any]
    found: set[Any]
    if task.scheme == "none":  # what is found are words whose tag is not the one that says nothing
        nothing = _tag_of_nothing(task, labels)
        there, found = ({(place, tag) for place, tag in enumerate(tags) if tag != nothing} for tags in (gold, predicted))
    else:
        there, found = set(entities_of(gold)), set(entities_of(predicted))
    return len(gold), right, len(there), len(found), len(there & found)


def _tag_of_nothing(task: TaskConfig, labels: Sequence[str]) -> str | None:
    """The first tag where the task names its tags; of tags learned from files O, and none where O is not among them."""
    return labels[0] if task.labels or labels[0] == "O" else None


def _span_scores(task: TaskConfig, predictions: Sequence[Prediction], labels: Sequence[str]) -> ExampleScores:
    answers = [prediction.prediction if prediction.answer is None else prediction.answer for prediction in predictions]
    graded = np.array([_graded(prediction.prediction, prediction, task.no_answer) for prediction in predictions])
    answered = np.array([_graded(answer, prediction, task.no_answer) for answer, prediction in zip(answers, predictions, strict=True)])
    scores: ExampleScores = {
        "exact": graded[:, 0],
        "f1": graded[:, 1],
        "has_answer": np.array([bool(prediction.gold) for prediction in predictions]),
        "answered_exact": answered[:, 0],
        "answered_f1": answered[:, 1],
        "says_something": np.array([bool(answer) for answer in answers]),
    }
    if task.no_answer and all(prediction.scores for prediction in predictions):
        scores["null"] = np.array([-prediction.scores[0] for prediction in predictions if prediction.scores], dtype=np.float64)
    return scores


def _graded(answer: object, prediction: Prediction, no_answer: bool) -> tuple[float, float]:
    if not isinstance(answer, str):  # None: there is no prediction, as there may be in a file of somebody else
        return 0.0, 0.0
    return answer_scores(answer, prediction.gold, no_answer)


_SCORES: Mapping[str, Callable[[TaskConfig, Sequence[Prediction], Sequence[str]], ExampleScores]] = {
    "classification": _class_scores,
    "choice": _choice_scores,
    "regression": _number_scores,
    "tagging": _tag_scores,
    "span": _span_scores,
}


def _classification_metrics(gold: Int64s, predicted: Int64s, labels: Sequence[str]) -> dict[str, float]:
    classes = len(labels)
    confusion = np.bincount(gold * classes + predicted, minlength=classes * classes).reshape(classes, classes)
    right = np.diag(confusion).astype(np.float64)
    there, said = confusion.sum(1), confusion.sum(0)
    f1 = ratios(2 * right, there + said)
    found = {
        "accuracy": float(right.sum() / len(gold)),
        "matthews": matthews(confusion),
        "macro_f1": float(f1[there + said > 0].mean()),  # over the classes that occur
    }
    return {**found, "f1": float(f1[1])} if classes == 2 else found


def _tagging_metrics(scores: ExampleScores) -> dict[str, float]:
    total = {name: int(values.sum()) for name, values in scores.items()}
    precision, recall = ratio(total["correct"], total["predicted"]), ratio(total["correct"], total["gold"])
    return {
        "f1": ratio(2 * precision * recall, precision + recall),
        "precision": precision,
        "recall": recall,
        "accuracy": ratio(total["right_words"], total["words"]),
    }


def matthews(confusion: NDArray[np.integer[Any]]) -> float:
    """Matthews' correlation of a confusion matrix (C, C), for any number of classes (Gorodkin 2004, R_K); 0 where it is not defined."""
    there: list[int] = confusion.sum(1).tolist()  # Python's integers: exact, so that perfect is 1.0
    said: list[int] = confusion.sum(0).tolist()
    total, right = sum(there), int(np.trace(confusion))
    spread = (total**2 - sum(count**2 for count in said)) * (total**2 - sum(count**2 for count in there))
    covariance = right * total - sum(one * other for one, other in zip(there, said, strict=True))
    return covariance / math.sqrt(spread) if spread else 0.0


def pearson(one: Floats, other: Floats) -> float:
    """The linear correlation of two columns of numbers (E,); 0 where one of them is constant."""
    first, second = one - one.mean(), other - other.mean()
    if not np.ptp(one) or not np.ptp(other):
        return 0.0
    first, second = first / np.abs(first).max(), second / np.abs(second).max()  # so that no square under- or overflows
    correlation = (first @ second) / np.sqrt((first @ first) * (second @ second))
    return float(np.clip(correlation, -1.0, 1.0))


def spearman(one: Floats, other: Floats) -> float:
    """The correlation of the ranks of two columns of numbers (E,), ties sharing their mean rank; 0 where one of them is constant."""
    return pearson(mean_ranks(one), mean_ranks(other))


def mean_ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values have the mean of the ranks that they take up."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[inverse]
    return ranks


def ratio(part: float, whole: float) -> float:
    """``part / whole``, and 0 of nothing."""
    return part / whole if whole else 0.0


def ratios(parts: NDArray[Any], wholes: NDArray[Any]) -> Floats:
    """``ratio`` of each, (n,)."""
    found: Floats = np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)
    return found
