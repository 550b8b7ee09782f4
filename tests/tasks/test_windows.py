from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from task_inputs import inputs_of, rows, segments, small_vocabulary

from bertlab.data.ragged import ranges
from bertlab.data.tokenizer import given_vocabulary
from bertlab.tasks.examples import Answer, SpanExample
from bertlab.tasks.inputs import Inputs
from bertlab.tasks.sequences import TextTokenizer
from bertlab.tasks.windows import SpanOptions, covering, most_context, place_windows, tokenise_contexts

HARD = st.sampled_from(
    [
        *"abcthe  .,!-\n\t",
        *("the house", "unaffordable", "é", "e\u0301", "\u0302", "o\u0308\u0323", "İ", "ß", "ﬁ", "Å"),
        *("日本", "語", "한국", "𠀀", "☃", "☃\ufe0f", "👩\u200d👧", "🇫🇷"),
        *(
            "\u0000",
            "\u0007",
            "\u200b",
            "\u00ad",
            "\ufeff",
            "\ufffd",
            "\u00a0",
            "\u2003",
            "\u2028",
            "[MASK]",
            "[SEP]",
            "ไทย",
            "हिन्दी",
            "Σς",
        ),
    ]
)
TEXTS = st.lists(HARD, max_size=25).map("".join) | st.text(max_size=40)


def slow_windows(context: int, room: int, stride: int) -> list[tuple[int, int]]:
    """(start, length) of each window, one after another."""
    found: list[tuple[int, int]] = []
    start = 0
    while True:
        length = min(room, context - start)
        found.append((start, length))
        if start + length >= context:
            return found
        start += min(length, stride)


def slow_owner(windows: list[tuple[int, int]], token: int) -> int:
    """Which window gives a token the most context."""
    best, owner = -1.0, -1
    for number, (start, length) in enumerate(windows):
        if start <= token < start + length:
            score = min(token - start, start + length - 1 - token) + 0.01 * length
            if score > best:
                best, owner = score, number
    return owner


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 90)), max_size=6), st.integers(14, 40), st.integers(1, 30))
def test_windows_and_most_context_are_those_of_a_slow_loop(sizes: list[tuple[int, int]], max_length: int, stride: int) -> None:
    questions, contexts = (np.array([size[n] for size in sizes], np.int64) for n in (0, 1))
    windows = place_windows(questions, contexts, SpanOptions(max_length, stride, 10))
    expected = [slow_windows(context, max_length - 3 - question, stride) for question, context in sizes]
    assert list(zip(windows.starts.tolist(), windows.lengths.tolist(), strict=True)) == [window for one in expected for window in one]
    assert np.diff(windows.first_window).tolist() == [len(one) for one in expected]
    assert windows.example.tolist() == [number for number, one in enumerate(expected) for _ in one]
    flags = [
        slow_owner(one, token) == number
        for one in expected
        for number, (start, length) in enumerate(one)
        for token in range(start, start + length)
    ]
    assert most_context(windows, contexts).tolist() == flags
    assert sum(flags) == contexts.sum()  # each token of each context has one window


def test_windows_show_the_question_and_the_context() -> None:
    question, context = "a b c d e", "f g h i j k l m n o"
    inputs = inputs_of([SpanExample("", question, context, ())], "span", max_length=10, max_query_length=3, stride=2)
    vocabulary = small_vocabulary()
    tokens = [vocabulary.tokenizer.id_to_token(i) for i in range(vocabulary.size)]
    shown = ["".join(tokens[i] for i in row) for row in rows(inputs)]
    assert shown == [f"[CLS]abc[SEP]{part}[SEP]" for part in ("fghi", "hijk", "jklm", "lmno")]
    assert segments(inputs) == [[0] * 5 + [1] * 5] * 4
    assert inputs.first_sequence.tolist() == [0, 4]
    assert inputs.context_begins is not None
    assert inputs.context_begins.tolist() == [5] * 4


def context_tokens(inputs: Inputs) -> np.ndarray:
    """The places of all context tokens in the flat tokens."""
    assert inputs.context_begins is not None
    return ranges(inputs.offsets[:-1] + inputs.context_begins, inputs.lengths - inputs.context_begins - 1)


@settings(max_examples=300)
@given(TEXTS, st.booleans())
@example("e\u0301\u0302 caf\u0065\u0301s", True)
@example("\u0301e", True)
@example("a\u0000b \u200b c", False)
def test_characters_slice_the_original(text: str, lowercase: bool) -> None:
    vocabulary = small_vocabulary(lowercase)
    encoder = vocabulary.plain_encoder()
    contexts = tokenise_contexts([text], TextTokenizer(vocabulary, False, print), False, print)
    ids = contexts.rows.ids.tolist()
    assert ids == TextTokenizer(vocabulary, False, print)([text]).ids.tolist()
    places = contexts.characters.tolist()
    assert all(0 <= begin < end <= len(text) for begin, end in places)
    assert np.all(np.diff(contexts.characters, axis=0) >= 0)
    # A word's characters, taken from the original, are tokenised as the word was: the slice has all of it and nothing else.
    words = np.flatnonzero(vocabulary.starts_word[ids])
    for first, last in zip(words, [*(words[1:] - 1), len(ids) - 1][: len(words)], strict=True):
        word = text[places[first][0] : places[last][1]]
        assert encoder.encode(word, add_special_tokens=False).ids == ids[first : last + 1]
        assert word == word.strip()
    # What lies between words is nothing that makes a token.
    begins, ends = [places[first][0] for first in words], [places[last][1] for last in [*(words[1:] - 1), len(ids) - 1] if ids]
    for end, begin in zip([0, *ends], [*begins, len(text)], strict=True):
        assert encoder.encode(text[end:begin], add_special_tokens=False).ids == []


def test_an_accent_of_its_own_belongs_to_its_letter() -> None:
    text = "the cafe\u0301s e\u0301 o\u0323\u0308, e\u0301"
    contexts = tokenise_contexts([text], TextTokenizer(small_vocabulary(), False, print), False, print)
    pieces = [text[begin:end] for begin, end in contexts.characters]
    assert pieces == ["the", "cafe\u0301", "s", "e\u0301", "o\u0323\u0308", ",", "e\u0301"]


@given(TEXTS, st.data())
def test_covering_is_every_token_with_a_character_inside(text: str, data: st.DataObject) -> None:
    contexts = tokenise_contexts([text], TextTokenizer(small_vocabulary(), False, print), False, print)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    expected = [n for n, (begin, stop) in enumerate(contexts.characters.tolist()) if max(begin, start) < min(stop, end)]
    first, last = covering(contexts.characters, start, end)
    assert list(range(first, last + 1)) == expected


@given(st.text("abcdefgh ", min_size=1, max_size=60), st.data(), st.integers(8, 20), st.integers(1, 12))
def test_an_answer_is_in_the_windows_that_show_all_of_it(context: str, data: st.DataObject, room: int, stride: int) -> None:
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    answer = Answer(context[start:end], start)
    inputs = inputs_of([SpanExample("", "the", context, (answer,))], "span", max_length=room, stride=stride, max_query_length=2)
    assert inputs.starts is not None
    assert inputs.ends is not None
    assert inputs.characters is not None
    assert inputs.context_begins is not None
    every = inputs.characters[context_tokens(inputs)]
    whole = {tuple(place) for place in every.tolist() if max(place[0], start) < min(place[1], end)}
    for window, begin in enumerate(inputs.offsets[:-1]):
        shown = range(inputs.context_begins[window], inputs.lengths[window] - 1)
        inside = [n for n in shown if tuple(inputs.characters[begin + n].tolist()) in whole]
        there = bool(whole) and len(inside) == len(whole)
        assert (inputs.starts[window], inputs.ends[window]) == ((inside[0], inside[-1]) if there else (0, 0))


def test_what_is_not_known_is_marked() -> None:
    known, nothing, unknown = SpanExample("", "a", "b", (Answer("b", 0),)), SpanExample("", "a", "b", ()), SpanExample("", "a", "b")
    inputs = inputs_of([known, nothing, unknown], "span")
    assert inputs.starts is not None
    assert inputs.ends is not None
    assert inputs.starts.tolist() == inputs.ends.tolist() == [3, 0, -1]
    assert inputs_of([unknown], "span").starts is None


def test_an_answer_that_stands_nowhere_is_not_pointed_at() -> None:
    nowhere, second = Answer("c", 0), Answer("b", 2)  # a dev file's answer that its context lacks is kept, to be scored
    inputs = inputs_of([SpanExample("", "a", "a b", (nowhere,)), SpanExample("", "a", "a b", (nowhere, second))], "span")
    assert inputs.starts is not None
    assert inputs.ends is not None
    assert inputs.starts.tolist() == inputs.ends.tolist() == [0, 4]


def test_a_context_without_a_token_has_one_window() -> None:
    inputs = inputs_of([SpanExample("", "the", " \u0000 ", (Answer(" ", 0),)), SpanExample("", "", "", ())], "span")
    assert inputs.lengths.tolist() == [4, 3]
    assert inputs.starts is not None
    assert inputs.starts.tolist() == [0, 0]


def read_squad(path: Path) -> list[SpanExample]:
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [
        SpanExample(q["id"], q["question"], p["context"], tuple(Answer(a["text"], a["answer_start"]) for a in q["answers"]))
        for article in articles
        for p in article["paragraphs"]
        for q in p["qas"]
    ]


@pytest.mark.parametrize(("name", "max_length", "stride"), [("dev-v1.1", 384, 128), ("dev-v2.0", 128, 32)])
def test_real_questions(shared_data: Path, name: str, max_length: int, stride: int) -> None:
    examples = read_squad(shared_data / "squad" / f"{name}.json")
    vocabulary = given_vocabulary(str(shared_data / "vocab" / "bert-base-uncased-vocab.txt"), True)
    inputs = inputs_of(examples, "span", vocabulary, max_length=max_length, stride=stride)
    assert inputs.starts is not None
    assert inputs.ends is not None
    assert inputs.characters is not None
    assert inputs.max_context is not None
    assert inputs.lengths.max() <= max_length
    # Every token of every context is shown, and has its most context exactly once.
    encoder = vocabulary.plain_encoder()
    sizes = {text: len(encoder.encode(text, add_special_tokens=False)) for text in {e.context for e in examples}}
    owned = np.add.reduceat(inputs.max_context, inputs.offsets[inputs.first_sequence[:-1]], dtype=np.int64)
    assert owned.tolist() == [sizes[e.context] for e in examples]
    shown = np.zeros(inputs.tokens.size, np.bool_)
    shown[context_tokens(inputs)] = True
    assert not inputs.max_context[~shown].any()
    # The gold answer, found back in the characters.
    exact = answerable = 0
    for number, source in enumerate(examples):
        if not source.answers:
            assert not inputs.starts[inputs.first_sequence[number] : inputs.first_sequence[number + 1]].any()
            continue
        answerable += 1
        texts = {
            source.context[inputs.characters[begin + start, 0] : inputs.characters[begin + end, 1]]
            for window in range(inputs.first_sequence[number], inputs.first_sequence[number + 1])
            for begin, start, end in [(inputs.offsets[window], inputs.starts[window], inputs.ends[window])]
            if start
        }
        exact += texts == {source.answers[0].text}
    print(f"{name}: {exact} of {answerable} answers found back, {exact / answerable:.2%}")
    assert exact / answerable >= 0.99
