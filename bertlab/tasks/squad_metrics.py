"""Exact match and F1 of answers as SQuAD's official scripts count them: v1.1 (Rajpurkar et al. 2016) and v2.0 (2018).

The two scripts differ where no word is left of a text: v1.1 gives two such texts an F1 of 0, v2.0 one of 1; and in v2.0 a question
without answers has the empty text as its only right one.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bertlab.arrays import Floats

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """The text in lower case, without ASCII punctuation, without articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def answer_scores(prediction: str, answers: Sequence[str], no_answer: bool) -> tuple[float, float]:
    """Exact match and F1 of a prediction: each the best over the accepted answers.

    Args:
        prediction: a text; "" says that there is no answer.
        answers: every accepted one; none where the question has no answer.
        no_answer: whether questions may have none: v2.0's way of counting.
    """
    given = normalised(prediction)
    accepted = [normalised(answer) for answer in answers]
    if no_answer:
        accepted = [answer for answer in accepted if answer] or [""]
    exact = max((float(given == answer) for answer in accepted), default=0.0)
    return exact, max((_f1(given.split(), answer.split(), no_answer) for answer in accepted), default=0.0)


def _f1(given: list[str], accepted: list[str], no_answer: bool) -> float:
    if no_answer and not (given and accepted):
        return float(given == accepted)
    common = (Counter(given) & Counter(accepted)).total()
    if common == 0:
        return 0.0
    precision, recall = common / len(given), common / len(accepted)
    return 2 * precision * recall / (precision + recall)


def span_metrics(exact: Floats, f1: Floats, has_answer: NDArray[np.bool_]) -> dict[str, float]:
    """The means over all questions, and over those with and without an answer where there are both kinds; all (E,)."""
    found = {"exact": float(exact.mean()), "f1": float(f1.mean())}
    if has_answer.all():
        return found
    for name, part in (("has_answer", has_answer), ("no_answer", ~has_answer)):
        if part.any():
            found[f"{name}_exact"], found[f"{name}_f1"] = float(exact[part].mean()), float(f1[part].mean())
    return found


def thresholded(values: Floats, has_answer: NDArray[np.bool_], null: Floats, threshold: float) -> Floats:
    """A metric's values (E,) where "no answer" is said of every question whose ``null`` is above the threshold."""
    return np.where(null > threshold, (~has_answer).astype(np.float64), values)


def best_thresholds(
    scores: Mapping[str, Floats], has_answer: NDArray[np.bool_], says_something: NDArray[np.bool_], null: Floats
) -> dict[str, float]:
    """What each metric would be at the best threshold of ``null``, above which "no answer" is said instead of the prediction.

    Args:
        scores: metric → its value for each question with the predictions as they are, (E,).
        has_answer: (E,) whether the question has one.
        says_something: (E,) whether the prediction is a text.
        null: (E,) how much speaks for "no answer": a probability, or a difference of scores.

    Returns:
        ``best_NAME`` and ``best_NAME_threshold`` of each metric: the largest ``null`` for which the prediction is still given; 0 where it
        is best to say "no answer" to every question, as the official script has it.
    """
    found = {}
    for name, values in scores.items():
        given, best = _best_cut(_gains(values, has_answer, says_something), has_answer, null)
        found[f"best_{name}"] = best / len(null)
        found[f"best_{name}_threshold"] = float(null[given[-1]]) if given.size else 0.0
    return found


def at_best_cut(values: Floats, has_answer: NDArray[np.bool_], says_something: NDArray[np.bool_], null: Floats) -> Floats:
    """What each question (E,) adds to ``best_NAME`` of ``best_thresholds``, of which this is the mean.

    Of questions with equal ``null`` the official script may answer some and others not, which no threshold says.
    """
    gains = _gains(values, has_answer, says_something)
    given, _ = _best_cut(gains, has_answer, null)
    found = (~has_answer).astype(np.float64)
    found[given] += gains[given]
    return found


def _gains(values: Floats, has_answer: NDArray[np.bool_], says_something: NDArray[np.bool_]) -> Floats:
    """What it adds to a metric's sum that a question's prediction is given, instead of "no answer", (E,)."""
    return np.where(has_answer, values, -says_something.astype(np.float64))


def _best_cut(gains: Floats, has_answer: NDArray[np.bool_], null: Floats) -> tuple[NDArray[np.int64], float]:
    """Which questions' predictions are best given, by ascending ``null``, and the metric's sum then."""
    order = np.argsort(null, kind="stable")
    totals = np.cumsum(np.concatenate([[float((~has_answer).sum())], gains[order]]))  # in the official script's order of addition
    best = int(np.argmax(totals))  # the first of several
    return order[:best], float(totals[best])
