from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from glob import glob
from pathlib import Path

import numpy as np
import pytest
from corpora import sentences_of
from test_tokenizer import prose

from bertlab.config import CorpusConfig, FilterConfig, PathsConfig, TokenizerConfig
from bertlab.data import vocabulary_training
from bertlab.data.documents import ReadingReport
from bertlab.data.kept_text import read_kept
from bertlab.data.pieces import pieces
from bertlab.data.prepare import Preparation, prepare
from bertlab.data.readers import read
from bertlab.data.store import HASH, TokenStore, read_manifest, write_manifest
from bertlab.data.tokenizer import SPECIAL_TOKENS, Vocabulary
from bertlab.errors import UserError

LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> TokenizerConfig:
    """A given vocabulary of letters: tests that are not about training need not train."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *LETTERS, *(f"##{c}" for c in LETTERS), ".", ",", "[", "]", "the", "##ing"]))
    return TokenizerConfig(path=str(path))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> CorpusConfig:
    """At least five pieces, several of them of one file."""
    folder = tmp_path_factory.mktemp("large")
    line = prose(5_000).replace("\n", "\n\n")
    for number in range(4):
        text = (f"Text {number}.\n\n" + line) * 25
        (folder / f"{number}.txt").write_text(text if number else text * 2, encoding="utf-8")
    return CorpusConfig(kind="sentences", path=str(folder))


def files_of(store: TokenStore) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.folder.iterdir()}


def run(corpus: CorpusConfig, tokenizer: TokenizerConfig, cache: Path, said: list[str] | None = None, workers: int = 1) -> TokenStore:
    return prepare(corpus, tokenizer, PathsConfig(cache=str(cache)), workers=workers, say=([] if said is None else said).append)


def check_against_slow_loop(store: TokenStore, corpus: CorpusConfig) -> None:
    """The store is what reading, splitting and encoding one sentence at a time gives."""
    encoder = Vocabulary.load(store.folder / "tokenizer.json").plain_encoder()
    tokens: list[int] = []
    sentence_offsets, document_sentences, hashes = [0], [0], []
    for piece in pieces(corpus):
        for document in read(piece, ReadingReport()):
            start = len(tokens)
            for sentence in sentences_of(document, piece.corpus):
                if ids := encoder.encode(sentence, add_special_tokens=False).ids:
                    tokens += ids
                    sentence_offsets.append(len(tokens))
            if len(tokens) > start:
                document_sentences.append(len(sentence_offsets) - 1)
                content = b"".join(i.to_bytes(store.tokens.itemsize, "little") for i in tokens[start:])
                hashes.append(int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little"))
    assert store.tokens.tolist() == tokens
    assert store.sentence_offsets.tolist() == sentence_offsets
    assert store.document_sentences.tolist() == document_sentences
    assert store.document_hashes.tolist() == hashes


def test_real_text_is_stored_as_a_slow_loop_would(tmp_path: Path, shared_data: Path) -> None:
    books = shared_data / "books"
    (tmp_path / "articles").mkdir()
    article = next((shared_data / "wikipedia").rglob("wiki_*")).read_text(encoding="utf-8")
    (tmp_path / "articles" / "wiki_00").write_text(article[: article.rindex("<doc")], encoding="utf-8")
    corpus = CorpusConfig(
        kind="mixture",
        sources={
            "novels": CorpusConfig(kind="text", path=str(books / "11*.txt"), weight=2.0),
            "articles": CorpusConfig(kind="wikiextractor", path=str(tmp_path / "articles")),
        },
    )
    vocab = TokenizerConfig(path=str(shared_data / "vocab" / "bert-base-uncased-vocab.txt"))
    store = run(corpus, vocab, tmp_path / "cache", workers=2)
    check_against_slow_loop(store, corpus)
    novels, articles = store.sources
    assert (novels.name, novels.weight, articles.name, articles.weight) == ("novels", 2.0, "articles", 1.0)
    assert novels.first_document == 0
    assert novels.end_document == articles.first_document == len(list(books.glob("11*.txt")))
    assert articles.end_document == store.documents
    special = {store.vocabulary.pad, store.vocabulary.cls, store.vocabulary.sep, store.vocabulary.mask}
    assert not np.isin(store.tokens, list(special)).any()


def test_what_has_no_token_is_left_out_and_counted(tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "text").write_text("one\n\u200b\ntwo\n\n\u200b\u200b\n\nthree [MASK] four\n")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    said: list[str] = []
    store = run(corpus, vocab, tmp_path / "cache", said)
    check_against_slow_loop(store, corpus)
    assert (store.documents, store.sentences) == (2, 3)
    assert any("2 sentences without any token" in line for line in said)
    assert any("1 document without any token" in line for line in said)
    assert store.vocabulary.mask not in store.tokens
    assert store.vocabulary.tokenizer.token_to_id("[") in store.tokens


def test_number_of_processes_changes_nothing(tmp_path: Path, large: CorpusConfig, vocab: TokenizerConfig) -> None:
    assert len(pieces(large)) >= 5
    one = run(large, vocab, tmp_path / "one", workers=1)
    three = run(large, vocab, tmp_path / "three", workers=3)
    assert files_of(one) == files_of(three)
    TokenStore.open(three.folder, verify=True)
    assert not list((tmp_path / "three" / "stores").glob("*.parts"))


def test_second_call_reads_nothing(tmp_path: Path, vocab: TokenizerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text("one\n\ntwo\n")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    first = run(corpus, vocab, tmp_path / "cache")
    monkeypatch.setattr("bertlab.data.prepare.Workers", None)
    second = run(corpus, vocab, tmp_path / "cache")
    assert second.folder == first.folder
    (tmp_path / "elsewhere").write_text("one\n\ntwo\n")  # the same content under another name, and what is not of the store
    again = CorpusConfig(kind="sentences", path=str(tmp_path / "elsewhere"), held_out=0.5, weight=3.0, strict=True)
    assert run(again, vocab, tmp_path / "cache").folder == first.folder


def test_a_weight_is_of_a_source_of_a_mixture_alone(tmp_path: Path, vocab: TokenizerConfig) -> None:
    """What a run's batches are drawn by, and its identity holds."""
    (tmp_path / "text").write_text("one\n\ntwo\n")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"), weight=2.0)
    assert [source.weight for source in run(corpus, vocab, tmp_path / "cache").sources] == [1.0]
    mixture = CorpusConfig(kind="mixture", sources={"a": corpus})
    assert [source.weight for source in run(mixture, vocab, tmp_path / "cache").sources] == [2.0]


def test_changed_input_gives_another_store(tmp_path: Path, vocab: TokenizerConfig) -> None:
    path = tmp_path / "text"
    corpus = CorpusConfig(kind="sentences", path=str(path))
    path.write_text("one\n\ntwo\n")
    folders = [run(corpus, vocab, tmp_path / "cache").folder]
    path.write_text("one\n\nten\n")
    folders.append(run(corpus, vocab, tmp_path / "cache").folder)
    filtered = CorpusConfig(kind="sentences", path=str(path), filter=FilterConfig(duplicate_lines=True))
    folders.append(run(filtered, vocab, tmp_path / "cache").folder)
    cased = TokenizerConfig(path=vocab.path, lowercase=False)
    folders.append(run(corpus, cased, tmp_path / "cache").folder)
    assert len(set(folders)) == 4


def test_vocabulary_is_trained_on_the_corpus_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text(prose(20_000), encoding="utf-8")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    said: list[str] = []
    store = run(corpus, TokenizerConfig(vocab_size=300), tmp_path / "cache", said)
    check_against_slow_loop(store, corpus)
    assert store.vocabulary.size == 300
    assert not any("only" in line for line in said)
    other = run(corpus, TokenizerConfig(vocab_size=300), tmp_path / "other", workers=2)
    assert files_of(other) == files_of(store)
    larger = run(corpus, TokenizerConfig(vocab_size=100_000), tmp_path / "cache", said)
    assert 300 < larger.vocabulary.size < 100_000
    assert any(f"{larger.vocabulary.size:,} entries, not" in line for line in said)
    with pytest.raises(UserError, match=r"tokenizer\.vocab_size=3 "):
        run(corpus, TokenizerConfig(vocab_size=3), tmp_path / "cache")


def test_what_is_read_for_a_vocabulary_is_deleted_by_who_trains_it_alone(tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "text").write_text(prose(2_000), encoding="utf-8")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    trained, given = TokenizerConfig(vocab_size=300), TokenizerConfig(vocab_size=300, path=vocab.path)
    texts = Preparation(corpus, trained, PathsConfig(cache=str(tmp_path / "cache")), 1, False, print).text_of(0)
    texts.parent.mkdir(parents=True)  # as another process leaves them while it trains
    run(corpus, given, tmp_path / "cache")
    assert texts.parent.is_dir()
    run(corpus, trained, tmp_path / "cache")
    assert not texts.parent.exists()


def test_vocabulary_of_a_large_corpus_comes_of_a_bounded_sample(
    tmp_path: Path, large: CorpusConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled: list[int] = []
    monkeypatch.setattr(vocabulary_training, "SAMPLE_CHARACTERS", 100_000)
    from bertlab.data import prepare as module

    original = module.Preparation.work

    def work(self: object, title: str, task: object, items: object, sizes: object) -> object:
        if task is vocabulary_training.train_wordpiece:
            sampled.extend(path.stat().st_size for path in (tmp_path / "cache").rglob("*.sample/*.txt"))
        return original(self, title, task, items, sizes)

    monkeypatch.setattr(module.Preparation, "work", work)
    store = run(large, TokenizerConfig(vocab_size=200), tmp_path / "cache", workers=2)
    assert store.vocabulary.size == 200
    assert len(sampled) == len(pieces(large))
    assert min(sampled) > 0
    assert 50_000 < sum(sampled) < 110_000


def test_the_number_of_documents_is_told_as_soon_as_it_is_known(tmp_path: Path, vocab: TokenizerConfig) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("the cat sat.\n\nthe dog ran, the cat ran.\n")

    def refusing(documents: int) -> None:
        told.append(documents)
        raise UserError("too few")

    def told_of(kind: str, tokenizer: TokenizerConfig, cache: Path) -> list[int]:
        told.clear()
        with pytest.raises(UserError, match="too few"):
            prepare(
                CorpusConfig(kind=kind, path=f"{tmp_path}/*.txt"), tokenizer, PathsConfig(cache=str(cache)), workers=1, at_most=refusing
            )
        return told

    told: list[int] = []
    assert told_of("text", TokenizerConfig(vocab_size=60), tmp_path / "files") == [3]  # a document a file: nothing is read for it
    assert not [path for pattern in ("*.json", "*.jsonl") for path in (tmp_path / "files").rglob(pattern)]
    assert told_of("sentences", TokenizerConfig(vocab_size=60), tmp_path / "blank lines") == [6]
    assert not list((tmp_path / "blank lines" / "tokenizers").glob("*.json"))  # it was read, and no vocabulary was trained
    assert told_of("sentences", vocab, tmp_path / "given") == [6]
    prepare(CorpusConfig(kind="sentences", path=f"{tmp_path}/*.txt"), vocab, PathsConfig(cache=str(tmp_path / "given")), workers=1)
    assert told_of("sentences", vocab, tmp_path / "given") == [6]  # also of a store that is there


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", r"No text was found in corpus\.path=.*document without text, skipped: 1"),
        (b"\0\1\xff\xfe" * 2000, r"No text was found in corpus\.path=.*file that is not UTF-8 text, skipped: 1 × – .*a\.txt"),
        ("the café sat.\n".encode("latin-1"), r"too few Met there: malformed UTF-8, replaced by U\+FFFD: 1 × – .*a\.txt:1"),
        (b"the cat sat.\n", "too few$"),
    ],
    ids=["empty", "bytes", "latin", "text"],
)
@pytest.mark.parametrize("kind", ["text", "sentences"])
def test_what_was_met_in_too_few_documents_is_told(kind: str, content: bytes, said: str, tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "a.txt").write_bytes(content)

    def refusing(documents: int) -> None:
        raise UserError("too few")

    for number, tokenizer in enumerate((vocab, TokenizerConfig(vocab_size=60))):
        if kind == "sentences" and not content:
            said = "No text was found"  # nothing begins in an empty file of sentences
        corpus, paths = CorpusConfig(kind=kind, path=str(tmp_path / "a.txt")), PathsConfig(cache=str(tmp_path / f"cache {number}"))
        with pytest.raises(UserError, match=said):
            prepare(corpus, tokenizer, paths, workers=1, progress=False, at_most=refusing)


def test_repetitions_are_warned_of_and_can_be_left_out(tmp_path: Path, vocab: TokenizerConfig) -> None:
    documents = [f"{a} {b}\nthe same line" for a in "abcdef" for b in "uvw"]
    (tmp_path / "text").write_text("\n\n".join(documents + documents[:4]))
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    said: list[str] = []
    store = run(corpus, vocab, tmp_path / "cache", said)
    assert (store.documents, store.manifest["repeated_documents"]) == (22, 4)
    assert any("Warning: 4 of the corpus's 22 documents" in line for line in said)
    said.clear()
    run(corpus, vocab, tmp_path / "cache", said)
    assert any("Warning: 4 of" in line for line in said)  # also of a store that was there

    said.clear()
    once = CorpusConfig(kind="sentences", path=str(tmp_path / "text"), filter=FilterConfig(duplicate_documents=True))
    store = run(once, vocab, tmp_path / "cache", said)
    assert (store.documents, store.sentences) == (18, 36)
    assert not any("Warning" in line for line in said)
    assert [line for line in said if line.startswith("Left out")] == ["Left out: 4 repeated documents, or of repeated lines only"]
    lines = CorpusConfig(kind="sentences", path=str(tmp_path / "text"), filter=FilterConfig(duplicate_lines=True))
    store = run(lines, vocab, tmp_path / "cache", said)
    assert (store.documents, store.sentences) == (18, 19)
    said.clear()
    both = CorpusConfig(kind="sentences", path=lines.path, filter=FilterConfig(duplicate_documents=True, duplicate_lines=True))
    assert run(both, vocab, tmp_path / "cache", said).sentences == 19
    assert "Left out: 17 repeated lines or paragraphs" in said  # those of repeated documents are not counted once more


def test_filter_of_one_source_of_a_mixture(tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "first").write_text("a\n\na\n\nb")
    (tmp_path / "second").write_text("c\n\na\n\nc\n\nd")
    sources = {
        "first": CorpusConfig(kind="sentences", path=str(tmp_path / "first")),
        "second": CorpusConfig(kind="sentences", path=str(tmp_path / "second"), filter=FilterConfig(duplicate_documents=True)),
    }
    store = run(CorpusConfig(kind="mixture", sources=sources), vocab, tmp_path / "cache")
    text = store.vocabulary.tokenizer.decode(store.tokens.tolist())
    assert text == "a a b c d"  # the second source's a is in the first
    assert [(s.name, s.first_document, s.end_document) for s in store.sources] == [("first", 0, 3), ("second", 3, 5)]


def test_corpus_without_text_is_refused(tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "text").write_text("\n\n \n")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    for tokenizer in (vocab, TokenizerConfig(vocab_size=100)):
        with pytest.raises(UserError, match=r"No text was found in corpus\.path="):
            run(corpus, tokenizer, tmp_path / "cache")


def test_what_could_not_be_read_is_said_of_a_corpus_without_text(tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "text.parquet").write_bytes(b"junk")
    corpus = CorpusConfig(kind="parquet", path=str(tmp_path / "text.parquet"))
    for tokenizer in (vocab, TokenizerConfig(vocab_size=200)):
        with pytest.raises(UserError, match=r"Met there: file that could not be read.*text\.parquet"):
            run(corpus, tokenizer, tmp_path / "cache")


def test_text_that_the_vocabulary_cannot_write_is_warned_of(tmp_path: Path, vocab: TokenizerConfig) -> None:
    said: list[str] = []
    (tmp_path / "text").write_text("a b c\n\n" * 49 + "Ωμέγα a\n")  # 1 of 149 tokens
    run(CorpusConfig(kind="sentences", path=str(tmp_path / "text")), vocab, tmp_path / "cache", said)
    assert not [line for line in said if "[UNK]" in line]
    (tmp_path / "text").write_text("a b c\n\n" * 9 + "Ωμέγα a Ωμέγα\n")  # 2 of 30
    for _ in range(2):  # a finished store warns too
        said.clear()
        run(CorpusConfig(kind="sentences", path=str(tmp_path / "text")), vocab, tmp_path / "cache", said)
        assert [line for line in said if "7% of the corpus's tokens are [UNK]" in line and "tokenizer=wordpiece" in line]


def _chinese(characters: int) -> str:
    """Sentences of as many different Chinese characters, in each of which one follows another for the only time."""
    line = "".join(chr(0x4E00 + number) for number in range(characters))
    return "\n".join(line[start : start + 50] for start in range(0, characters, 50)) + "\n"


@pytest.mark.parametrize(
    ("characters", "vocab_size", "lines", "reason"),
    [
        (100, 120, 2, "tokenizer.vocab_size=120 has room for only the 38 most frequent characters of the corpus; raise it"),
        (1500, 8192, 2, "keeps only the 1,000 most frequent characters of the corpus, whatever its size"),
        (100, 8192, 1, "The corpus has text for a vocabulary of only 105 entries"),
    ],
)
def test_a_trained_vocabulary_without_all_characters_says_so(
    tmp_path: Path, characters: int, vocab_size: int, lines: int, reason: str
) -> None:
    (tmp_path / "text").write_text(_chinese(characters))
    tokenizer, said = TokenizerConfig(vocab_size=vocab_size), list[str]()
    for _ in range(2):  # the vocabulary is found in the cache the second time
        said.clear()
        run(CorpusConfig(kind="sentences", path=str(tmp_path / "text")), tokenizer, tmp_path / "cache", said)
        told = [line for line in said if "of only" in line or "has only" in line or "[UNK]" in line]
        assert len(told) == lines
        assert all(reason in line for line in told)


def test_words_too_long_for_a_trained_vocabulary_are_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b\n\n" * 9 + "c" * 101 + "\n")
    said: list[str] = []
    run(CorpusConfig(kind="sentences", path=str(tmp_path / "text")), TokenizerConfig(vocab_size=100), tmp_path / "cache", said)
    (warning,) = [line for line in said if "[UNK]" in line]
    assert "more than 100 characters without a space" in warning
    assert "tokenizer=wordpiece" not in warning


def test_problems_are_said_and_strict_refuses_them_even_in_a_finished_store(tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "text").write_bytes(b"one\ntw\xffo\n\nthree\n")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    strict = CorpusConfig(kind="sentences", path=str(tmp_path / "text"), strict=True)
    said: list[str] = []
    with pytest.raises(UserError, match=r"text:2"):
        run(strict, vocab, tmp_path / "strict")
    store = run(corpus, vocab, tmp_path / "cache", said)
    assert any("malformed UTF-8" in line and "text:2" in line for line in said)
    assert sum(store.manifest["report"]["counts"].values()) == 1
    with pytest.raises(UserError, match=r"corpus\.strict=true .*text:2"):
        run(strict, vocab, tmp_path / "cache")


def test_a_strict_source_refuses_its_own_problems_even_in_a_finished_store(tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "bad").write_bytes(b"one\ntw\xffo\n\nthree\n")
    (tmp_path / "good").write_text("four\n\nfive\n")

    def mixture(**strict: bool) -> CorpusConfig:
        sources = {name: CorpusConfig(kind="sentences", path=str(tmp_path / name), strict=name in strict) for name in ("bad", "good")}
        return CorpusConfig(kind="mixture", sources=sources)

    store = run(mixture(), vocab, tmp_path / "cache")
    assert run(mixture(good=True), vocab, tmp_path / "cache").folder == store.folder
    refusal = r"corpus\.sources\.bad\.strict=true .*bad:2.*set corpus\.sources\.bad\.strict=false"
    with pytest.raises(UserError, match=refusal):
        run(mixture(bad=True), vocab, tmp_path / "cache")
    with pytest.raises(UserError, match=r"corpus\.strict=true .*bad:2"):
        run(replace(mixture(), strict=True), vocab, tmp_path / "cache")
    manifest = read_manifest(store.folder)
    write_manifest(store.folder, {key: value for key, value in manifest.items() if key not in ("reports", HASH)})  # as older ones are
    with pytest.raises(UserError, match=refusal):
        run(mixture(bad=True), vocab, tmp_path / "cache")


def test_corpus_that_changes_while_it_is_read_is_refused(tmp_path: Path, vocab: TokenizerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text("one\n\ntwo\n")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    fingerprints = iter(["before", "after"])
    monkeypatch.setattr("bertlab.data.prepare.source_fingerprint", lambda *_: next(fingerprints))
    with pytest.raises(UserError, match="changed while they were read"):
        run(corpus, vocab, tmp_path / "cache")


def test_no_vocabulary_is_kept_of_a_corpus_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be found under the hash of what the corpus was before."""
    (tmp_path / "text").write_text(prose(2_000), encoding="utf-8")
    corpus, tokenizer = CorpusConfig(kind="sentences", path=str(tmp_path / "text")), TokenizerConfig(vocab_size=300)
    fingerprints = iter(["before", "after"])
    monkeypatch.setattr("bertlab.data.prepare.source_fingerprint", lambda *_: next(fingerprints))
    with pytest.raises(UserError, match="changed while they were read"):
        run(corpus, tokenizer, tmp_path / "cache")
    kept = [path for path in (tmp_path / "cache" / "tokenizers").iterdir() if path.suffix != ".lock"]
    assert kept == []


@pytest.mark.parametrize(("number", "message"), [(errno.ENOSPC, "is full"), (errno.EROFS, "cannot be written")])
def test_disk_that_takes_nothing_is_said(
    tmp_path: Path, vocab: TokenizerConfig, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number), "some file")

    (tmp_path / "text").write_text("one\n\ntwo\n")
    monkeypatch.setattr("bertlab.data.prepare.join_parts", failing)
    with pytest.raises(UserError, match=rf"{message}.*paths\.cache=DIR"):
        run(CorpusConfig(kind="sentences", path=str(tmp_path / "text")), vocab, tmp_path / "cache")


# Real processes

SCRIPT = """
import sys
from bertlab.config import CorpusConfig, PathsConfig, TokenizerConfig
from bertlab.data.prepare import prepare
path, vocab, size, cache = sys.argv[1:]
tokenizer = TokenizerConfig(path=vocab or None, vocab_size=int(size))
try:
    store = prepare(CorpusConfig(kind="sentences", path=path), tokenizer, PathsConfig(cache=cache), workers=2)
except KeyboardInterrupt:
    sys.exit(130)
print(store.folder)
"""  # no guard by __name__: the processes must not run the script anew


def start(folder: Path, corpus: CorpusConfig, vocab: TokenizerConfig, cache: Path) -> subprocess.Popen[str]:
    script = folder / "prepare_it.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(corpus.path), vocab.path or "", str(vocab.vocab_size), str(cache)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finished(process: subprocess.Popen[str]) -> tuple[dict[str, bytes], str]:
    """The files of the store that a process made, and what it said."""
    output, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return files_of(TokenStore.open(output.strip(), verify=True)), said


def pieces_in(cache: Path) -> list[Path]:
    """The pieces of a store that is being made; none once it is whole, also where that comes while one looks (pathlib would raise)."""
    return [Path(path) for path in sorted(glob(str(cache / "stores" / "*.parts" / "[0-9]*")))]


@pytest.mark.slow
@pytest.mark.kill
def test_killed_at_any_moment_and_started_again_it_ends_with_the_same_bytes(tmp_path: Path, large: CorpusConfig) -> None:
    trained = TokenizerConfig(vocab_size=300)
    began = time.monotonic()
    expected, _ = finished(start(tmp_path, large, trained, tmp_path / "whole"))
    took = time.monotonic() - began
    moments = random.Random(1)
    cache = tmp_path / "killed"
    kills = 0
    for attempt in range(20):
        process = start(tmp_path, large, trained, cache)
        before = len(pieces_in(cache))
        # Short lives at first; later ones long enough for a piece, so that the work comes to its end. Every third one ends with a piece.
        end = time.monotonic() + moments.uniform(0.1, 0.3 if attempt < 3 else 0.4 + 0.1 * attempt) * took
        while process.poll() is None and time.monotonic() < (end + 60 if attempt % 3 == 2 else end):
            parts = len(pieces_in(cache))
            if attempt % 3 == 0 and parts > before:
                break
            time.sleep(0.002)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
    assert kills >= 2
    result, _ = finished(start(tmp_path, large, trained, cache))
    assert result == expected
    assert len([path for path in (cache / "stores").iterdir() if path.is_dir()]) == 1  # nothing is left of the parts


@pytest.mark.kill
def test_finished_parts_are_not_made_again(tmp_path: Path, large: CorpusConfig, vocab: TokenizerConfig) -> None:
    for _ in range(10):  # the signal may come when all is done
        process = start(tmp_path, large, vocab, tmp_path / "cache")
        deadline = time.monotonic() + 120
        while not (done := pieces_in(tmp_path / "cache")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does on Ctrl-C
        _, said = process.communicate(timeout=30)
        if process.returncode != 0:
            break
        shutil.rmtree(tmp_path / "cache")
    assert process.returncode == 130
    assert "Stopped." in said
    assert "Traceback" not in said
    made = {path: (path / "summary.json").stat().st_mtime_ns for path in pieces_in(tmp_path / "cache")}
    assert set(done) <= set(made)
    assert len(made) < len(pieces(large))
    again = start(tmp_path, large, vocab, tmp_path / "cache")
    while len(pieces_in(tmp_path / "cache")) <= len(made) and again.poll() is None:
        time.sleep(0.01)
    remaining = {path: path / "summary.json" for path in made if (path / "summary.json").is_file()}
    assert all(summary.stat().st_mtime_ns == made[path] for path, summary in remaining.items())
    result, _ = finished(again)
    assert result == files_of(run(large, vocab, tmp_path / "other", workers=2))


@pytest.mark.kill
def test_two_processes_make_one_store(tmp_path: Path, large: CorpusConfig, vocab: TokenizerConfig) -> None:
    both = [start(tmp_path, large, vocab, tmp_path / "cache") for _ in range(2)]
    results = [finished(process) for process in both]
    assert results[0][0] == results[1][0]
    assert sum("waiting for it" in said for _, said in results) == 1
    assert sum("Corpus: " in said for _, said in results) == 1  # only one of them built it


def test_manifest_holds_nothing_of_the_moment(tmp_path: Path, vocab: TokenizerConfig) -> None:
    (tmp_path / "text").write_text("one\n\ntwo\n")
    corpus = CorpusConfig(kind="sentences", path=str(tmp_path / "text"))
    manifests = [(run(corpus, vocab, tmp_path / name).folder / "manifest.json").read_text() for name in ("a", "b")]
    assert manifests[0] == manifests[1]
    assert json.loads(manifests[0])["documents"] == 2


def test_corpus_is_read_once_for_vocabulary_and_store(tmp_path: Path, large: CorpusConfig) -> None:
    """The text is kept on disk between the two, and gone when the store is there; the store is that of a corpus read anew."""
    trained = TokenizerConfig(vocab_size=200)
    cache = tmp_path / "cache"
    preparation = Preparation(large, trained, PathsConfig(cache=str(cache)), 2, False, lambda _: None)
    vocabulary = preparation.vocabulary_file()
    kept = [preparation.text_of(number) for number in range(len(preparation.pieces))]
    assert all(path.is_file() for path in kept)
    for path, piece in zip(kept, preparation.pieces, strict=True):
        reports = ReadingReport(), ReadingReport()
        original, again = list(read(piece, reports[0])), list(read_kept(path, piece, reports[1]))
        assert [document.blocks for document in again] == [document.blocks for document in original]
        assert reports[0] == reports[1]
    once = run(large, trained, cache)
    assert not list(cache.glob("tokenizers/*.texts"))
    anew = run(large, TokenizerConfig(path=str(vocabulary)), tmp_path / "anew")
    assert files_of(once) == files_of(anew)
