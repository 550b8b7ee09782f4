"""The files that ``corpus.path`` means, in an order that depends on their names alone."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from bertlab.config import CorpusConfig
from bertlab.data.compression import inner_suffix
from bertlab.errors import UserError

# What a folder is searched for; formats without a suffix of their own take every file.
SUFFIXES_OF_KIND = {"jsonl": (".jsonl", ".ndjson", ".json"), "parquet": (".parquet",)}


def files_of(corpus: CorpusConfig) -> list[str]:
    """The files of a file, a folder (with its folders) or a glob; hidden ones are left out. Raises UserError if there are none."""
    if not corpus.path:
        raise UserError(f"corpus={corpus.kind} needs corpus.path: a file, a folder or a glob.")
    path = os.path.expanduser(corpus.path)
    if os.path.isdir(path):
        found = _wanted(sorted(_walk(path)), corpus.kind)
        if not found:
            suffixes = " or ".join(SUFFIXES_OF_KIND.get(corpus.kind, ()))
            raise UserError(f"corpus.path={corpus.path}: the folder holds no {suffixes + ' ' if suffixes else ''}file to read.")
        return found
    if os.path.lexists(path):
        return [path]
    if not glob.has_magic(path):
        raise UserError(f"corpus.path={corpus.path}: there is no such file or folder.")
    # Hidden names are left out, as shells do. Where links make a folder part of itself, ** comes to its files many times.
    matches = sorted(glob.glob(path, recursive=True), reverse=True)
    found = sorted({os.path.realpath(match): match for match in matches if not os.path.isdir(match)}.values())
    if not found:
        raise UserError(f"corpus.path={corpus.path}: the glob matches no file.")
    return found


def _wanted(paths: list[str], kind: str) -> list[str]:
    suffixes = SUFFIXES_OF_KIND.get(kind)
    return [path for path in paths if inner_suffix(path) in suffixes] if suffixes else paths


def _walk(folder: str) -> Iterator[str]:
    """Every file below ``folder``, links to folders followed once.

    A folder that cannot be listed is given out too: reading it will fail, and be counted.
    """
    unlisted: list[str] = []
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=lambda error: unlisted.append(error.filename)):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(parent, name) for name in names if not name.startswith("."))
    yield from unlisted


def size_of(path: str) -> int:
    """The file's size in bytes; 0 where it cannot be told."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
