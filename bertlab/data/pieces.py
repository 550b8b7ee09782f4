"""A corpus as pieces: the units in which it is read in parallel, in the corpus's order.

How a corpus is parted never shows in the documents that are read: a part of a file starts and ends where documents start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from bertlab.config import CorpusConfig
from bertlab.data import builtin
from bertlab.data.compression import is_compressed
from bertlab.data.discovery import files_of, size_of
from bertlab.data.huggingface import rows_of
from bertlab.data.lines import LONGEST_LINE, Part
from bertlab.data.plain import opens_record, opens_sentences, opens_wikiextractor
from bertlab.data.records import row_groups
from bertlab.data.sentences import SPLIT_BY
from bertlab.errors import UserError, unknown

KINDS = ("builtin", "text", "sentences", "wikiextractor", "jsonl", "parquet", "huggingface", "mixture")
PIECE_BYTES = 1 << 24
_SMALLEST_PIECE = 1 << 20
_PIECES_AIMED_AT = 64  # so that a small corpus, too, keeps every core busy to the end
COMPRESSION = 4  # how many times larger a compressed file is inside, roughly

Opens = Callable[[bytes, bytes], bool]  # whether a document starts with a line, given the line before it
_OPENS: dict[str, Opens] = {"sentences": opens_sentences, "wikiextractor": opens_wikiextractor, "jsonl": opens_record}


@dataclass(frozen=True)
class Piece:
    """A unit of work: parts of files that are read one after the other.

    ``source`` is the name of a mixture's source (of another corpus its kind), ``corpus`` that source's own configuration.
    """

    source: str
    corpus: CorpusConfig
    parts: tuple[Part, ...]


def pieces(corpus: CorpusConfig, size: int | None = None) -> list[Piece]:
    """The pieces of a corpus, of about ``size`` bytes each (default: up to 16 MiB); those of a mixture source by source.

    Raises UserError for what is not there or cannot be meant.
    """
    return [Piece(name, source, group) for name, source in sources_of(corpus).items() for group in _grouped(source, size)]


def sources_of(corpus: CorpusConfig) -> dict[str, CorpusConfig]:
    """The corpora that are read, by name: a mixture's (which take its bounds and strictness where they have none), else itself.

    A weight is one beside others: a corpus by itself has 1, whatever it says.
    """
    _check_words(corpus)
    if corpus.kind != "mixture":
        return {corpus.kind: replace(corpus, weight=1.0)}
    if not corpus.sources:
        raise UserError("corpus=mixture has no sources: add one with '+corpus.sources.NAME={kind: text, path: FOLDER}'.")
    return {name: _source(name, source, corpus) for name, source in corpus.sources.items()}


def _check_words(corpus: CorpusConfig) -> None:
    if corpus.kind not in KINDS:
        raise unknown("corpus", corpus.kind, KINDS)
    if corpus.sentence_splitting not in SPLIT_BY:
        raise unknown("corpus.sentence_splitting", corpus.sentence_splitting, SPLIT_BY)


def _source(name: str, source: CorpusConfig, mixture: CorpusConfig) -> CorpusConfig:
    if source.kind == "mixture":
        raise UserError(f"corpus.sources.{name} is a mixture itself: name its sources in the outer one.")
    _check_words(source)
    own = source.filter
    bounds = replace(
        own,
        min_words=mixture.filter.min_words if own.min_words is None else own.min_words,
        max_words=mixture.filter.max_words if own.max_words is None else own.max_words,
    )
    return replace(source, strict=source.strict or mixture.strict, filter=bounds)


def _grouped(corpus: CorpusConfig, size: int | None) -> list[tuple[Part, ...]]:
    if corpus.kind == "builtin":
        return builtin.groups()
    if corpus.kind == "huggingface":
        return _row_ranges(corpus, size or PIECE_BYTES)
    paths = files_of(corpus)
    total = sum(map(size_of, paths))
    size = size or max(_SMALLEST_PIECE, min(PIECE_BYTES, total // _PIECES_AIMED_AT))
    groups: list[tuple[Part, ...]] = []
    group: list[Part] = []
    filled = 0
    for path in paths:
        for part, part_size in _parted(path, corpus.kind, size):
            if group and filled + part_size > size:
                groups.append(tuple(group))
                group, filled = [], 0
            group.append(part)
            filled += part_size
    return [*groups, tuple(group)] if group else groups


def _parted(path: str, kind: str, size: int) -> Iterator[tuple[Part, int]]:
    """The parts of a file with the bytes that each is expected to hold."""
    whole = size_of(path)
    if is_compressed(path):
        yield Part(path), whole * COMPRESSION
    elif kind == "parquet":
        groups = row_groups(path)
        if groups is None:
            yield Part(path), whole
        else:
            yield from ((Part(path, index, index + 1), held) for index, held in enumerate(groups))
    elif kind in _OPENS and whole > size:
        yield from _byte_ranges(path, whole, size, _OPENS[kind])
    else:
        yield Part(path), whole


def _byte_ranges(path: str, whole: int, size: int, opens: Opens) -> Iterator[tuple[Part, int]]:
    """Ranges of at least ``size`` bytes that start where a document starts."""
    start = 0
    try:
        with open(path, "rb") as file:
            while (end := _document_start(file, start + size, whole, opens)) < whole:
                yield Part(path, start, end), end - start
                start = end
    except OSError:
        pass  # reading will fail again, and report it
    yield Part(path, start), whole - start


def _document_start(file: BinaryIO, position: int, whole: int, opens: Opens) -> int:
    """Where the first document starts that starts at byte ``position`` or later; the file's size if there is none."""
    if position >= whole:
        return whole
    at = _line_start(file, position - 1)
    file.seek(at)
    previous = b"\n"
    while line := file.readline(LONGEST_LINE):
        if at >= position and opens(line, previous) and previous.endswith(b"\n"):
            return at
        at += len(line)
        previous = line
    return whole


def _line_start(file: BinaryIO, position: int) -> int:
    """Where the line that holds byte ``position`` starts."""
    reach = 1 << 12
    while True:
        low = max(0, position - reach)
        file.seek(low)
        newline = file.read(position - low).rfind(b"\n")
        if newline >= 0:
            return low + newline + 1
        if low == 0:
            return 0
        reach *= 4


def _row_ranges(corpus: CorpusConfig, size: int) -> list[tuple[Part, ...]]:
    rows = rows_of(corpus)
    step = max(1, len(rows) * size // max(1, rows.data.nbytes))
    path = str(corpus.path)
    return [(Part(path, start, min(start + step, len(rows))),) for start in range(0, len(rows), step)]
