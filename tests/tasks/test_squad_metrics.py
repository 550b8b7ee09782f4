"""SQuAD's scores beside a slow scorer of its own, which reads texts letter by letter, and beside torchmetrics'."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Prediction
from bertlab.tasks.metric_names import known_metrics
from bertlab.tasks.metrics import metrics_of
from bertlab.tasks.scoring import scored
from bertlab.tasks.squad_metrics import answer_scores, normalised

# What goes wrong in scorers: articles beside punctuation, case, white space of all kinds, nothing but an article, repeated words.
PIECES = [
    "a",
    "an",
    "the",
    "The",
    "A",
    "cat",
    "Cat",
    "cats",
    "ÉTÉ",
    "été",
    "İ",
    "ß",
    "1,000",
    "1000",
    "a.m",
    "the-end",
    "–",
    "—the—",
    "_",
    "don't",
]
PIECES += ["dont", ".", "...", "'", "“the”", "$", "日本", "a日本", "\u0301", "the\u0301", "x_the_y"]
GAPS = ["", " ", "  ", "\t", "\n", "\u00a0", "\u3000", "\u200b", "-"]
TEXT = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(GAPS)), max_size=5).map(lambda parts: "".join(map("".join, parts)))
ANSWERS = st.lists(TEXT, min_size=1, max_size=3)


def slow_words(text: str) -> list[str]:
    """Words by the official rule: lower case, no ASCII punctuation, no article that stands alone, split at white space."""
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    words, at = [], 0
    while at < len(kept):
        end = at
        while end < len(kept) and (kept[end].isalnum() or kept[end] == "_") == (kept[at].isalnum() or kept[at] == "_"):
            end += 1
        words.append(" " if kept[at:end] in ("a", "an", "the") else kept[at:end])
        at = end
    return "".join(words).split()


def slow_scores(prediction: str, answers: Sequence[str], v2: bool) -> tuple[float, float]:
    accepted = [slow_words(answer) for answer in answers]
    if v2:
        accepted = [words for words in accepted if words] or [[]]
    given_words = slow_words(prediction)
    best_exact = best_f1 = 0.0
    for words in accepted:
        best_exact = max(best_exact, float(words == given_words))
        left, common = list(words), 0
        for word in given_words:
            if word in left:
                left.remove(word)
                common += 1
        if v2 and (not words or not given_words):
            best_f1 = max(best_f1, float(words == given_words))
        elif common:
            best_f1 = max(best_f1, 2 * common / (len(words) + len(given_words)))
    return best_exact, best_f1


@settings(max_examples=300)
@given(TEXT, ANSWERS, st.booleans())
def test_scores_are_those_of_a_slow_scorer(prediction: str, answers: list[str], v2: bool) -> None:
    assert answer_scores(prediction, answers, v2) == pytest.approx(slow_scores(prediction, answers, v2), abs=1e-12)
    assert normalised(prediction).split() == slow_words(prediction)


SOMETHING = TEXT.filter(lambda text: bool(slow_words(text)))  # where no word is left torchmetrics counts as v2.0's script does


@settings(max_examples=8)
@given(st.lists(st.tuples(SOMETHING, st.lists(SOMETHING, min_size=1, max_size=3)), min_size=1, max_size=20))
def test_v1_is_as_torchmetrics_has_it(rows: list[tuple[str, list[str]]]) -> None:
    from torchmetrics.functional.text import squad

    theirs = squad(
        [{"prediction_text": text, "id": str(number)} for number, (text, _) in enumerate(rows)],
        [{"answers": {"text": answers, "answer_start": [0] * len(answers)}, "id": str(number)} for number, (_, answers) in enumerate(rows)],
    )
    ours = metrics_of(TaskConfig(kind="span"), [Prediction(str(n), text, answers) for n, (text, answers) in enumerate(rows)], [])
    assert ours["exact"] * 100 == pytest.approx(float(theirs["exact_match"]), abs=1e-4)
    assert ours["f1"] * 100 == pytest.approx(float(theirs["f1"]), abs=1e-4)


def test_the_two_scripts_differ_where_no_word_is_left() -> None:
    assert answer_scores("the", ["a"], no_answer=False) == (1.0, 0.0)
    assert answer_scores("the", ["a"], no_answer=True) == (1.0, 1.0)
    assert answer_scores("", [], no_answer=True) == (1.0, 1.0)
    assert answer_scores("cat", [], no_answer=True) == (0.0, 0.0)
    assert answer_scores("cat", [], no_answer=False) == (0.0, 0.0)
    assert answer_scores("", ["the", "cat"], no_answer=True) == (0.0, 0.0)  # an accepted answer of no words is none


QUESTIONS = st.lists(
    st.tuples(TEXT, st.one_of(st.just([]), ANSWERS), st.sampled_from([0.0, 0.1, 0.5, 0.5, 0.9, 1.5, -2.0])), min_size=1, max_size=8
)


@given(QUESTIONS, st.sampled_from([1.0, 0.5, 0.4, -1.0]), st.booleans())
def test_v2_with_probabilities_is_what_its_script_does(rows: list[tuple[str, list[str], float]], threshold: float, backwards: bool) -> None:
    task = TaskConfig(kind="span", no_answer=True)
    predictions = [Prediction(str(number), text, answers) for number, (text, answers, _) in enumerate(rows)]
    numbers = range(len(rows))[::-1] if backwards else range(len(rows))  # in the order of the probabilities' own file
    found = scored(task, predictions, [], {str(number): rows[number][2] for number in numbers}, threshold)
    for place, name in enumerate(("exact", "f1")):
        raw = [slow_scores(text, answers, True)[place] for text, answers, _ in rows]
        cut = [float(not answers) if value > threshold else score for score, (_, answers, value) in zip(raw, rows, strict=True)]
        assert found[name] == pytest.approx(np.mean(cut), abs=1e-12)
        for part, has in (("has_answer", True), ("no_answer", False)):
            inside = [score for score, (_, answers, _) in zip(cut, rows, strict=True) if bool(answers) == has]
            if inside and any(not answers for _, answers, _ in rows):
                assert found[f"{part}_{name}"] == pytest.approx(np.mean(inside), abs=1e-12)
        # Questions by how much speaks for no answer: answering the first k of them and saying "no answer" to the others.
        order = sorted(numbers, key=lambda number: rows[number][2])
        totals = []
        for answered in range(len(rows) + 1):
            said = set(order[:answered])
            totals.append(
                sum(
                    (raw[number] if answers else float(not text)) if number in said else float(not answers)
                    for number, (text, answers, _) in enumerate(rows)
                )
            )
        best = totals.index(max(totals))
        assert found[f"best_{name}"] == pytest.approx(max(totals) / len(rows), abs=1e-12)
        # Equal totals may come out of different sums; the threshold is one of those that reach the best.
        reached = {0.0 if not k else rows[order[k - 1]][2] for k in range(len(rows) + 1) if totals[k] > max(totals) - 1e-9}
        assert found[f"best_{name}_threshold"] in reached
        assert best >= 0


def test_many_questions_of_equal_probability_are_gone_through_in_the_order_of_the_file() -> None:
    task = TaskConfig(kind="span", no_answer=True)
    predictions = [Prediction(str(number), "cat", ["cat"] if number < 20 else []) for number in range(40)]
    null = {str(number): 0.5 if number % 2 else 0.1 for number in range(40)}
    # Of the twenty at 0.1 the ten that have an answer come first: best is to answer these, and no other.
    assert scored(task, predictions, [], null)["best_exact"] == 30 / 40
    # In the opposite order those without come first, and it is best to answer nothing.
    backwards = dict(reversed(null.items()))
    assert scored(task, predictions, [], backwards)["best_exact"] == 20 / 40


def test_scores_of_our_own_predictions_give_the_best_thresholds() -> None:
    task = TaskConfig(kind="span", no_answer=True)
    rows = [("cat", ["cat"], 3.0), ("dog", [], 1.0), ("cow", ["cow"], 2.0), ("hen", [], -1.0)]
    predictions = [Prediction(str(number), text, gold, [score]) for number, (text, gold, score) in enumerate(rows)]
    found = metrics_of(task, predictions, [])
    assert found["exact"] == found["f1"] == 0.5
    assert found["best_exact"] == found["best_f1"] == 1.0
    assert found["best_f1_threshold"] == -2.0  # no answer where null - best is above it
    assert set(known_metrics(task)) <= set(found)


@given(QUESTIONS, st.sampled_from([-10.0, -0.5, 0.0, 0.5, 10.0]))
def test_the_best_thresholds_are_of_answers_that_no_threshold_has_hidden(
    rows: list[tuple[str, list[str], float]], threshold: float
) -> None:
    """As the official script, which is given every answer, goes through the questions; exact match and F1 have thresholds of their own."""
    task = TaskConfig(kind="span", no_answer=True)
    rows = [(text, answers, score + number / 1000) for number, (text, answers, score) in enumerate(rows)]  # all margins differ
    predictions = [
        Prediction(str(number), "" if margin < threshold else text, answers, [margin], text)
        for number, (text, answers, margin) in enumerate(rows)
    ]
    found = metrics_of(task, predictions, [])
    for place, name in enumerate(("exact", "f1")):
        best = -1.0
        for least in (float("inf"), *(margin for _, _, margin in rows)):  # answered from this margin on, else "no answer"
            total = 0.0
            for text, answers, margin in rows:
                if margin < least:
                    total += float(not answers)
                elif answers:
                    total += slow_scores(text, answers, True)[place]
                else:
                    total += float(not text)
            best = max(best, total / len(rows))
        assert found[f"best_{name}"] == pytest.approx(best, abs=1e-12)
        at_the_threshold = [slow_scores("" if margin < threshold else text, answers, True)[place] for text, answers, margin in rows]
        assert found[name] == pytest.approx(np.mean(at_the_threshold), abs=1e-12)


def test_a_best_exact_match_may_want_answers_that_the_best_f1_hides() -> None:
    task = TaskConfig(kind="span", no_answer=True)
    rows = [("the cat sat", ["cat"], 3.0), ("dog", ["dog"], 1.0), ("cow", [], 2.0)]
    hidden = [Prediction(str(number), "" if score < 2.5 else text, gold, [score], text) for number, (text, gold, score) in enumerate(rows)]
    assert metrics_of(task, hidden, [])["best_exact"] == pytest.approx(1 / 3)
    rows[2] = ("", [], 2.0)  # nothing to say of it: saying it is right at every threshold
    hidden = [Prediction(str(number), "" if score < 2.5 else text, gold, [score], text) for number, (text, gold, score) in enumerate(rows)]
    assert metrics_of(task, hidden, [])["exact"] == pytest.approx(1 / 3)
    assert metrics_of(task, hidden, [])["best_exact"] == pytest.approx(2 / 3)


def test_v1_has_no_parts() -> None:
    assert set(metrics_of(TaskConfig(kind="span"), [Prediction("0", "x", ["x"])], [])) == {"exact", "f1"}
