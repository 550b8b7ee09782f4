from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_inputs import inputs_of, rows, small_vocabulary, write_vocabulary

from bertlab.data.tokenizer import given_vocabulary
from bertlab.tasks.examples import TaggingExample
from bertlab.tasks.inputs import Inputs

HARD_WORDS = [
    "the",
    "Unaffordable",
    "houses",
    "café",
    "e\u0301",
    "日本語",
    "\u0000",
    "\u200b",
    "☃",
    "don't",
    "[SEP]",
    "w" * 120,
    "a b",
    "",
    "x-1",
]
WORDS = st.lists(st.sampled_from(HARD_WORDS), max_size=12).map(tuple)
EXAMPLES = st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4).map(
    lambda parts: [TaggingExample("", words, tuple(range(len(words))), before, after) for before, words, after in parts]
)
VOCABULARY = small_vocabulary()
ENCODER = VOCABULARY.plain_encoder()


def sub_tokens(word: str) -> list[int]:
    """A word by itself; unknown where nothing is left of it."""
    return ENCODER.encode([word], is_pretokenized=True, add_special_tokens=False).ids or [VOCABULARY.unknown]


def words_of(inputs: Inputs, example: int) -> np.ndarray:
    """The flat indices of the first sub-tokens of an example's words."""
    assert inputs.word_tokens is not None
    assert inputs.word_offsets is not None
    return inputs.word_tokens[inputs.word_offsets[example] : inputs.word_offsets[example + 1]]


@pytest.mark.parametrize("case", ["cased", "uncased"])
def test_words_and_their_first_sub_tokens_are_those_of_transformers(shared_data: Path, case: str) -> None:
    import transformers

    path = str(shared_data / "vocab" / f"bert-base-{case}-vocab.txt")
    blocks = (shared_data / "wnut17" / "emerging.dev.conll").read_text(encoding="utf-8").split("\n\n")
    sentences = [tuple(line.split("\t")[0] for line in block.split("\n") if line.strip()) for block in blocks]
    vocabulary = given_vocabulary(path, case == "uncased")
    # Of an emoji's variation selector that stands alone nothing is left, and transformers has no place for its tag.
    encoder = vocabulary.plain_encoder()
    sentences = [words for words in sentences if words and all(encoder.encode(word, add_special_tokens=False).ids for word in words)]
    assert len(sentences) > 900
    inputs = inputs_of([TaggingExample("", sentence) for sentence in sentences], "tagging", vocabulary, max_length=512)
    theirs = transformers.BertTokenizer(path, do_lower_case=case == "uncased")(sentences, is_split_into_words=True)
    assert theirs["input_ids"] == rows(inputs)
    for number in range(len(sentences)):
        word_ids = theirs.word_ids(number)
        first = [n for n, word in enumerate(word_ids) if word is not None and word != word_ids[n - 1]]
        assert (words_of(inputs, number) - inputs.offsets[number]).tolist() == first


@settings(max_examples=200)
@given(EXAMPLES, st.integers(8, 40), st.booleans())
def test_every_word_is_predicted_once_at_its_first_sub_token(examples: list[TaggingExample], max_length: int, context: bool) -> None:
    inputs = inputs_of(examples, "tagging", max_length=max_length, document_context=context)
    assert inputs.word_offsets is not None
    assert inputs.tags is not None
    assert inputs.lengths.max() <= max_length
    assert np.diff(inputs.word_offsets).tolist() == [len(example.words) for example in examples]
    assert inputs.tags.tolist() == [tag for example in examples for tag in example.tags or ()]
    for number, example in enumerate(examples):
        places = words_of(inputs, number)
        assert np.all(np.diff(places) > 0)
        assert inputs.tokens[places].tolist() == [sub_tokens(word)[0] for word in example.words]
        sequences = np.searchsorted(inputs.offsets, places, side="right") - 1
        assert np.all((inputs.first_sequence[number] <= sequences) & (sequences < inputs.first_sequence[number + 1]))


@settings(max_examples=200)
@given(EXAMPLES, st.integers(8, 40), st.booleans())
def test_sequences_show_the_document_around_their_words(examples: list[TaggingExample], max_length: int, context: bool) -> None:
    inputs = inputs_of(examples, "tagging", max_length=max_length, document_context=context)
    assert inputs.word_tokens is not None
    all_rows = rows(inputs)
    for number, example in enumerate(examples):
        before, after = (example.before, example.after) if context else ((), ())
        document = [sub_tokens(word)[: max_length - 2] for word in (*before, *example.words, *after)]
        edges = [0, *itertools.accumulate(map(len, document))]
        flat = [i for word in document for i in word]
        starts = set(edges[len(before) : len(before) + len(example.words)])
        for sequence in range(inputs.first_sequence[number], inputs.first_sequence[number + 1]):
            row = all_rows[sequence]
            assert (row[0], row[-1]) == (VOCABULARY.cls, VOCABULARY.sep)
            here = inputs.word_tokens[
                (inputs.offsets[sequence] <= inputs.word_tokens) & (inputs.word_tokens < inputs.offsets[sequence + 1])
            ]
            shown = [
                (a, b)
                for a, b in itertools.combinations_with_replacement(range(len(edges)), 2)
                if flat[edges[a] : edges[b]] == row[1:-1] and all(int(p - inputs.offsets[sequence]) - 1 + edges[a] in starts for p in here)
            ]
            assert shown, "a sequence shows whole words of the document, and predicts where words of its sentence begin"
            fits = any(b == len(document) or len(row) + len(document[b]) > max_length for _, b in shown)
            assert fits, "a word more on the right would have had room"


def test_a_long_sentence_is_cut_between_words_and_filled_with_its_own() -> None:
    words = ("a", "b", "c", "houses", "d", "e", "f", "g", "houses", "h")  # 12 sub-tokens, room for 6
    inputs = inputs_of([TaggingExample("", words)], "tagging", max_length=8)
    tokens = [VOCABULARY.tokenizer.id_to_token(i) for i in range(VOCABULARY.size)]
    shown = [" ".join(tokens[i] for i in row[1:-1]) for row in rows(inputs)]
    assert shown == ["a b c house ##s d", "e f g house ##s h"]
    inputs = inputs_of([TaggingExample("", words[:7])], "tagging", max_length=8)  # the second has one word of its own, and five before it
    assert [" ".join(tokens[i] for i in row[1:-1]) for row in rows(inputs)] == ["a b c house ##s d", "c house ##s d e f"]
    assert inputs.word_tokens is not None
    assert inputs.word_tokens.tolist() == [1, 2, 3, 4, 6, 13, 14]


def test_a_word_longer_than_a_sequence_loses_its_end() -> None:
    inputs = inputs_of([TaggingExample("", ("the", "abcdefghij", "an"), (0, 1, 2))], "tagging", max_length=8)
    tokens = [VOCABULARY.tokenizer.id_to_token(i) for i in range(VOCABULARY.size)]
    assert [" ".join(tokens[i] for i in row[1:-1]) for row in rows(inputs)] == ["the", "a ##b ##c ##d ##e ##f", "an"]


def test_context_is_shared_between_both_sides() -> None:
    example = TaggingExample("", ("the",), (3,), tuple("abcdefgh"), tuple("ijklmnop"))
    tokens = [VOCABULARY.tokenizer.id_to_token(i) for i in range(VOCABULARY.size)]

    def shown(example: TaggingExample) -> str:
        inputs = inputs_of([example], "tagging", max_length=9, document_context=True)
        return " ".join(tokens[i] for i in rows(inputs)[0][1:-1])

    assert shown(example) == "f g h the i j k"
    assert shown(TaggingExample("", ("the",), None, example.before, ("i",))) == "d e f g h the i"
    assert shown(TaggingExample("", ("the",), None, ("h",), example.after)) == "h the i j k l m"
    assert shown(TaggingExample("", (), None, example.before, example.after)) == "f g h i j k l"


def test_tags_that_are_not_known() -> None:
    words = ("the", "house")
    inputs = inputs_of([TaggingExample("", words, (1, 2)), TaggingExample("", words)], "tagging")
    assert inputs.tags is not None
    assert inputs.tags.tolist() == [1, 2, -1, -1]
    assert inputs_of([TaggingExample("", words)], "tagging").tags is None


def test_the_small_vocabulary_agrees_with_transformers_on_hard_words(tmp_path: Path) -> None:
    import transformers

    theirs = transformers.BertTokenizer(write_vocabulary(tmp_path / "vocab.txt"), do_lower_case=True)
    words = [word for word in HARD_WORDS if word != "[SEP]" and word.strip("\u0000\u200b")]
    inputs = inputs_of([TaggingExample("", tuple(words))], "tagging", max_length=400)
    assert rows(inputs)[0] == theirs(words, is_split_into_words=True)["input_ids"]
