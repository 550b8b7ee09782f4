from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_inputs import LETTERS, inputs_of

from bertlab.tasks.answers import UNREACHABLE, Found, find_answers, predictions, tune_threshold
from bertlab.tasks.batching import collate, token_indices
from bertlab.tasks.examples import Answer, SpanExample
from bertlab.tasks.inputs import Inputs

WORDS = st.lists(st.sampled_from(["a", "b", "house", "houses", "cafe\u0301", "日本", ",", "\u0000"]), max_size=25).map(" ".join)


def featurised(contexts: list[str], max_length: int = 12, stride: int = 3) -> tuple[list[SpanExample], Inputs]:
    sources = [SpanExample(f"q{number}", "a b", context, (Answer("x", 0),)) for number, context in enumerate(contexts)]
    return sources, inputs_of(sources, "span", max_length=max_length, stride=stride, max_query_length=2)


def slow_answers(
    inputs: Inputs, example: int, context: str, scores: dict[int, tuple[float, float]], longest: int
) -> tuple[list[tuple[str, float]], float]:
    """All allowed spans of an example by a loop over their tokens, the best of each text; and the score of no answer."""
    assert inputs.context_begins is not None
    assert inputs.characters is not None
    assert inputs.max_context is not None
    best: dict[str, float] = {}
    nulls = []
    for window in range(inputs.first_sequence[example], inputs.first_sequence[example + 1]):
        begin, stop = inputs.offsets[window], inputs.offsets[window + 1]
        nulls.append(sum(scores[begin]))
        for first in range(begin + inputs.context_begins[window], stop - 1):
            for last in range(first, min(first + longest, stop - 1)):
                if inputs.max_context[first]:
                    text = context[inputs.characters[first, 0] : inputs.characters[last, 1]]
                    score = scores[first][0] + scores[last][1]
                    best[text] = max(score, best.get(text, score))
    return sorted(best.items(), key=lambda one: -one[1]), min(nulls)


@settings(max_examples=150)
@given(
    st.lists(WORDS, min_size=1, max_size=4),
    st.integers(8, 16),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_answers_are_those_of_a_loop_over_all_spans(
    contexts: list[str], max_length: int, stride: int, longest: int, seed: int, order: int
) -> None:
    sources, inputs = featurised(contexts, max_length, stride)
    start, end = np.random.default_rng(seed).normal(size=(2, inputs.tokens.size))
    examples = np.random.default_rng(order).permutation(len(sources))
    places = token_indices(inputs, examples)
    found = find_answers(inputs, examples, start[places], end[places], sources, longest, count=10_000)
    scores = {n: (float(a), float(b)) for n, (a, b) in enumerate(zip(start, end, strict=True))}
    assert [one.example for one in found] == examples.tolist()
    for one in found:
        expected, null = slow_answers(inputs, one.example, contexts[one.example], scores, longest)
        assert [(candidate.text, candidate.score) for candidate in one.candidates] == expected
        assert one.null_score == null
        assert one.text == (expected[0][0] if expected else "")
        assert one.margin == (expected[0][1] if expected else UNREACHABLE) - null
        if expected:
            weights = np.exp([score for _, score in expected])
            np.testing.assert_allclose([c.probability for c in one.candidates], weights / weights.sum(), rtol=1e-9)
        for candidate in one.candidates:
            assert contexts[one.example][candidate.start :].startswith(candidate.text)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 36), min_size=1, max_size=3), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_the_best_few_begin_the_list_of_all(sizes: list[int], count: int, seed: int) -> None:
    """Spans are picked from the best starts alone; none that is better is missed."""
    contexts = [" ".join(LETTERS[:size]) for size in sizes]  # no text occurs twice
    sources, inputs = featurised(contexts)
    start, end = np.random.default_rng(seed).normal(size=(2, inputs.tokens.size))
    few = find_answers(inputs, range(len(sources)), start, end, sources, 5, count)
    every = find_answers(inputs, range(len(sources)), start, end, sources, 5, 10_000)
    for one, all_of_them in zip(few, every, strict=True):
        assert [(c.text, c.score) for c in one.candidates] == [(c.text, c.score) for c in all_of_them.candidates[:count]]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 36), min_size=1, max_size=3), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_of_spans_that_score_alike_the_first_and_shortest_come_first(sizes: list[int], count: int, seed: int) -> None:
    contexts = [" ".join(LETTERS[:size]) for size in sizes]  # no text occurs twice
    sources, inputs = featurised(contexts)
    start, end = np.random.default_rng(seed).integers(0, 3, (2, inputs.tokens.size))
    scores = {n: (float(a), float(b)) for n, (a, b) in enumerate(zip(start, end, strict=True))}
    for one in find_answers(inputs, range(len(sources)), start, end, sources, 5, count):
        expected, _ = slow_answers(inputs, one.example, contexts[one.example], scores, 5)  # a stable order
        assert [(c.text, c.score) for c in one.candidates] == expected[:count]


def test_equal_scores_go_to_the_first_and_shortest() -> None:
    sources, inputs = featurised(["a b house cafe , b a"])
    zeros = np.zeros(inputs.tokens.size, np.float32)
    (found,) = find_answers(inputs, [0], zeros, zeros, sources, 3, 4)
    assert [candidate.text for candidate in found.candidates] == ["a", "a b", "a b house", "b"]


def test_scores_of_a_gold_answer_give_it_back() -> None:
    context = "the  Cafe\u0301s, in 日本 — naïve\u0000 houses"
    for text in ["Cafe\u0301s", "日本", "in 日本 — naïve\u0000 houses", ",", "the  Cafe\u0301s", "naïve"]:
        sources = [SpanExample("", "what", context, (Answer(text, context.index(text)),))]
        inputs = inputs_of(sources, "span", max_length=16, stride=4, max_query_length=1)
        assert inputs.starts is not None
        assert inputs.ends is not None
        start, end = np.zeros((2, inputs.tokens.size))
        windows = np.flatnonzero(inputs.starts)
        start[inputs.offsets[windows] + inputs.starts[windows]] = 5.0
        end[inputs.offsets[windows] + inputs.ends[windows]] = 5.0
        (found,) = find_answers(inputs, [0], start, end, sources, 16)
        assert found.text == text
        assert found.margin == 10.0


def test_the_null_score_is_the_lowest_of_the_windows() -> None:
    sources, inputs = featurised(["a b a b a b a b a b a b a b a b"])
    windows = inputs.lengths.size
    assert windows > 3
    start, end = np.zeros((2, inputs.tokens.size))
    start[inputs.offsets[:-1]] = np.arange(windows)[::-1]
    end[inputs.offsets[:-1]] = 10.0 * (np.arange(windows) == 0)
    (found,) = find_answers(inputs, [0], start, end, sources, 3)
    assert found.null_score == 0.0  # of the last window


def test_scores_of_other_tokens_are_refused() -> None:
    sources, inputs = featurised(["a b", "house"])
    scores = np.zeros(inputs.tokens.size)
    with pytest.raises(ValueError, match="scores of shapes"):
        find_answers(inputs, [0], scores, scores, sources, 3)
    assert find_answers(inputs, [], np.zeros(0), np.zeros(0), sources, 3) == []


def test_batches_may_come_in_any_order() -> None:
    sources, inputs = featurised(["a b house cafe", "", "b a b a b a b a b a b a", "houses"])
    start, end = np.random.default_rng(0).normal(size=(2, inputs.tokens.size)).astype(np.float32)
    together = find_answers(inputs, range(4), start, end, sources, 4)
    for examples in ([3, 1], [2], [0]):
        places = token_indices(inputs, examples)
        assert collate(inputs, examples).inputs.tokens.numel() == places.size
        assert find_answers(inputs, examples, start[places], end[places], sources, 4) == [together[n] for n in examples]


def test_rows_of_predictions() -> None:
    sources = [SpanExample("x", "", "the house", (Answer("the", 0), Answer("house", 4))), SpanExample("y", "", "the house", ())]
    sources += [SpanExample("z", "", "the house")]
    inputs = inputs_of(sources, "span")
    start, end = np.random.default_rng(0).normal(size=(2, inputs.tokens.size))
    found = find_answers(inputs, range(3), start, end, sources, 4)
    every = predictions(found, sources)
    assert [(row.id, row.prediction, row.gold) for row in every] == [
        ("x", found[0].text, ["the", "house"]),
        ("y", found[1].text, []),
        ("z", found[2].text, None),
    ]
    assert [row.scores for row in every] == [[one.margin] for one in found]
    threshold = sorted(one.margin for one in found)[1]
    answered = [row.prediction != "" for row in predictions(found, sources, threshold)]
    assert answered == [one.margin >= threshold for one in found]
    assert sum(answered) == 2


def slow_threshold(margins: list[float], qualities: list[float], has_answer: list[bool]) -> float:
    """The best mean quality over all thresholds, each tried out."""

    def quality(threshold: float) -> float:
        given_answers = [margin >= threshold for margin in margins]
        scores = [
            (q if answered else 0.0) if there else float(not answered)
            for answered, q, there in zip(given_answers, qualities, has_answer, strict=True)
        ]
        return sum(scores) / len(scores)

    return max(quality(threshold) for threshold in [*margins, max(margins) + 1])


def official_threshold(margins: list[float], qualities: list[float], has_answer: list[bool]) -> tuple[float, float]:
    """The procedure of the official evaluation of SQuAD v2.0, whose probability of no answer falls as the margin rises."""
    current = best = float(sum(not there for there in has_answer))
    chosen = float("nan")
    for number in sorted(range(len(margins)), key=lambda n: -margins[n]):
        current += qualities[number] if has_answer[number] else -1.0
        if current > best:
            best, chosen = current, margins[number]
    return chosen, best / len(margins)


QUESTIONS = st.lists(
    st.tuples(st.integers(-6, 6).map(lambda n: n / 2), st.sampled_from([0.0, 0.25, 1.0]), st.booleans()), min_size=1, max_size=30
)


@given(QUESTIONS)
def test_the_threshold_is_the_best_of_all(questions: list[tuple[float, float, bool]]) -> None:
    margins, qualities, has_answer = map(list, zip(*questions, strict=True))
    threshold, quality = tune_threshold(margins, qualities, has_answer)
    assert quality == pytest.approx(slow_threshold(margins, qualities, has_answer))
    reached = [(q if m >= threshold else 0.0) if there else float(m < threshold) for m, q, there in questions]
    assert np.mean(reached) == pytest.approx(quality)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.booleans()), min_size=1, max_size=40), st.randoms())
def test_the_threshold_is_the_official_one_where_margins_differ(questions: list[tuple[float, bool]], random: Any) -> None:
    qualities, has_answer = map(list, zip(*questions, strict=True))
    margins = [n - len(questions) / 2 for n in range(len(questions))]
    random.shuffle(margins)
    threshold, quality = tune_threshold(margins, qualities, has_answer)
    expected, best = official_threshold(margins, qualities, has_answer)
    assert quality == pytest.approx(best)
    if np.isnan(expected):
        assert threshold > max(margins)  # nothing is answered
    else:
        assert threshold == expected


def test_a_question_without_a_token_to_answer_with_is_never_answered() -> None:
    found = Found(0, [], 1.5)
    assert (found.text, found.margin) == ("", UNREACHABLE - 1.5)
    threshold, quality = tune_threshold([found.margin, 2.0, 1.0], [0.0, 1.0, 0.5], [False, True, True])
    assert (threshold, quality) == (1.0, pytest.approx(2.5 / 3))
