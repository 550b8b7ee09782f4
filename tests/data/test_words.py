from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_tokenizer import HARD_TEXT, NOT_FOR_LEGACY, small_vocabulary
from tokenizers import AddedToken

from bertlab.data import words
from bertlab.data.tokenizer import Vocabulary, given_vocabulary
from bertlab.data.words import WordTokenizer

DTYPE = np.dtype("<u2")
TRICKY = (
    "aZéñßİΣ\u0301\u0338日本,.;:!?-_'\"`^$+<=>|~@#%&*()[]{}/\\—“…€1²½☃😀"
    " \t\n\r\x0b\x0c\x1c\x1f\x85\u00a0\u2003\u2028\u200b\u00ad\u0000\ufffd"
)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    characters = sorted(set(TRICKY.lower() + TRICKY) - set("☃ "))
    continuing = [f"##{c}" for c in "aéñe\u0301s1z"]
    return small_vocabulary(*(c for c in characters if c.strip()), *continuing, "aa", "##a1", "mask", lowercase=request.param)


def ids_of(text: str, vocabulary: Vocabulary) -> list[int]:
    return np.frombuffer(WordTokenizer(vocabulary, DTYPE)(text), dtype=DTYPE).tolist()


@given(text=st.text(alphabet=st.one_of(st.sampled_from(TRICKY), st.characters(exclude_categories=["Cs"])), max_size=40))
@example(text="a [MASK] b[SEP]")
@example(text="<\u0338 =\u0338 a\u0301")
@example(text="a" * 100 + " " + "a" * 101 + "." + "a" * 250)
def test_ids_are_those_of_the_tokenizer(vocabulary: Vocabulary, text: str) -> None:
    assert ids_of(text, vocabulary) == vocabulary.plain_encoder().encode(text, add_special_tokens=False).ids


@given(text=st.lists(st.sampled_from(["covid", "Covid", "a", "_", "-", ".", " ", "\t"]), max_size=8).map("".join))
@example(text="_covid covid_ a_covid covid-a")
@pytest.mark.parametrize("flags", [{}, {"single_word": True}, {"normalized": False}, {"lstrip": True, "rstrip": True}], ids=str)
def test_ids_of_added_tokens_are_those_of_the_tokenizer(flags: dict[str, bool], text: str) -> None:
    vocabulary = small_vocabulary("a", "c", "##o", "##v", "##i", "##d", "##a", "_", "-", ".")
    vocabulary.tokenizer.add_tokens([AddedToken("covid", **flags)])
    vocabulary = Vocabulary(vocabulary.tokenizer, "added")
    assert ids_of(text, vocabulary) == vocabulary.plain_encoder().encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_ids_are_those_of_the_tokenizer_on_hard_and_on_real_text(shared_data: Path, case: str) -> None:
    published = given_vocabulary(str(shared_data / "vocab" / f"bert-base-{case}-vocab.txt"), case == "uncased")
    article = next((shared_data / "wikipedia").rglob("wiki_*")).read_text(encoding="utf-8")[:300_000]
    tokenize = WordTokenizer(published, DTYPE)
    encoder = published.plain_encoder()
    for text in [*HARD_TEXT, *NOT_FOR_LEGACY, *article.split("\n")]:
        assert np.frombuffer(tokenize(text), dtype=DTYPE).tolist() == encoder.encode(text, add_special_tokens=False).ids


def test_memory_of_words_is_bounded_and_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MOST_WORDS", 3)
    vocabulary = small_vocabulary("a", "b", "##a", "##b")
    tokenize = WordTokenizer(vocabulary, DTYPE)
    text = "a b ab ba aab a b ab bbb " + "ab" * 40
    for _ in range(3):
        assert np.frombuffer(tokenize(text), dtype=DTYPE).tolist() == vocabulary.tokenizer.encode(text, add_special_tokens=False).ids
        assert len(tokenize._words) <= 3
