from __future__ import annotations

import multiprocessing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_inputs import inputs_of, rows, segments, small_vocabulary, write_vocabulary

from bertlab.data.tokenizer import given_vocabulary
from bertlab.errors import UserError
from bertlab.tasks import featurise as featurise_module
from bertlab.tasks.examples import Answer, ChoiceExample, SpanExample, TaggingExample, TextExample
from bertlab.tasks.inputs import Inputs
from bertlab.tasks.text_inputs import truncated

PAIRS = [
    ("The houses, unaffordable!", "An naive café."),
    ("a b c d e f g h i j k l m n o p q r s t u v w x y z", "an house"),
    ("an", "a b c d e f g h i j k l m n o p q r s t u v w x y z"),
    ("0 1 2 3 4 5 6 7 8 9 a b c d e f g", "a b c d e f g h i j k l m n o p q r s t"),
    ("", "nothing before"),
    ("nothing after", ""),
    ("", ""),
    ("日本語 ☃ Ünaffordable\u0000 \u200b", "naïve — “cafés” " + "w" * 120),
    ("   ", "\t\n"),
]


def legacy_tokenizer(path: str, lowercase: bool) -> Any:
    """transformers' tokenizer in Python, which takes tokens away one by one."""
    import transformers

    if not hasattr(transformers, "BertTokenizerLegacy"):
        pytest.skip("this version of transformers has no BertTokenizerLegacy")
    return transformers.BertTokenizerLegacy(path, do_lower_case=lowercase)


@pytest.mark.parametrize("max_length", [8, 11, 16, 17, 24, 128])
def test_pairs_are_those_of_transformers(tmp_path: Path, max_length: int) -> None:
    theirs = legacy_tokenizer(write_vocabulary(tmp_path / "vocab.txt"), True)
    inputs = inputs_of([TextExample(str(n), *pair) for n, pair in enumerate(PAIRS)], "classification", max_length=max_length)
    for (first, second), ids in zip(PAIRS, rows(inputs), strict=True):
        expected = theirs(first, second, truncation="longest_first", max_length=max_length)
        assert ids == expected["input_ids"]
    assert inputs.first_sequence.tolist() == list(range(len(PAIRS) + 1))


@pytest.mark.parametrize("max_length", [8, 11, 64])
def test_single_texts_are_those_of_the_fast_tokenizer(tmp_path: Path, max_length: int) -> None:
    import transformers

    theirs = transformers.BertTokenizer(write_vocabulary(tmp_path / "vocab.txt"), do_lower_case=True)
    texts = [text for pair in PAIRS for text in pair]
    inputs = inputs_of([TextExample("", text) for text in texts], "classification", max_length=max_length)
    assert rows(inputs) == theirs(texts, truncation=True, max_length=max_length)["input_ids"]
    assert inputs.boundaries.tolist() == inputs.lengths.tolist()


@pytest.mark.parametrize("case", ["cased", "uncased"])
def test_real_pairs_are_those_of_transformers(shared_data: Path, case: str) -> None:
    import transformers

    path = str(shared_data / "vocab" / f"bert-base-{case}-vocab.txt")
    lines = (shared_data / "glue" / "MRPC" / "dev.tsv").read_text(encoding="utf-8-sig").rstrip("\n").split("\n")[1:]
    pairs = [(cells[3], cells[4]) for cells in (line.split("\t") for line in lines)]
    vocabulary = given_vocabulary(path, case == "uncased")
    theirs = transformers.BertTokenizer(path, do_lower_case=case == "uncased")([a for a, _ in pairs], [b for _, b in pairs])
    inputs = inputs_of([TextExample("", *pair) for pair in pairs], "classification", vocabulary)
    assert rows(inputs) == theirs["input_ids"]
    assert segments(inputs) == theirs["token_type_ids"]


@given(st.integers(0, 30), st.integers(0, 30), st.integers(2, 40))
def test_tokens_are_taken_from_the_longer_one(first: int, second: int, room: int) -> None:
    expected = [first, second]
    while sum(expected) > room:
        expected[0 if expected[0] > expected[1] else 1] -= 1
    assert [int(kept[0]) for kept in truncated(np.array([first]), np.array([second]), room)] == expected


def test_single_texts_and_pairs_can_stand_together() -> None:
    examples = [TextExample("0", "a b c d e f g h i"), TextExample("1", "a b c d e f g h i", "j k"), TextExample("2", "the", None)]
    inputs = inputs_of(examples, "classification", max_length=8)
    alone = [row for example in examples for row in rows(inputs_of([example], "classification", max_length=8))]
    assert rows(inputs) == alone
    assert inputs.lengths.tolist() == [8, 8, 3]
    assert inputs.boundaries.tolist() == [8, 5, 3]


def test_a_special_tokens_name_is_ordinary_text() -> None:
    vocabulary = small_vocabulary()
    inputs = inputs_of([TextExample("", "the [MASK] an [SEP]", "[CLS]")], "classification", vocabulary)
    (ids,) = rows(inputs)
    assert vocabulary.mask not in ids
    assert [place for place, i in enumerate(ids) if i == vocabulary.sep] == [inputs.boundaries[0] - 1, len(ids) - 1]
    assert ids.count(vocabulary.cls) == 1


def test_labels() -> None:
    classes = inputs_of([TextExample("", "a", label=2), TextExample("", "b"), TextExample("", "c", label=0)], "classification")
    assert classes.labels is not None
    assert classes.labels.dtype == np.int64
    assert classes.labels.tolist() == [2, -1, 0]
    numbers = inputs_of([TextExample("", "a", "b", 4.2), TextExample("", "b", "c")], "regression")
    assert numbers.labels is not None
    assert numbers.labels.dtype == np.float32
    np.testing.assert_array_equal(numbers.labels, np.array([4.2, np.nan], np.float32))
    assert inputs_of([TextExample("", "a")], "classification").labels is None


def test_each_choice_is_a_pair() -> None:
    examples = [
        ChoiceExample("0", "the house", ("an", "naive cafe a b c d e f", ""), 1),
        ChoiceExample("1", "a b c d e f g h i j k", ("x", "y z"), 0),
        ChoiceExample("2", "", ("only",)),
    ]
    inputs = inputs_of(examples, "choice", max_length=12)
    pairs = [TextExample("", example.text, choice) for example in examples for choice in example.choices]
    assert rows(inputs) == rows(inputs_of(pairs, "classification", max_length=12))
    assert inputs.first_sequence.tolist() == [0, 3, 5, 6]
    assert inputs.labels is not None
    assert inputs.labels.tolist() == [1, 0, -1]


def test_no_examples() -> None:
    for kind in ("classification", "regression", "choice", "tagging", "span"):
        inputs = inputs_of([], kind)
        assert inputs.examples == 0
        assert inputs.offsets.tolist() == [0]


def test_a_lone_surrogate_is_left_out() -> None:
    broken, whole = "the \ud83d house", "the  house"
    assert rows(inputs_of([TextExample("", broken)], "classification")) == rows(inputs_of([TextExample("", whole)], "classification"))
    span = SpanExample("", "the?", broken, (Answer("house", 6),))
    inputs = inputs_of([span], "span")
    assert inputs.characters is not None
    assert inputs.starts is not None
    assert inputs.characters[inputs.starts[0]].tolist() == [6, 11]


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("classification", {"max_length": 7}, ["task.max_length=7", "8 or more"]),
        ("span", {"max_length": 67}, ["task.max_length=67", "task.max_query_length=64"]),
        ("span", {"stride": 0}, ["task.stride=0"]),
    ],
)
def test_lengths_without_room_are_refused(kind: str, options: dict[str, int], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        inputs_of([], kind, **options)
    assert all(word in str(error.value) for word in words)


def assert_same(first: Inputs, second: Inputs) -> None:
    for field in fields(Inputs):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if one is None:
            assert other is None, field.name
        else:
            assert one.dtype == other.dtype, field.name
            np.testing.assert_array_equal(one, other, field.name)


KINDS: dict[str, list[Any]] = {
    "classification": [TextExample("0", "the house", "an", 1), TextExample("1", "a", "b", 0)],
    "regression": [TextExample("0", "the house", "an", 1.5), TextExample("1", "a")],
    "choice": [ChoiceExample("0", "the", ("a", "b c"), 1)],
    "tagging": [TaggingExample("0", ("the", "houses"), (0, 1), ("an",), ("end",)), TaggingExample("1", ("a", "\u0000"), (1, 1))],
    "span": [SpanExample("0", "what", "the unaffordable house", (Answer("house", 17),)), SpanExample("1", "who", "nobody", ())],
}


def forbid_tokenising(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("tokenised again")

    monkeypatch.setattr(featurise_module, "TextTokenizer", refuse)


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    fresh = inputs_of(KINDS[kind], kind)
    assert_same(inputs_of(KINDS[kind], kind, cache=tmp_path), fresh)
    forbid_tokenising(monkeypatch)
    assert_same(inputs_of(KINDS[kind], kind, cache=tmp_path), fresh)


def test_other_inputs_are_not_taken_for_the_kept_ones(tmp_path: Path) -> None:
    made: list[Inputs] = []
    for examples, kind, options, lowercase in [
        (KINDS["classification"], "classification", {}, True),
        (KINDS["classification"][:1], "classification", {}, True),  # a part of the same split
        (KINDS["classification"], "classification", {"max_length": 9}, True),
        (KINDS["classification"], "classification", {}, False),
        (KINDS["classification"], "regression", {}, True),
        ([TextExample("0", "the house", "an", 0), *KINDS["classification"][1:]], "classification", {}, True),  # another label
        (KINDS["choice"], "choice", {}, True),
        ([ChoiceExample("0", "the", ("a", "b c"), 0)], "choice", {}, True),
        ([ChoiceExample("0", "the", ("a", "b"), 1)], "choice", {}, True),
        (KINDS["tagging"], "tagging", {}, True),
        ([TaggingExample("0", ("the", "houses"), (1, 0), ("an",), ("end",)), KINDS["tagging"][1]], "tagging", {}, True),
        (KINDS["tagging"], "tagging", {"document_context": True}, True),
        *(
            ([TaggingExample("0", ("the",), (0,), before=(first, *"bcde"))], "tagging", {"document_context": True, "max_length": 8}, True)
            for first in "ax"  # the farthest word that a sequence can show
        ),
        (KINDS["span"], "span", {}, True),
        ([KINDS["span"][0], SpanExample("1", "who", "nobody")], "span", {}, True),  # nobody knows whether it has an answer
        ([SpanExample("0", "what", KINDS["span"][0].context, (Answer("the", 0),)), KINDS["span"][1]], "span", {}, True),
        (KINDS["span"], "span", {"stride": 3}, True),
        (KINDS["span"], "span", {"max_query_length": 1}, True),
        ([TextExample("0", "the", "house"), *KINDS["classification"][1:]], "classification", {}, True),
        ([TextExample("0", "the house"), *KINDS["classification"][1:]], "classification", {}, True),
    ]:
        vocabulary = small_vocabulary(lowercase)
        made.append(inputs_of(examples, kind, vocabulary, tmp_path, **options))
        assert_same(made[-1], inputs_of(examples, kind, vocabulary, **options))
    assert len(list((tmp_path / "inputs").iterdir())) == len(made)


def test_what_is_not_read_of_an_example_makes_no_other_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs_of([TaggingExample("0", ("the",), (0,), ("before",))], "tagging", cache=tmp_path)
    forbid_tokenising(monkeypatch)
    inputs_of([TaggingExample("other", ("the",), (0,), ("elsewhere",), ("after",))], "tagging", cache=tmp_path)


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    fresh = inputs_of(KINDS["span"], "span", cache=tmp_path)
    (path,) = (tmp_path / "inputs").iterdir()
    whole = path.read_bytes()
    flipped = [whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in range(0, len(whole), 29)]
    for damaged in [b"", whole[:10], whole[:16], whole[:-1], whole + b"\0", *flipped]:
        path.write_bytes(damaged)
        assert_same(inputs_of(KINDS["span"], "span", cache=tmp_path), fresh)
        assert path.read_bytes() == whole


def test_an_empty_body_with_a_right_hash_is_made_again(tmp_path: Path) -> None:
    import hashlib

    fresh = inputs_of(KINDS["span"], "span", cache=tmp_path)
    (path,) = (tmp_path / "inputs").iterdir()
    path.write_bytes(hashlib.blake2b(b"", digest_size=16).digest())
    assert_same(inputs_of(KINDS["span"], "span", cache=tmp_path), fresh)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "inputs").write_text("a file where the folder should be", encoding="utf-8")
    assert_same(inputs_of(KINDS["span"], "span", cache=tmp_path), inputs_of(KINDS["span"], "span"))


def test_several_processes_may_make_the_same_inputs(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_keep_featurising, args=(tmp_path, results)) for _ in range(3)]
    for process in processes:
        process.start()
    answers = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert answers == [rows(inputs_of(KINDS["span"], "span"))] * 3


def _keep_featurising(cache: Path, results: Any) -> None:
    """Make the inputs again and again while others do, and delete them in between."""
    try:
        for _ in range(20):
            inputs = inputs_of(KINDS["span"], "span", cache=cache)
            for path in (cache / "inputs").glob("*.bin"):
                path.unlink(missing_ok=True)
        results.put(rows(inputs))
    except BaseException as error:
        results.put(repr(error))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=30), st.none() | st.text(max_size=30)), max_size=5), st.integers(8, 20))
def test_any_texts_fit_and_lose_only_their_ends(pairs: list[tuple[str, str | None]], max_length: int) -> None:
    short = inputs_of([TextExample("", *pair) for pair in pairs], "classification", max_length=max_length)
    long = inputs_of([TextExample("", *pair) for pair in pairs], "classification", max_length=500)
    for n, (cut, whole) in enumerate(zip(rows(short), rows(long), strict=True)):
        assert len(cut) == min(len(whole), max_length)
        split, boundary = short.boundaries[n], long.boundaries[n]
        assert cut[: split - 1] == whole[: split - 1]
        assert cut[split:-1] == whole[boundary : boundary + len(cut) - split - 1] or split == len(cut)
