"""Reader of Hugging Face ``datasets``: an id on the hub, or a folder that the library saved. An optional extra."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from bertlab.config import CorpusConfig
from bertlab.data.documents import Document, ReadingReport
from bertlab.data.hub import open_dataset
from bertlab.data.lines import Part
from bertlab.data.records import document_of, missing_arrow_column, texts_of
from bertlab.errors import UserError, unknown

_ROWS = 256  # decoded at once


def read_huggingface(part: Part, corpus: CorpusConfig, report: ReadingReport) -> Iterator[Document]:
    """One document a row, from row ``start`` to ``end``; places are numbers of rows, from 1."""
    end = len(rows_of(corpus)) if part.end is None else part.end
    for first, values in _values(corpus, part.start, end):
        for row, value in enumerate(values, first + 1):
            document = document_of(value, f"{part.path}:{row}", corpus, report)
            if document is not None:
                yield document


def _values(corpus: CorpusConfig, start: int, end: int) -> Iterator[tuple[int, list[bytes | None]]]:
    """The values of the rows from ``start`` to ``end`` in their order, some at once, with the number of the first of them from 0."""
    rows = rows_of(corpus)
    for first in range(start, end, _ROWS):
        table = rows[first : min(first + _ROWS, end)]
        yield first, [value for chunk in table.column(0).chunks for value in texts_of(chunk, str(corpus.path), corpus.column)]


def rows_of(corpus: CorpusConfig) -> Any:
    """The rows of ``corpus.split`` with its text column alone, as a ``datasets.Dataset`` that gives out Arrow tables.

    Raises UserError where the library is not installed, the data set cannot be had, or the column is not there.
    """
    if not corpus.path:
        raise UserError("corpus=huggingface needs corpus.path: a data set's id on the hub, or a folder that datasets saved.")
    return _open(corpus.path, corpus.subset, corpus.split, corpus.column)


@lru_cache(maxsize=4)  # a process reads many parts of one data set
def _open(path: str, subset: str | None, split: str, column: str) -> Any:
    found = open_dataset("corpus.path", path, subset, split)
    if isinstance(found, dict):
        if split not in found:
            raise unknown(f"split of {path}", split, found)
        found = found[split]
    if column not in found.column_names:
        raise missing_arrow_column(column, path, found.features.arrow_schema)
    return found.select_columns([column]).with_format("arrow")


def arrow_files(corpus: CorpusConfig) -> list[str]:
    """The files that hold the rows on this machine, in order; none where the library has read them into memory."""
    return [file["filename"] for file in rows_of(corpus).cache_files]


def hash_of_rows(corpus: CorpusConfig) -> str:
    """A hash of all that the rows say, for a data set that no file on this machine holds."""
    digest = hashlib.sha256()
    for _, values in _values(corpus, 0, len(rows_of(corpus))):
        for value in values:
            digest.update(b"-" if value is None else b"%d:%b" % (len(value), value))
    return digest.hexdigest()
