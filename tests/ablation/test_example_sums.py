from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from bertlab.ablation.bootstrap import resampled
from bertlab.ablation.example_sums import ExampleSums, example_sums, matthews
from bertlab.errors import UserError
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Prediction
from bertlab.tasks.metrics import example_scores, metrics_of
from bertlab.tasks.squad_metrics import thresholded

COUNT = 120
RANDOM = np.random.default_rng(7)


def classes(labels: list[str]) -> list[Prediction]:
    gold = RANDOM.integers(0, len(labels), COUNT)
    said = np.where(RANDOM.random(COUNT) < 0.6, gold, RANDOM.integers(0, len(labels), COUNT))
    return [Prediction(str(n), labels[said[n]], labels[gold[n]]) for n in range(COUNT)]


def numbers() -> list[Prediction]:
    gold = RANDOM.integers(0, 11, COUNT) / 2.0
    return [Prediction(str(n), float(1000 + gold[n] + RANDOM.normal(0, 2)), float(gold[n])) for n in range(COUNT)]


def tags() -> list[Prediction]:
    names = ["O", "O", "B-PER", "I-PER", "B-LOC"]
    found = []
    for number in range(COUNT):
        gold = [names[place] for place in RANDOM.integers(0, 5, RANDOM.integers(1, 12))]
        said = [tag if RANDOM.random() < 0.7 else names[RANDOM.integers(0, 5)] for tag in gold]
        found.append(Prediction(str(number), said, gold))
    return found


def spans() -> list[Prediction]:
    answers = ["the red house", "red house", "a house", "Paris", "in Paris, France", ""]
    found = []
    for number in range(COUNT):
        gold = [] if RANDOM.random() < 0.3 else [answers[RANDOM.integers(0, 5)], answers[RANDOM.integers(0, 5)]]
        score = float(RANDOM.normal() + (1 if gold else -1))  # speaks for the answer, more or less
        answer = answers[RANDOM.integers(0, 6)]
        found.append(Prediction(str(number), "" if score < 0.5 else answer, gold, [score], answer))
    return found


TWO, THREE = ["no", "yes"], ["a", "b", "c"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
CASES: list[tuple[TaskConfig, list[str], list[Prediction], list[str]]] = [
    (TaskConfig(name="two", kind="classification"), TWO, classes(TWO), ["accuracy", "f1", "matthews", "macro_f1"]),
    (TaskConfig(name="three", kind="classification"), THREE, classes(THREE), ["accuracy", "matthews", "macro_f1"]),
    (TaskConfig(name="numbers", kind="regression"), [], numbers(), ["pearson", "spearman"]),
    (TaskConfig(name="tags", kind="tagging"), TAGS, tags(), ["f1", "precision", "recall", "accuracy"]),
    (
        TaskConfig(name="spans", kind="span", no_answer=True),
        [],
        spans(),
        ["exact", "f1", "has_answer_f1", "no_answer_exact", "best_f1", "best_exact"],
    ),
]
ALL = [(task, labels, predictions, metric) for task, labels, predictions, metrics in CASES for metric in metrics]
IDS = [f"{task.name}-{metric}" for task, _, _, metric in ALL]


def counts_of(draws: int) -> Any:
    return np.random.default_rng(3).multinomial(COUNT, np.full(COUNT, 1 / COUNT), size=draws)


@pytest.mark.parametrize(("task", "labels", "predictions", "metric"), ALL, ids=IDS)
def test_all_examples_give_the_metric(task: TaskConfig, labels: list[str], predictions: list[Prediction], metric: str) -> None:
    sums = example_sums(task, metric, predictions, labels)
    assert sums.value() == pytest.approx(metrics_of(task, predictions, labels)[metric], abs=1e-12)


@pytest.mark.parametrize(("task", "labels", "predictions", "metric"), ALL, ids=IDS)
def test_resampled_examples_give_the_metric_computed_anew(
    task: TaskConfig, labels: list[str], predictions: list[Prediction], metric: str
) -> None:
    sums = example_sums(task, metric, predictions, labels)
    counts = counts_of(40)
    fast = sums.formula(counts @ sums.rows)
    samples = [[predictions[n] for n in np.repeat(np.arange(COUNT), row)] for row in counts]
    if metric.startswith("best_"):  # the threshold is that of all examples
        threshold = metrics_of(task, predictions, labels)[f"{metric}_threshold"]
        slow = [np.mean(at_threshold(task, sample, metric.removeprefix("best_"), threshold)) for sample in samples]
    else:
        slow = [metrics_of(task, sample, labels)[metric] for sample in samples]
    # Spearman's correlation is linear in the counts up to terms of the order 1 / E.
    np.testing.assert_allclose(fast, slow, atol=10 / COUNT if metric == "spearman" else 1e-10)


def at_threshold(task: TaskConfig, predictions: list[Prediction], metric: str, threshold: float) -> Any:
    scores = example_scores(task, predictions, [])
    return thresholded(scores[f"answered_{metric}"], scores["has_answer"], scores["null"], threshold)


@pytest.mark.parametrize("metric", ["best_exact", "best_f1"])
def test_questions_of_equal_scores_may_be_parted_by_the_best_cut(metric: str) -> None:
    """The official script answers the first of these three and not the others: two are right, and no threshold says so."""
    task = TaskConfig(kind="span", no_answer=True)
    rows = [("cat", ["cat"]), ("dog", ["cow"]), ("hen", [])]
    predictions = [Prediction(str(number), text, gold, [0.0], text) for number, (text, gold) in enumerate(rows)]
    sums = example_sums(task, metric, predictions, [])
    assert metrics_of(task, predictions, [])[metric] == pytest.approx(2 / 3)
    assert sums.value() == pytest.approx(2 / 3)
    np.testing.assert_allclose(sums.rows[:, 0] * 3, [1, 0, 1])


def test_spearman_s_error_falls_as_one_over_the_examples() -> None:
    for count in (200, 2000):
        random = np.random.default_rng(count)
        gold = random.integers(0, 11, count) / 2.0
        said = gold + random.normal(0, 2, count)
        predictions = [Prediction(str(n), float(said[n]), float(gold[n])) for n in range(count)]
        sums = example_sums(TaskConfig(kind="regression"), "spearman", predictions, [])
        counts = random.multinomial(count, np.full(count, 1 / count), size=50)
        fast = sums.formula(counts @ sums.rows)
        slow = np.array([spearmanr(np.repeat(gold, row), np.repeat(said, row)).statistic for row in counts])
        assert np.abs(fast - slow).max() < 10 / count
        assert fast.std() == pytest.approx(slow.std(), rel=0.05)


def test_matthews_of_rounded_sums_stays_within_its_bounds() -> None:
    weights = np.random.default_rng(0).random((1000, 2))
    perfect = matthews(np.concatenate([weights, weights, weights], axis=1))  # all that is there is said, and right
    assert perfect.max() == 1.0
    np.testing.assert_allclose(perfect, 1.0)


@pytest.mark.parametrize("metric", ["f1", "matthews", "macro_f1"])
def test_what_is_not_defined_is_zero_as_in_the_metrics(metric: str) -> None:
    task = TaskConfig(kind="classification")
    predictions = [Prediction(str(n), "no", "no") for n in range(5)]
    assert example_sums(task, metric, predictions, TWO).value() == metrics_of(task, predictions, TWO)[metric]


def test_constant_numbers_have_no_correlation() -> None:
    predictions = [Prediction(str(n), 0.1, float(n)) for n in range(30)]
    sums = example_sums(TaskConfig(kind="regression"), "pearson", predictions, [])
    assert sums.value() == 0
    assert not sums.formula(np.random.default_rng(0).multinomial(30, np.full(30, 1 / 30), size=50) @ sums.rows).any()


@pytest.mark.parametrize(("task", "labels", "predictions"), [case[:3] for case in CASES], ids=[case[0].name for case in CASES])
def test_an_unknown_metric_is_told(task: TaskConfig, labels: list[str], predictions: list[Prediction]) -> None:
    with pytest.raises(UserError, match=r"Unknown metric .* 'acuracy'"):
        example_sums(task, "acuracy", predictions, labels)


def test_examples_in_another_order_are_the_same_examples() -> None:
    task, labels, predictions, _ = CASES[0]
    ours = example_sums(task, "f1", predictions, labels)
    order = np.random.default_rng(1).permutation(COUNT)
    theirs = example_sums(task, "f1", [predictions[n] for n in order], labels)
    values = resampled([ours, theirs], 20, "order")
    np.testing.assert_allclose(values[:, 0], values[:, 1])


def test_other_examples_are_refused() -> None:
    task, labels, predictions, _ = CASES[0]
    ours = example_sums(task, "f1", predictions, labels)
    fewer = example_sums(task, "f1", predictions[1:], labels)
    with pytest.raises(ValueError, match="different examples"):
        resampled([ours, fewer], 20, "other")
    renamed = ExampleSums(ours.formula, ("x", *ours.ids[1:]), ours.rows)
    with pytest.raises(ValueError, match="different examples"):
        resampled([ours, renamed], 20, "other")
    with pytest.raises(ValueError, match="different metrics"):
        resampled([ours, example_sums(task, "accuracy", predictions, labels)], 20, "other")
