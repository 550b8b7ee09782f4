"""Metrics as functions of sums over examples, so that thousands of resampled evaluation sets cost one matrix product.

Each metric is written as ``formula(totals)``, where ``totals`` (..., K) are sums over examples of K numbers that each example
contributes: right or wrong for accuracy, entries of the confusion table for F1 and Matthews, moments for correlations, counts of
entities for tagging. Drawing examples again only changes how often each row of the (E, K) matrix is counted.

Two metrics are resampled approximately. The ranks in Spearman's correlation depend on all examples at once; its moments are linear in
how often each example is counted up to terms of the order 1 / E, and it is that linear part which is summed (Hoeffding's projection: an
example counts for its own ranks and for what it does to the ranks of others). SQuAD's ``best_`` metrics choose a threshold on all
examples: it is chosen once and kept, with which of the questions at the threshold itself are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertlab.arrays import Floats
from bertlab.errors import unknown
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Prediction
from bertlab.tasks.metrics import ExampleScores, example_scores, mean_ranks, metrics_of_scores
from bertlab.tasks.squad_metrics import at_best_cut

Formula = Callable[[Floats], Floats]  # totals (..., K) → metric (...)


@dataclass(frozen=True, eq=False)
class ExampleSums:
    """What each evaluated example contributes to a run's metric."""

    formula: Formula
    ids: tuple[str, ...]  # of the E examples
    rows: Floats  # (E, K)

    def value(self) -> float:
        """The metric on all examples."""
        return float(self.formula(self.rows.sum(axis=0)))

    def in_order_of(self, ids: Sequence[str]) -> ExampleSums:
        """The same examples in the order of ``ids``.

        Raises:
            ValueError: if they are not the same examples.
        """
        if self.ids == tuple(ids):
            return self
        place = {name: number for number, name in enumerate(self.ids)}
        if len(place) != len(ids) or any(name not in place for name in ids):
            raise ValueError("two runs were evaluated on different examples")
        return ExampleSums(self.formula, tuple(ids), self.rows[[place[name] for name in ids]])


def example_sums(task: TaskConfig, metric: str, predictions: Sequence[Prediction], labels: Sequence[str]) -> ExampleSums:
    """The sums for one of the task's metrics.

    Args:
        task: its kind, and what decides how to count (``scheme``, ``no_answer``).
        metric: one of those that ``bertlab.tasks.metrics.metrics_of`` gives for the task.
        predictions: of a run, with what is right.
        labels: classes or tags by index.

    Raises:
        UserError: for an unknown metric, or predictions that cannot be scored.
    """
    scores = example_scores(task, predictions, labels)
    formula, rows = _SUMS[task.kind](metric, scores, labels)
    known = metrics_of_scores(task, scores, labels)
    if rows is None or metric not in known:
        raise unknown(f"metric of task={task.name}", metric, known)
    return ExampleSums(formula, tuple(prediction.id for prediction in predictions), np.ascontiguousarray(rows, dtype=np.float64))


def mean(totals: Floats) -> Floats:
    """The sum of each example's share of the mean, (..., 1) → (...)."""
    return totals[..., 0]


def share(totals: Floats) -> Floats:
    """Part and whole, (..., 2) → their ratio (...), and 0 of nothing."""
    return _ratio(totals[..., 0], totals[..., 1])


def f1(totals: Floats) -> Floats:
    """Right, there and said, (..., 3) → the harmonic mean of precision and recall (...)."""
    return _ratio(2 * totals[..., 0], totals[..., 1] + totals[..., 2])


def macro_f1(totals: Floats) -> Floats:
    """Right, there and said of each class, (..., 3 C) → the mean F1 (...) of the classes that occur."""
    right, there, said = np.split(totals, 3, axis=-1)
    occurs = there + said > 0.5  # sums of ones, up to rounding
    return _ratio(_ratio(2 * right, there + said).sum(axis=-1), occurs.sum(axis=-1).astype(np.float64))


def matthews(totals: Floats) -> Floats:
    """Right, there and said of each class, (..., 3 C) → Matthews' correlation (...); 0 where it is not defined."""
    right, there, said = np.split(totals, 3, axis=-1)
    count = there.sum(axis=-1)
    covariance = right.sum(axis=-1) * count - (there * said).sum(axis=-1)
    spread = (count**2 - (said**2).sum(axis=-1)) * (count**2 - (there**2).sum(axis=-1))
    return np.clip(_ratio(covariance, np.sqrt(np.maximum(spread, 0.0))), -1.0, 1.0)  # which rounded sums may go beyond


def pearson(totals: Floats) -> Floats:
    """Count, x, y, x², y² and x y, (..., 6) → the linear correlation (...); 0 where one of them is constant."""
    count, x, y, xx, yy, xy = np.moveaxis(totals, -1, 0)
    spread = np.maximum(count * xx - x**2, 0.0) * np.maximum(count * yy - y**2, 0.0)
    constant = spread <= (1e-12 * count**2) ** 2  # the numbers were scaled to unit deviation: this is rounding
    correlation: Floats = np.where(constant, 0.0, np.clip(_ratio(count * xy - x * y, np.sqrt(spread)), -1.0, 1.0))
    return correlation


def correlation_of_moments(totals: Floats) -> Floats:
    """Means of u v, u² and v² of centred u and v, (..., 3) → their correlation (...); 0 where one of them is constant."""
    uv, uu, vv = np.moveaxis(totals, -1, 0)
    spread = np.sqrt(np.maximum(uu, 0.0) * np.maximum(vv, 0.0))
    return np.clip(_ratio(uv, spread), -1.0, 1.0)


def _ratio(part: Floats, whole: Floats) -> Floats:
    found: Floats = np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)
    return found


_Sums = tuple[Formula, Floats | None]


def _class_sums(metric: str, scores: ExampleScores, labels: Sequence[str]) -> _Sums:
    gold, predicted = scores["gold"], scores["predicted"]
    if metric == "accuracy":
        return mean, _shares(gold == predicted)
    if metric == "f1":  # of the second class
        return f1, np.stack([(gold == 1) & (predicted == 1), gold == 1, predicted == 1], axis=1)
    there, said = (np.eye(len(labels))[indices] for indices in (gold, predicted))  # (E, C)
    rows = np.concatenate([there * said, there, said], axis=1)
    return (matthews, rows) if metric == "matthews" else (macro_f1, rows if metric == "macro_f1" else None)


def _number_sums(metric: str, scores: ExampleScores, labels: Sequence[str]) -> _Sums:
    gold, predicted = scores["gold"], scores["predicted"]
    if metric == "spearman":
        return correlation_of_moments, _moments_of_ranks(gold, predicted)
    x, y = _standardised(gold), _standardised(predicted)
    return pearson, np.stack([np.ones_like(x), x, y, x**2, y**2, x * y], axis=1) if metric == "pearson" else None


def _moments_of_ranks(x: Floats, y: Floats) -> Floats:
    """What each example adds to the three moments of the ranks, as shares of the sample, (E, 3)."""
    u, v = (mean_ranks(values) / values.size - (values.size + 1) / (2 * values.size) for values in (x, y))  # centred, of unit range
    columns = []
    for first, second, one, other in ((u, v, x, y), (u, u, x, x), (v, v, y, y)):
        # The derivative of Σ w u v, u and v depending on all of w, by how often the example is counted.
        change = first * second + _above(one, second) + _above(other, first)
        columns.append(np.mean(first * second) + change - change.mean())
    return np.stack(columns, axis=1) / x.size


def _above(values: Floats, sums_of: Floats) -> Floats:
    """For each example, (E,), the mean over all of ``sums_of`` where ``values`` are larger than its own; equal ones count half."""
    distinct, place = np.unique(values, return_inverse=True)
    sums = np.bincount(place, sums_of, distinct.size)
    above: Floats = (sums.sum() - np.cumsum(sums) + sums / 2)[place] / values.size
    return above


def _tag_sums(metric: str, scores: ExampleScores, labels: Sequence[str]) -> _Sums:
    columns = {
        "f1": ("correct", "gold", "predicted"),
        "precision": ("correct", "predicted"),
        "recall": ("correct", "gold"),
        "accuracy": ("right_words", "words"),
    }.get(metric)
    rows = np.stack([scores[name] for name in columns], axis=1) if columns else None
    return (f1 if metric == "f1" else share), rows


def _span_sums(metric: str, scores: ExampleScores, labels: Sequence[str]) -> _Sums:
    name = metric.split("_")[-1]
    if name not in ("exact", "f1"):
        return mean, None
    values, has_answer = scores[name], scores["has_answer"]
    if metric == name:
        return mean, _shares(values)
    if metric == f"best_{name}" and "null" in scores:
        return mean, _shares(at_best_cut(scores[f"answered_{name}"], scores["has_answer"], scores["says_something"], scores["null"]))
    part = has_answer if metric == f"has_answer_{name}" else ~has_answer
    return share, np.stack([values * part, part], axis=1)


_SUMS: dict[str, Callable[[str, ExampleScores, Sequence[str]], _Sums]] = {
    "classification": _class_sums,
    "choice": _class_sums,
    "regression": _number_sums,
    "tagging": _tag_sums,
    "span": _span_sums,
}


def _shares(values: NDArray[Any]) -> Floats:
    return np.asarray(values, dtype=np.float64)[:, None] / len(values)


def _standardised(values: Floats) -> Floats:
    centred = values - values.mean()
    deviation = centred.std()
    scaled: Floats = centred / deviation if np.ptp(values) and deviation > 0 else np.zeros_like(centred)
    return scaled
