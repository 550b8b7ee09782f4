"""One answer to every example, against scikit-learn's dummies and against trying every answer."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import f1_score

from bertlab.task_config import TaskConfig
from bertlab.tasks.baseline import constant_metrics
from bertlab.tasks.examples import Prediction
from bertlab.tasks.metric_names import known_metrics
from bertlab.tasks.metrics import metrics_of

LABELS = ["a", "b"]


def predicted(golds: list[object]) -> list[Prediction]:
    """Of examples with these right answers; what is predicted must not matter."""
    return [Prediction(str(number), "anything", gold, [0.5]) for number, gold in enumerate(golds)]


def best_of(task: TaskConfig, labels: list[str], answers: list[object], predictions: list[Prediction]) -> dict[str, float]:
    """By trying: every answer for every metric."""
    tried = [metrics_of(task, [replace(each, prediction=answer) for each in predictions], labels) for answer in answers]
    return {name: max(each[name] for each in tried) for name in tried[0]}


def test_of_two_classes_each_metric_has_its_best_answer() -> None:
    gold = random.Random(0).choices(LABELS, [7, 3], k=50)
    dummy = DummyClassifier(strategy="most_frequent").fit([[0]] * 50, gold)
    found = constant_metrics(TaskConfig(kind="classification"), predicted(list(gold)), LABELS)
    assert found["accuracy"] == pytest.approx(dummy.score([[0]] * 50, gold))
    assert found["f1"] == pytest.approx(f1_score(gold, ["b"] * 50, pos_label="b"))  # a, which is more frequent, has none
    assert found["matthews"] == 0.0


def test_more_classes_and_choices_as_by_trying() -> None:
    draw, labels = random.Random(1), ["a", "b", "c", "never"]
    task, golds = TaskConfig(kind="classification"), predicted(draw.choices(labels[:3], [3, 5, 2], k=40))
    assert constant_metrics(task, golds, labels) == pytest.approx(best_of(task, labels, list(labels), golds))
    task, golds = TaskConfig(kind="choice"), predicted(draw.choices(range(4), k=30))
    assert constant_metrics(task, golds, []) == pytest.approx(best_of(task, [], [0, 1, 2, 3], golds))


def test_tags() -> None:
    task, labels = TaskConfig(kind="tagging", scheme="none"), ["O", "capital", "number"]
    golds = predicted([["O", "capital", "O"], ["capital", "O"], ["number"]])
    found = constant_metrics(task, golds, labels)
    assert found["accuracy"] == pytest.approx(3 / 6)  # O
    assert found["f1"] == pytest.approx(2 * 2 / (6 + 3))  # every word a capital: two of six are, and three words are anything


def test_a_number_follows_no_others() -> None:
    assert constant_metrics(TaskConfig(kind="regression"), predicted([1.0, 2.0, 4.0]), []) == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize("no_answer", [False, True])
def test_of_questions_every_metric_that_can_be_named_is_known(no_answer: bool) -> None:
    task = TaskConfig(kind="span", no_answer=no_answer)
    found = constant_metrics(task, predicted([["she"], [], []] if no_answer else [["she"], ["he"]]), [])
    assert set(known_metrics(task)) <= set(found)
    assert found["f1"] == pytest.approx(2 / 3 if no_answer else 0.0)
    if no_answer:
        assert (found["best_exact"], found["best_f1"]) == (found["exact"], found["f1"])
