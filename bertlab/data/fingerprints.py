"""What a corpus holds, as a hash: the same files give the same one wherever they lie."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from bertlab.config import CorpusConfig, PathsConfig
from bertlab.data import builtin
from bertlab.data.cache import cache_folder
from bertlab.data.compression import compression_of
from bertlab.data.discovery import files_of
from bertlab.data.huggingface import arrow_files, hash_of_rows, rows_of
from bertlab.data.pieces import sources_of
from bertlab.data.sentences import splits_by_line
from bertlab.files import touched, write_atomically

READING_VERSION = 1  # raised when the same files come to give other documents or sentences
_MEMOISED_FROM = 1 << 20  # bytes; smaller files are hashed as fast as a note about them is read
_THREADS = 4


def source_fingerprint(corpus: CorpusConfig, paths: PathsConfig | None = None) -> str:
    """A hash of everything that decides which documents and sentences ``read`` gives out, and of nothing else.

    It covers the files' contents and order, but of their names only what says that they are compressed, and of the configuration what
    readers heed: not ``strict``, ``weight``, ``held_out`` or the filters of duplicates. The hash of a large file is kept in the cache
    folder under its path and what the system says of it, so that it is read again wherever another content may have come, also one of the
    same size with the same time of change.
    """
    described = {name: _described(source, cache_folder(paths)) for name, source in sources_of(corpus).items()}
    return _hash({"version": READING_VERSION, "sources": list(described.items())})


def share_text(one: CorpusConfig, other: CorpusConfig, paths: PathsConfig | None = None) -> bool:
    """Whether a file of one corpus is, by its content, also a file of the other, in whatever way each is read."""
    first, second = (
        {text for source in sources_of(corpus).values() for text in _texts(source, cache_folder(paths))} for corpus in (one, other)
    )
    return not first.isdisjoint(second)


def _described(corpus: CorpusConfig, cache: Path) -> dict[str, object]:
    has_column = corpus.kind in ("jsonl", "parquet", "huggingface")
    return {
        "kind": corpus.kind,
        "column": corpus.column if has_column else None,
        "split_by_line": splits_by_line(corpus),
        "words": [corpus.filter.min_words, corpus.filter.max_words],
        "contents": _contents(corpus, cache),
    }


def _contents(corpus: CorpusConfig, cache: Path) -> list[object]:
    """The texts, and what else decides which bytes are read of them."""
    if corpus.kind == "huggingface":
        return [corpus.split, len(rows_of(corpus)), *_texts(corpus, cache)]
    if corpus.kind == "builtin":
        return [*_texts(corpus, cache)]
    files = files_of(corpus)
    return [text + compression_of(path) for path, text in zip(files, _hashes(files, cache), strict=True)]


def _texts(corpus: CorpusConfig, cache: Path) -> list[str]:
    """A hash of each file that holds text of the corpus, which is no mixture; of a data set that is held in memory, of its rows."""
    if corpus.kind == "builtin":
        return [builtin.fingerprint()]
    if corpus.kind == "huggingface":
        return _hashes(arrow_files(corpus), cache) or [hash_of_rows(corpus)]
    return _hashes(files_of(corpus), cache)


def _hashes(files: list[str], cache: Path) -> list[str]:
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda path: file_hash(path, cache), files))


def file_hash(path: str, cache: Path) -> str:
    """A hash of a file's content, whatever its name; ``cache`` is where those of large files are kept."""
    try:
        state = os.stat(path)
        if not stat.S_ISREG(state.st_mode):  # opening a pipe would wait for its writer
            return "unreadable: not a regular file"
        if state.st_size < _MEMOISED_FROM:
            return _read_hash(path)
        known = [os.path.abspath(path), *touched(state)]
        note = cache / "fingerprints" / f"{_hash(known)}.txt"
        if note.exists():
            return note.read_text()
        found = _read_hash(path)
    except OSError as error:
        return f"unreadable: {error.strerror}"
    with suppress(OSError):  # a full or write-protected cache costs time, and must not make another corpus of this one
        write_atomically(note, found)
    return found


def _read_hash(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
