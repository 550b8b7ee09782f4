from __future__ import annotations

import random

import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

from bertlab.task_config import TaskConfig
from bertlab.tasks.baseline import constant_predictions
from bertlab.tasks.examples import Answer, ChoiceExample, Prediction, SpanExample, TaggingExample, TextExample


def predicted(golds: list[object]) -> list[Prediction]:
    return [Prediction(str(number), "anything", gold, [0.5]) for number, gold in enumerate(golds)]


def test_the_most_frequent_class_as_in_scikit_learn() -> None:
    draw = random.Random(0)
    labels = ["a", "b", "c"]
    training = [TextExample(str(n), "x", label=draw.choices(range(3), [3, 5, 2])[0]) for n in range(50)]
    dummy = DummyClassifier(strategy="most_frequent").fit([[0]] * 50, [labels[int(each.label or 0)] for each in training])
    found = constant_predictions(TaskConfig(kind="classification"), training, labels, predicted(["a", "b", "c"]))
    assert [each.prediction for each in found] == list(dummy.predict([[0]] * 3))
    assert [each.gold for each in found] == ["a", "b", "c"]


def test_the_mean_number_as_in_scikit_learn() -> None:
    training = [TextExample(str(n), "x", label=value) for n, value in enumerate([1.0, 2.5, 4.0, 0.25])]
    dummy = DummyRegressor(strategy="mean").fit([[0]] * 4, [each.label for each in training])
    found = constant_predictions(TaskConfig(kind="regression"), training, [], predicted([1.0, 2.0]))
    assert [each.prediction for each in found] == pytest.approx(list(dummy.predict([[0]] * 2)))


def test_choices_tags_and_spans() -> None:
    choices = [ChoiceExample(str(n), "x", ("p", "q"), label) for n, label in enumerate([0, 1, 1])]
    assert constant_predictions(TaskConfig(kind="choice"), choices, [], predicted([0]))[0].prediction == 1
    sentences = [TaggingExample("0", ("u", "v", "w"), (1, 0, 0)), TaggingExample("1", ("u",), (1,)), TaggingExample("2", ("u",), (0,))]
    given = [Prediction("0", ["B", "B"], ["O", "B"])]
    assert constant_predictions(TaskConfig(kind="tagging"), sentences, ["O", "B"], given)[0].prediction == ["O", "O"]
    questions = [SpanExample("0", "who", "she", (Answer("she", 0),))]
    assert constant_predictions(TaskConfig(kind="span"), questions, [], predicted([["she"]]))[0].prediction == ""
