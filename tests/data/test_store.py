from __future__ import annotations

import hashlib
import json
import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bertlab.config import CorpusConfig
from bertlab.data.encoding import EncodingTask, encode_piece
from bertlab.data.joining import JoiningTask, NamedPart, join_parts
from bertlab.data.lines import Part
from bertlab.data.pieces import Piece
from bertlab.data.store import FILES, TokenStore, token_type
from bertlab.data.tokenizer import SPECIAL_TOKENS, Vocabulary, wordpiece
from bertlab.errors import UserError

WORDS = ["a", "b", "c", "##b", "##c", "日", "."]


def nothing(_: int) -> None:
    pass


def build(folder: Path, pieces: list[list[list[str]]], filters: tuple[bool, bool] = (False, False), filler: int = 0) -> TokenStore:
    """A store of pieces → documents → sentences, made by the steps that ``prepare`` takes, in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = [*SPECIAL_TOKENS, *(f"filler{i}" for i in range(filler)), *WORDS]
    vocabulary = Vocabulary(wordpiece(tokens, True), "a test")
    vocabulary.save(folder / "tokenizer.json")
    parts = []
    for number, documents in enumerate(pieces):
        path = folder / f"piece{number}.txt"
        path.write_text("\n\n".join("\n".join(sentences) for sentences in documents), encoding="utf-8")
        corpus = CorpusConfig(kind="sentences", path=str(path))
        part = folder / f"part{number}"
        encode_piece(
            EncodingTask(Piece(f"source{number}", corpus, (Part(str(path)),)), folder / "none", part, folder / "tokenizer.json"), nothing
        )
        parts.append(NamedPart(part, f"source{number}", *filters))
    (folder / "store").mkdir()
    join_parts(JoiningTask(parts, folder / "tokenizer.json", vocabulary.size, vocabulary.unknown, folder / "store", {}), nothing)
    return TokenStore.open(folder / "store")


def texts(store: TokenStore) -> list[list[list[str]]]:
    """Documents → sentences → tokens of a store, by walking its offsets."""
    name = store.vocabulary.tokenizer.id_to_token
    sentences = [
        [name(int(i)) for i in store.tokens[a:b]] for a, b in zip(store.sentence_offsets, store.sentence_offsets[1:], strict=False)
    ]
    return [sentences[a:b] for a, b in zip(store.document_sentences, store.document_sentences[1:], strict=False)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    documents = [["a b c.", "bc 日"], ["a"], ["c b", "b", "a."]]
    return build(tmp_path_factory.mktemp("store"), [documents[:2], documents[2:]])


def test_a_small_store_is_as_it_should_be(store: TokenStore) -> None:
    assert texts(store) == [[["a", "b", "c", "."], ["b", "##c", "日"]], [["a"]], [["c", "b"], ["b"], ["a", "."]]]
    assert (store.documents, store.sentences, store.token_count) == (3, 6, 13)
    assert store.tokens.dtype == np.uint16
    assert list(store.document_offsets) == [0, 7, 8, 13]
    assert [(s.name, s.first_document, s.end_document) for s in store.sources] == [("source0", 0, 2), ("source1", 2, 3)]
    for document, hashed in enumerate(store.document_hashes):
        tokens = store.tokens[store.document_offsets[document] : store.document_offsets[document + 1]]
        assert int(hashed) == int.from_bytes(hashlib.blake2b(tokens.tobytes(), digest_size=8).digest(), "little")


sentence = st.text(alphabet=st.sampled_from("abc. 日"), min_size=1, max_size=8).filter(str.strip)
corpora = st.lists(st.lists(st.lists(sentence, min_size=1, max_size=4), max_size=4), min_size=1, max_size=3)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=corpora)
def test_sentences_of_the_store_are_the_tokenised_sentences(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[list[list[str]]]
) -> None:
    documents = [document for piece in pieces for document in piece]
    if not documents:
        return
    store = build(tmp_path_factory.mktemp("property"), pieces)
    encode = store.vocabulary.tokenizer.encode
    assert texts(store) == [[encode(s, add_special_tokens=False).tokens for s in document] for document in documents]
    assert store.sentence_offsets[0] == 0
    assert store.sentence_offsets[-1] == store.token_count == len(store.tokens)
    assert store.document_sentences[0] == 0
    assert store.document_sentences[-1] == store.sentences
    assert np.all(np.diff(store.sentence_offsets) > 0)
    assert np.all(np.diff(store.document_sentences) > 0)


def reference_filter(pieces: list[list[list[str]]], documents: bool, lines: bool) -> list[list[str]]:
    """What the filters of duplicates should leave, one item at a time: a text is its words, however parted into sentences."""
    seen_documents: set[str] = set()
    seen_lines: set[str] = set()
    kept = []
    for document in (document for piece in pieces for document in piece):
        text = " ".join(document)
        first_lines = [line for line in document if not (line in seen_lines or seen_lines.add(line))]
        if documents and text in seen_documents:
            continue  # its lines have been seen all the same
        seen_documents.add(text)
        if remaining := first_lines if lines else document:
            kept.append(remaining)
    return kept


words = st.sampled_from(["a", "b", "a b", "c c"])
repetitive = st.lists(st.lists(st.lists(words, min_size=1, max_size=3), max_size=5), min_size=1, max_size=3)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=repetitive, documents=st.booleans(), lines=st.booleans())
@example(pieces=[[["a", "b", "a"], ["a b", "a"]]], documents=True, lines=False)
@example(pieces=[[["a b"], ["a", "b"], ["a"]]], documents=True, lines=True)
def test_filters_leave_the_first_occurrences(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[list[list[str]]], documents: bool, lines: bool
) -> None:
    expected = reference_filter(pieces, documents, lines)
    if not expected:
        return
    store = build(tmp_path_factory.mktemp("filters"), pieces, (documents, lines))
    assert texts(store) == [[s.split() for s in document] for document in expected]
    for number in range(store.documents):
        tokens = store.tokens[store.document_offsets[number] : store.document_offsets[number + 1]]
        assert store.document_hashes[number].tobytes() == hashlib.blake2b(tokens.tobytes(), digest_size=8).digest()
    distinct = {tuple(" ".join(document).split()) for document in expected}
    assert store.manifest["repeated_documents"] == len(expected) - len(distinct)


def test_a_corpus_of_more_parts_than_a_process_may_open_files_is_joined(tmp_path: Path) -> None:
    pieces = [[["a b"], [f"{'b ' * number}c"]] for number in range(1, 41)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 30, hard))
    try:
        store = build(tmp_path, pieces, (True, True))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert texts(store) == [[["a", "b"]], *([["b"] * number + ["c"]] for number in range(1, 41))]


def test_vocabulary_past_65536_entries_gets_wider_tokens(tmp_path: Path) -> None:
    store = build(tmp_path, [[["a b c", "日"]]], filler=70_000)
    assert store.tokens.dtype == np.uint32
    assert list(store.tokens) == [70_005, 70_006, 70_007, 70_010]
    assert texts(store) == [[["a", "b", "c"], ["日"]]]
    assert [token_type(size).itemsize for size in (5, 65_536, 65_537)] == [2, 2, 4]  # the largest id is one less than the size


def copy_of(store: TokenStore, folder: Path) -> Path:
    folder.mkdir()
    for path in store.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize("name", FILES)
def test_damage_is_found(store: TokenStore, tmp_path: Path, name: str) -> None:
    folder = copy_of(store, tmp_path / "copy")
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(UserError, match=rf"{name} is damaged .*{len(content) - 1:,} bytes instead of {len(content):,}"):
        TokenStore.open(folder)
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(UserError, match=rf"{name} is not what was written"):
        TokenStore.open(folder, verify=True)
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"lacks {name}"):
        TokenStore.open(folder)
    (folder / name).write_bytes(content)
    assert TokenStore.open(folder, verify=True).fingerprint == store.fingerprint


def test_what_is_no_store_is_refused(store: TokenStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no token store"):
        TokenStore.open(tmp_path)
    folder = copy_of(store, tmp_path / "copy")
    (folder / "manifest.json").write_text(json.dumps({**store.manifest, "format": 99}))
    with pytest.raises(UserError, match="format 99"):
        TokenStore.open(folder)
    (folder / "manifest.json").write_text('{"format": ')
    with pytest.raises(UserError, match="damaged"):
        TokenStore.open(folder)


def test_fingerprint_is_of_the_content(store: TokenStore, tmp_path: Path) -> None:
    documents = [["a b c.", "bc 日"], ["a"], ["c b", "b", "a."]]
    assert build(tmp_path / "same", [documents]).fingerprint == store.fingerprint  # however it is parted
    assert build(tmp_path / "other", [[["a b c.", "bc 日"], ["a"], ["c b", "b a."]]]).fingerprint != store.fingerprint  # other sentences
    assert build(tmp_path / "vocabulary", [documents], filler=1).fingerprint != store.fingerprint


def test_pickle_carries_the_folder_and_not_the_arrays(store: TokenStore) -> None:
    weighted = store.weighted({"source0": 2.0, "source1": 0.5})
    data = pickle.dumps(weighted)
    assert len(data) < 10_000
    loaded = pickle.loads(data)
    assert isinstance(loaded.tokens, np.memmap)
    assert np.array_equal(loaded.tokens, store.tokens)
    assert [source.weight for source in loaded.sources] == [2.0, 0.5]


# The split


def many(tmp_path: Path, documents: list[int]) -> TokenStore:
    """A store whose documents are numbers in base 3, written with the letters a, b and c."""
    return build(tmp_path, [[[" ".join("abc"[int(d)] for d in np.base_repr(number, 3))] for number in documents]])


def held_texts(store: TokenStore, share: float) -> set[str]:
    everything = texts(store)
    return {str(everything[i]) for i in store.split(share)[1]}


def test_split_parts_the_documents(tmp_path: Path) -> None:
    store = many(tmp_path, list(range(500)))
    for share, expected in ((0.01, 5), (0.1, 50), (0.5, 250), (0.0001, 2), (0.9999, 498)):
        training, held = store.split(share)
        assert len(held) == expected
        assert sorted([*training, *held]) == list(range(500))
        assert np.all(np.diff(training) > 0)
        assert np.all(np.diff(held) > 0)
        assert store.document_hashes[held].max() < store.document_hashes[training].min()


def test_split_depends_on_the_documents_and_not_on_their_order(tmp_path: Path) -> None:
    numbers = list(range(300))
    forward = held_texts(many(tmp_path / "forward", numbers), 0.1)
    assert held_texts(many(tmp_path / "backward", numbers[::-1]), 0.1) == forward
    more = held_texts(many(tmp_path / "more", [*numbers, *range(300, 330)]), 0.1)
    assert len(more & forward) >= len(forward) - 10  # new documents displace few


def test_copies_of_a_document_stand_on_one_side(tmp_path: Path) -> None:
    store = many(tmp_path, [*range(40)] * 5 + [7] * 30)
    training, held = store.split(0.1)
    everything = [str(document) for document in texts(store)]
    assert not {everything[i] for i in training} & {everything[i] for i in held}
    assert len(training) + len(held) == 230
    assert abs(len(held) - 23) <= 17.5  # copies count as documents: as near as that with 35 of one kind and 5 of every other


@settings(max_examples=30)
@given(numbers=st.lists(st.integers(0, 6), min_size=2, max_size=12), share=st.floats(0.001, 0.999))
def test_both_sides_have_documents(tmp_path_factory: pytest.TempPathFactory, numbers: list[int], share: float) -> None:
    store = many(tmp_path_factory.mktemp("sides"), numbers)
    if len(set(numbers)) == 1:
        with pytest.raises(UserError, match="at least two documents"):
            store.split(share)
        return
    training, held = store.split(share)
    least = 2 if len(set(numbers)) >= 4 else 1  # different documents, as next-sentence prediction needs
    for side in (training, held):
        assert len({numbers[index] for index in side}) >= least


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0])
def test_share_held_out_lies_between_0_and_1(store: TokenStore, share: float) -> None:
    with pytest.raises(UserError, match=r"corpus\.held_out"):
        store.split(share)
