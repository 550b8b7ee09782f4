"""Metrics beside scikit-learn's and SciPy's, and what they are where they are not defined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertlab.errors import UserError
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Prediction
from bertlab.tasks.metric_names import known_metrics
from bertlab.tasks.metrics import (
    degeneracy,
    example_scores,
    matthews,
    mean_ranks,
    metrics_of,
    metrics_of_scores,
    nothing_learned,
    pearson,
    spearman,
)

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False, width=32)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=40)


def predictions_of(pairs: Any) -> list[Prediction]:
    return [Prediction(str(number), predicted, gold) for number, (gold, predicted) in enumerate(pairs)]


@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c", "d"]], ids=len)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")  # scikit-learn warns where a metric is not defined
def test_classification_is_as_scikit_learn_has_it(labels: list[str], data: st.DataObject) -> None:
    from sklearn import metrics as sklearn

    pairs = data.draw(st.lists(st.tuples(*[st.sampled_from(labels)] * 2), min_size=1, max_size=30))
    gold, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = metrics_of(TaskConfig(kind="classification"), predictions_of(pairs), labels)
    assert found["accuracy"] == pytest.approx(sklearn.accuracy_score(gold, predicted), abs=1e-12)
    assert found["matthews"] == pytest.approx(sklearn.matthews_corrcoef(gold, predicted), abs=1e-12)
    assert found["macro_f1"] == pytest.approx(sklearn.f1_score(gold, predicted, average="macro", zero_division=0), abs=1e-12)
    if len(labels) == 2:
        assert found["f1"] == pytest.approx(sklearn.f1_score(gold, predicted, pos_label="yes", zero_division=0), abs=1e-12)
    else:
        assert "f1" not in found


@given(counts=st.lists(st.integers(1, 10**6), min_size=2, max_size=5))
@example(counts=[1, 3])  # whose two square roots, multiplied, are not what they are the root of
def test_matthews_of_perfect_predictions_is_exactly_one(counts: list[int]) -> None:
    assert matthews(np.diag(counts)) == 1.0
    assert matthews(np.diag(counts[:2])[::-1]) == -1.0  # of two classes each taken for the other


@given(PAIRS)
@pytest.mark.filterwarnings("ignore")  # SciPy warns of constant and nearly constant numbers
def test_correlations_are_as_scipy_has_them(pairs: list[tuple[float, float]]) -> None:
    from scipy import stats

    one, other = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    assert spearman(one, other) == pytest.approx(np.nan_to_num(stats.spearmanr(one, other).statistic), abs=1e-9)
    assert mean_ranks(one) == pytest.approx(stats.rankdata(one))
    if min(one.std(), other.std()) > 1e-6 * np.abs(np.concatenate([one, other])).max():  # past that SciPy loses every digit
        assert pearson(one, other) == pytest.approx(stats.pearsonr(one, other).statistic, abs=1e-7)


@given(PAIRS, st.floats(0.1, 10), st.floats(-5, 5))
def test_spearman_heeds_the_order_alone(pairs: list[tuple[float, float]], factor: float, shift: float) -> None:
    one, other = np.array([pair[0] for pair in pairs]), np.round(np.array([pair[1] for pair in pairs]))
    assert spearman(one, other) == pytest.approx(spearman(one, other**3), abs=1e-12)
    assert spearman(other, one) == spearman(one, other)


def test_choice_and_words_that_stand_for_themselves() -> None:
    assert metrics_of(TaskConfig(kind="choice"), predictions_of([(0, 0), (3, 1), (2, 2), (1, 0)]), []) == {"accuracy": 0.5}
    tagged = predictions_of([(["l", "U", "l"], ["l", "U", "U"]), (["U"], ["M"])])
    labels = ["l", "U", "M"]
    found = metrics_of(TaskConfig(kind="tagging", scheme="none", labels=labels), tagged, labels)
    assert found == {"accuracy": 0.5, "precision": 1 / 3, "recall": 1 / 2, "f1": pytest.approx(0.4)}


def test_of_tags_that_were_learned_only_o_says_nothing() -> None:
    task = TaskConfig(kind="tagging", scheme="none")
    speech = predictions_of([(["ADJ", "NOUN", "ADJ"], ["VERB", "NOUN", "ADJ"])])  # ADJ is no less a part of speech for coming first
    found = metrics_of(task, speech, ["ADJ", "NOUN", "VERB"])
    assert (found["precision"], found["recall"]) == pytest.approx((2 / 3, 2 / 3))  # the F1 would be the same without ADJ
    capitals = predictions_of([(["O", "up", "O"], ["up", "up", "O"])])
    assert metrics_of(task, capitals, ["O", "up"])["f1"] == pytest.approx(2 / 3)
    assert metrics_of(task, capitals, ["O", "up"])["precision"] == 1 / 2


class TestWhereAMetricIsNotDefined:
    def test_one_class_alone_has_a_matthews_of_zero(self) -> None:
        predictions = predictions_of([("a", "a"), ("b", "a"), ("b", "a")])
        task = TaskConfig(kind="classification")
        assert metrics_of(task, predictions, ["a", "b"])["matthews"] == 0.0
        assert metrics_of(task, predictions, ["a", "b"])["f1"] == 0.0
        assert degeneracy(task, predictions) == "all 3 predictions are 'a'"

    def test_constant_numbers_have_no_correlation(self) -> None:
        task, predictions = TaskConfig(kind="regression"), predictions_of([(1.0, 2.5), (2.0, 2.5), (3.0, 2.5)])
        assert metrics_of(task, predictions, []) == {"pearson": 0.0, "spearman": 0.0}
        assert degeneracy(task, predictions) == "all 3 predictions are 2.5 or nearly so"
        assert degeneracy(task, predictions_of([(1.0, 2.5), (2.0, 2.50001), (3.0, 2.5)])) is not None
        assert degeneracy(task, predictions_of([(1.0, 2.0), (2.0, 3.0)])) is None
        # Hardly different is what is so beside the labels, whatever their unit.
        assert degeneracy(task, predictions_of([(1000.0, 250.0), (2000.0, 250.1)])) is not None
        assert degeneracy(task, predictions_of([(1e-4, 2e-4), (2e-4, 3e-4)])) is None

    def test_no_entity_is_found(self) -> None:
        task, predictions = TaskConfig(kind="tagging"), predictions_of([(["B-X", "O"], ["O", "O"]), (["O"], ["O"])])
        assert metrics_of(task, predictions, ["O", "B-X"]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 2 / 3}
        assert degeneracy(task, predictions) == "every word of all 2 predictions is tagged O"

    def test_no_answer_is_given(self) -> None:
        task = TaskConfig(kind="span", no_answer=True)
        assert degeneracy(task, predictions_of([(["x"], ""), ([], "")])) == "all 2 predictions are '' (no answer)"
        assert degeneracy(task, predictions_of([(["x"], "x"), ([], "")])) is None

    def test_one_example_says_nothing_about_degeneracy(self) -> None:
        assert degeneracy(TaskConfig(kind="choice"), predictions_of([(0, 1)])) is None


def test_a_run_is_no_failure_if_it_is_better_than_one_answer_to_everything() -> None:
    task, learned = TaskConfig(kind="choice"), predictions_of([(0, 1), (1, 0), (0, 0)])
    assert [nothing_learned(task, learned, "accuracy", value, 0.5) is None for value in (0.4, 0.5, 0.6)] == [False, False, True]
    alike = predictions_of([(0, 0), (1, 0), (0, 0)])
    assert nothing_learned(task, alike, "accuracy", 0.6, 0.5) == "all 3 predictions are 0"


class TestMistakes:
    def test_nothing_to_score(self) -> None:
        with pytest.raises(UserError, match="nothing to score"):
            metrics_of(TaskConfig(kind="choice"), [], [])

    def test_what_is_right_is_not_known(self) -> None:
        with pytest.raises(UserError, match="The right answer of 1 of the 2 examples is not known"):
            metrics_of(TaskConfig(kind="choice"), predictions_of([(0, 0), (None, 0)]), [])

    def test_an_unknown_label(self) -> None:
        with pytest.raises(UserError, match="Unknown label 'entailmnt': did you mean entailment"):
            metrics_of(TaskConfig(kind="classification"), predictions_of([("entailment", "entailmnt")]), ["entailment", "neutral"])

    def test_a_tag_too_few(self) -> None:
        with pytest.raises(UserError, match="'0' has 2 words"):
            metrics_of(TaskConfig(kind="tagging"), predictions_of([(["O", "O"], ["O"])]), ["O"])


EXAMPLES: dict[str, tuple[TaskConfig, list[tuple[Any, Any]], list[str]]] = {
    "classification": (TaskConfig(kind="classification"), [("a", "b"), ("a", "a"), ("b", "b"), ("b", "a")], ["a", "b"]),
    "regression": (TaskConfig(kind="regression"), [(1.0, 2.0), (2.0, 1.5), (4.0, 3.0), (0.0, 0.5)], []),
    "choice": (TaskConfig(kind="choice"), [(1, 1), (0, 2), (3, 3), (1, 0)], []),
    "tagging": (TaskConfig(kind="tagging"), [(["B-X", "O"], ["B-X", "I-X"]), (["O"], ["B-X"]), (["B-X"], ["B-X"])], ["O", "B-X", "I-X"]),
    "span": (TaskConfig(kind="span"), [(["the cat"], "a cat"), (["dogs", "two dogs"], "dogs"), (["x"], "y")], []),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_metrics_of_drawn_examples_are_those_of_their_scores(kind: str) -> None:
    task, pairs, labels = EXAMPLES[kind]
    drawn = [2, 0, 0, 1]
    scores = example_scores(task, predictions_of(pairs), labels)
    taken = {name: values[drawn] for name, values in scores.items()}
    assert metrics_of_scores(task, taken, labels) == metrics_of(task, predictions_of([pairs[place] for place in drawn]), labels)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_known_metric_is_given(kind: str) -> None:
    task, pairs, labels = EXAMPLES[kind]
    task = TaskConfig(kind=task.kind, labels=labels)
    assert set(known_metrics(task)) == set(metrics_of(task, predictions_of(pairs), labels))
