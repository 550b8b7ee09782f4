"""Readers of the formats that are lines of text: hard-wrapped texts, one sentence a line, WikiExtractor.

Each has a function that reads a part. Those whose files can be parted have one that tells whether a document starts with a line, given the
line before it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from bertlab.config import CorpusConfig
from bertlab.data.documents import Document, Problem, ReadingReport
from bertlab.data.lines import BLANKS, Part, lines

LARGEST_DOCUMENT = 1 << 26  # characters; longer ones are cut, so that memory stays bounded
_BLANK_BYTES = (BLANKS + "\n\0").encode()


class _Growing:
    """A document while its lines come in."""

    def __init__(self, origin: str) -> None:
        self.document = Document(origin, [])
        self.lines_of_block: list[str] = []
        self.characters = 0
        self.continues = False  # whether the document is what followed a cut

    def add(self, line: str) -> None:
        """Go on with the block that is open."""
        if line:
            self.lines_of_block.append(line)
            self.characters += len(line)

    def end_block(self) -> None:
        """Close the block that is open, if any."""
        if self.lines_of_block:
            self.document.blocks.append(" ".join(self.lines_of_block))
            self.lines_of_block = []

    def too_large(self) -> bool:
        """Whether the document should be cut here."""
        return self.characters >= LARGEST_DOCUMENT

    def cut(self, following: str, report: ReadingReport) -> Document:
        """The document so far; what comes goes on as a new one that starts at ``following``."""
        report.add(Problem.CUT, self.document.origin)
        self.end_block()
        full = self.document
        self.document, self.characters, self.continues = Document(following, []), 0, True
        return full

    def end(self) -> Iterator[Document]:
        """The document, complete; nothing where it was cut just before its end."""
        self.end_block()
        if self.document.blocks or not self.continues:
            yield self.document


def read_text(part: Part, corpus: CorpusConfig, report: ReadingReport) -> Iterator[Document]:
    """One document a file. A blank line ends a paragraph, whose lines are joined; with splitting by line every line is a block."""
    wrapped = corpus.sentence_splitting != "line"
    growing = None
    for number, line in lines(part, report):
        growing = growing or _Growing(part.place(number))
        line = line.strip()
        growing.add(line)
        if not (line and wrapped):
            growing.end_block()
        if growing.too_large():
            yield growing.cut(part.place(number + 1), report)
    if growing:
        yield from growing.end()


def read_sentences(part: Part, corpus: CorpusConfig, report: ReadingReport) -> Iterator[Document]:
    """One sentence a line, a blank line (or one of spaces and tabs) between documents."""
    growing = None
    for number, line in lines(part, report):
        if not line.strip(BLANKS):
            if growing:
                yield from growing.end()
            growing = None
            continue
        growing = growing or _Growing(part.place(number))
        growing.add(line.strip())
        growing.end_block()
        if growing.too_large():
            yield growing.cut(part.place(number + 1), report)
    if growing:
        yield from growing.end()


def opens_sentences(line: bytes, previous: bytes) -> bool:
    """Whether a document of the one-sentence-a-line format starts with ``line``."""
    return bool(line.strip(_BLANK_BYTES)) and not previous.strip(_BLANK_BYTES)


def read_wikiextractor(part: Part, corpus: CorpusConfig, report: ReadingReport) -> Iterator[Document]:
    """``<doc id="…" url="…" title="…">``, the title again (it is dropped), the article with one paragraph a line, ``</doc>``."""
    growing = None
    title = None
    for number, line in lines(part, report):
        if line.startswith("<doc ") and line.rstrip(BLANKS).endswith(">"):
            if growing:
                report.add(Problem.UNCLOSED, growing.document.origin)
                yield from growing.end()
            growing, title = _Growing(part.place(number)), _title(line)
        elif line.strip() == "</doc>" and growing:
            yield from growing.end()
            growing = None
        elif growing and (text := line.strip()):
            if text != title:
                growing.add(text)
                growing.end_block()
            title = None
            if growing.too_large():
                yield growing.cut(part.place(number + 1), report)
        elif line.strip():
            report.add(Problem.OUTSIDE, part.place(number))
    if growing:
        report.add(Problem.UNCLOSED, growing.document.origin)
        yield from growing.end()


def _title(line: str) -> str | None:
    match = re.search(r'\btitle="(.*)"[^"]*>', line)  # greedy: some versions leave quotes within a title as they are
    return html.unescape(match[1]).strip() if match else None


def opens_wikiextractor(line: bytes, previous: bytes) -> bool:
    """Whether ``line`` is a ``<doc …>``."""
    line = line.replace(b"\0", b"")
    return line.startswith(b"<doc ") and line.rstrip(_BLANK_BYTES).endswith(b">")


def opens_record(line: bytes, previous: bytes) -> bool:
    """In a format of one record a line every line opens one."""
    return True
