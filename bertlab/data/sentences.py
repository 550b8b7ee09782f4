"""Paragraphs into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sentencex

from bertlab.config import CorpusConfig

SPLIT_BY = ("auto", "library", "line")
_DOTTED = re.compile(r"\.[^\W\d_]")
_SPAN = 4000  # characters; the splitter takes quadratic time on some texts (unclosed quotes), so it gets no more at once


def split_sentences(block: str) -> list[str]:
    """The sentences of a paragraph, none empty; nothing but white space is left out between them.

    Quoted speech stays with the sentence that quotes it.
    """
    # Besides being what is wanted, single plain spaces keep sentencex 1.0.32 from failing on other white space after an initial.
    text = " ".join(block.split())
    if len(text) <= _SPAN:
        return _split(text)
    return [sentence for span in _spans(text) for sentence in _split(span)]


def _split(text: str) -> list[str]:
    segments = sentencex.segment("en", text)
    if _DOTTED.search(text):
        segments = _dotted_joined(segments)
    return [stripped for segment in segments if (stripped := segment.strip())]


def _dotted_joined(segments: list[str]) -> list[str]:
    """The segments, those that end in a full stop with no space after it joined with the next: the parts of a name such as torch.Tensor."""
    joined: list[str] = []
    for segment in segments:
        if joined and joined[-1].endswith("."):
            joined[-1] += segment
        else:
            joined.append(segment)
    return joined


def _spans(text: str) -> Iterator[str]:
    """Consecutive parts of a long text, cut after a full stop where there is one, else after a space, else anywhere."""
    start = 0
    while len(text) - start > _SPAN:
        stop = text.rfind(". ", start, start + _SPAN) + 1
        end = stop or text.rfind(" ", start, start + _SPAN) + 1 or start + _SPAN
        yield text[start:end]
        start = end
    yield text[start:]


def splits_by_line(corpus: CorpusConfig) -> bool:
    """Whether the reader's blocks are sentences: so they are for ``line``, and for ``auto`` with the one-sentence-a-line format."""
    return corpus.sentence_splitting == "line" or (corpus.sentence_splitting == "auto" and corpus.kind == "sentences")
