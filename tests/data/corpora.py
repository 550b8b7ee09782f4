"""What the tests of readers share: reading a whole corpus and seeing what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertlab.config import CorpusConfig
from bertlab.data.documents import Document, ReadingReport
from bertlab.data.pieces import pieces
from bertlab.data.readers import read
from bertlab.data.sentences import split_sentences, splits_by_line


def sentences_of(document: Document, corpus: CorpusConfig) -> list[str]:
    """The sentences of a document in order: its blocks, where they are sentences already, else the blocks split."""
    if splits_by_line(corpus):
        return document.blocks
    return [sentence for block in document.blocks for sentence in split_sentences(block)]


def read_all(corpus: CorpusConfig, size: int | None = None) -> tuple[list[Document], ReadingReport]:
    report = ReadingReport()
    return [document for piece in pieces(corpus, size) for document in read(piece, report)], report


def read_file(kind: str, path: Path | str, **settings: Any) -> tuple[list[list[str]], dict[str, int]]:
    """The blocks of each document and the counts of problems."""
    documents, report = read_all(CorpusConfig(kind=kind, path=str(path), **settings))
    return [document.blocks for document in documents], report.counts
