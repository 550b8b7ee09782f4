"""Documents out of pieces: the reader of each kind of corpus, and the filter by length."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bertlab.config import CorpusConfig, FilterConfig
from bertlab.data.builtin import read_builtin
from bertlab.data.documents import Document, Problem, ReadingReport
from bertlab.data.huggingface import read_huggingface
from bertlab.data.lines import Part
from bertlab.data.pieces import Piece
from bertlab.data.plain import read_sentences, read_text, read_wikiextractor
from bertlab.data.records import read_jsonl, read_parquet

_READERS: dict[str, Callable[[Part, CorpusConfig, ReadingReport], Iterator[Document]]] = {
    "text": read_text,
    "sentences": read_sentences,
    "wikiextractor": read_wikiextractor,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "huggingface": read_huggingface,
}


def read(piece: Piece, report: ReadingReport) -> Iterator[Document]:
    """The documents of a piece in order, those without text or out of the filter's bounds left out; ``report`` has its say at the end.

    Raises UserError where ``corpus.strict`` is set and the input is malformed, and for a text column that is not there.
    """
    corpus = piece.corpus
    found = ReadingReport(strict=corpus.strict)
    try:
        for document in _all(piece, found):
            if _wanted(document, corpus.filter, found):
                yield document
    finally:
        report.merge(found)


def _all(piece: Piece, report: ReadingReport) -> Iterator[Document]:
    if piece.corpus.kind == "builtin":
        yield from read_builtin(piece.parts, report)
    else:
        for part in piece.parts:
            yield from _READERS[piece.corpus.kind](part, piece.corpus, report)


def _wanted(document: Document, bounds: FilterConfig, report: ReadingReport) -> bool:
    if not document.blocks:
        report.add(Problem.EMPTY, document.origin)
        return False
    if bounds.min_words is None and bounds.max_words is None:
        return True
    words = sum(len(block.split()) for block in document.blocks)
    if bounds.min_words is not None and words < bounds.min_words:
        report.add(Problem.TOO_SHORT, document.origin)
        return False
    if bounds.max_words is not None and words > bounds.max_words:
        report.add(Problem.TOO_LONG, document.origin)
        return False
    return True
