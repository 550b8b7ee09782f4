from __future__ import annotations

import gzip
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bertlab.config import CorpusConfig, FilterConfig, PathsConfig
from bertlab.data import fingerprints
from bertlab.data.cache import cache_folder
from bertlab.data.fingerprints import source_fingerprint


@pytest.fixture
def paths(tmp_path: Path) -> PathsConfig:
    return PathsConfig(cache=str(tmp_path / "cache"))


def corpus_of(folder: Path, *contents: str) -> CorpusConfig:
    folder.mkdir(exist_ok=True)
    for number, content in enumerate(contents):
        (folder / f"{number}.txt").write_text(content)
    return CorpusConfig(kind="text", path=str(folder))


def test_contents_and_order_count_and_places_do_not(tmp_path: Path, paths: PathsConfig) -> None:
    one = source_fingerprint(corpus_of(tmp_path / "a", "x", "y"), paths)
    assert source_fingerprint(corpus_of(tmp_path / "b", "x", "y"), paths) == one
    others = [
        corpus_of(tmp_path / "c", "y", "x"),
        corpus_of(tmp_path / "d", "xy"),
        corpus_of(tmp_path / "e", "x", "z"),
        corpus_of(tmp_path / "f", "x"),
    ]
    assert len({one, *(source_fingerprint(other, paths) for other in others)}) == 5


def test_what_readers_heed_counts_and_the_rest_does_not(tmp_path: Path, paths: PathsConfig) -> None:
    corpus = corpus_of(tmp_path / "a", "x")
    one = source_fingerprint(corpus, paths)
    for same in (
        replace(corpus, strict=True),
        replace(corpus, held_out=0.5, weight=3),
        replace(corpus, column="body"),
        replace(corpus, sentence_splitting="library"),
    ):
        assert source_fingerprint(same, paths) == one
    for other in (
        replace(corpus, kind="sentences"),
        replace(corpus, sentence_splitting="line"),
        replace(corpus, filter=FilterConfig(min_words=3)),
        CorpusConfig(kind="mixture", sources={"a": corpus}),
    ):
        assert source_fingerprint(other, paths) != one


def test_of_a_name_counts_only_what_says_that_a_file_is_compressed(tmp_path: Path, paths: PathsConfig) -> None:
    """The same bytes are text under one name and are unpacked under another."""
    corpus, packed = CorpusConfig(kind="text", path=str(tmp_path / "a")), gzip.compress(b"One. Two.")
    (tmp_path / "a").mkdir()
    found = []
    for name in ("z9", "z8", "z9.txt", "z9.gz", "z8.GZ", "z9.bz2"):
        file = tmp_path / "a" / name
        file.write_bytes(packed)
        found.append(source_fingerprint(corpus, paths))
        file.unlink()
    assert found[0] == found[1] == found[2]
    assert found[3] == found[4]
    assert len({found[0], found[3], found[5]}) == 3


def test_plain_files_keep_the_fingerprint_that_finished_stores_have(tmp_path: Path, paths: PathsConfig) -> None:
    """Written down anew: where it changes, every store and every row of a table is made again."""
    texts = ["One. Two.", "Three.\n"]
    corpus = corpus_of(tmp_path / "a", *texts)
    described = {
        "kind": "text",
        "column": None,
        "split_by_line": False,
        "words": [None, None],
        "contents": [hashlib.sha256(text.encode()).hexdigest() for text in texts],
    }
    expected = json.dumps({"version": 1, "sources": [["text", described]]})
    assert source_fingerprint(corpus, paths) == hashlib.sha256(expected.encode()).hexdigest()


def test_large_files_are_hashed_once_until_they_change(tmp_path: Path, paths: PathsConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(tmp_path / "a", "x" * (2 << 20))
    read: list[str] = []
    real = fingerprints._read_hash
    monkeypatch.setattr(fingerprints, "_read_hash", lambda path: read.append(path) or real(path))
    first = source_fingerprint(corpus, paths)
    assert source_fingerprint(corpus, paths) == first
    assert len(read) == 1
    file = tmp_path / "a" / "0.txt"
    before = file.stat().st_mtime_ns
    file.write_text("y" * (2 << 20))
    os.utime(file, ns=(before + 1000, before + 1000))
    assert source_fingerprint(corpus, paths) != first
    assert len(read) == 2


@pytest.mark.parametrize("in_place", [True, False], ids=["written over", "another file in its place"])
def test_large_files_of_the_same_size_and_time_are_told_apart(in_place: bool, tmp_path: Path, paths: PathsConfig) -> None:
    """As ``tar -x`` and ``rsync -t`` leave them: with the time that the file had where it came from."""
    corpus, file = corpus_of(tmp_path / "a", "x" * (2 << 20)), tmp_path / "a" / "0.txt"
    os.utime(file, (0, 0))
    first = source_fingerprint(corpus, paths)
    if not in_place:
        file.rename(tmp_path / "away")
    file.write_text("y" * (2 << 20))
    os.utime(file, (0, 0))
    assert source_fingerprint(corpus, paths) == source_fingerprint(corpus, PathsConfig(cache=str(tmp_path / "empty"))) != first


def test_unreadable_files_have_a_fingerprint_too(tmp_path: Path, paths: PathsConfig) -> None:
    corpus = corpus_of(tmp_path / "a", "x")
    one = source_fingerprint(corpus, paths)
    (tmp_path / "a" / "1.txt").symlink_to("nowhere")
    assert source_fingerprint(corpus, paths) != one


def test_cache_folder_is_the_given_one_else_the_environments_else_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLAB_CACHE", str(tmp_path / "environment"))
    assert cache_folder(PathsConfig(cache=str(tmp_path / "given"))) == tmp_path / "given"
    assert cache_folder(PathsConfig()) == cache_folder() == tmp_path / "environment"
    assert (tmp_path / "environment").is_dir()
    monkeypatch.delenv("BERTLAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert cache_folder() == tmp_path / "user" / "bertlab"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("words")
    corpus = CorpusConfig(kind="text", path=str(tmp_path))
    assert source_fingerprint(corpus, PathsConfig(cache=str(tmp_path / "cache"))) != ""
