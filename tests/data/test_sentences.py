from __future__ import annotations

import time

import pytest
from corpora import sentences_of
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlab.config import CorpusConfig
from bertlab.data.documents import Document
from bertlab.data.sentences import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Smith went to Washington.", "He arrived at 5 p.m. and slept."],
        ["It costs $3.50, i.e. very little.", "Is that so?", "Yes!"],
        ["J. R. R. Tolkien wrote it in the U.S. edition.", "See fig. 3 for more."],
        ["She said, “I am here.”", "Nobody answered."],
        ["Use torch.nn.Module as the base.", "It is a class."],
    ],
)
def test_sentences_of_english_prose(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


def test_white_space_of_any_kind_is_one_space() -> None:
    assert split_sentences("  One\ttwo\n three.\u00a0\u2028 Four\x85five. ") == ["One two three.", "Four five."]
    assert split_sentences(" \n\t") == []


# What breaks splitters: initials before odd white space, quotes that never close, full stops in a row, scripts without spaces.
PARTS = st.sampled_from(
    [
        "Mr.",
        "J.",
        "A",
        "“",
        "”",
        '"',
        "(",
        ")",
        "...",
        "…",
        "?!",
        ".",
        "。",
        "word",
        "No",
        "1.",
        "U.S.",
        "\u00a0",
        "\x85",
        "\u2028",
        " ",
        "\n",
        "é",
        "İ",
    ]
)


@settings(max_examples=400)
@given(st.lists(PARTS, max_size=60).map("".join) | st.text(max_size=60))
def test_no_character_is_lost_or_moved(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() and sentence for sentence in sentences)


@settings(max_examples=20)
@given(st.lists(PARTS, min_size=2000, max_size=2000).map("".join))
def test_long_texts_lose_nothing_either(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("unit", ["“He said. ", "word ", "x", "(", "Hello! "])
def test_time_grows_with_the_length_and_not_its_square(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    start = time.perf_counter()
    split_sentences(text)
    assert (
        time.perf_counter() - start < 5
    )  # at once, the first of these takes the splitter ten seconds, and four times that for twice as much


def test_long_texts_are_split_where_short_ones_are() -> None:
    sentences = [f"This is the sentence with the number {number} in it." for number in range(1000)]
    assert split_sentences(" ".join(sentences)) == sentences


def test_who_splits() -> None:
    document = Document("f:1", ["One here. Two here.", "Three."])
    split, kept = ["One here.", "Two here.", "Three."], document.blocks
    for kind, splitting, expected in [
        ("text", "auto", split),
        ("sentences", "auto", kept),
        ("text", "line", kept),
        ("sentences", "library", split),
        ("jsonl", "auto", split),
    ]:
        assert sentences_of(document, CorpusConfig(kind=kind, sentence_splitting=splitting)) == expected
