"""Stretches: consecutive sentences of a paragraph that a probe may use.

A sentence is usable when it is of ordinary length and mostly letters, and when it has not been met before, in this document or in one
before it: what a corpus repeats (licences, headings, set phrases) never stands in two documents, and so never in two splits.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bertlab.tasks.probes.documents import ProbeDocument

FEWEST_WORDS, MOST_WORDS = 5, 40
MOST_CHARACTERS = 400
COMMON = 200  # words
COUNTED_CHARACTERS = 2_000_000
LETTERS = 0.7  # least share of letters among the characters that are not spaces
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Usable sentences that follow one another in a paragraph."""

    first: int  # the number of its first sentence in the document
    sentences: tuple[str, ...]
    opens: bool  # whether its first sentence is its paragraph's first one


@dataclass(frozen=True, slots=True)
class Source:
    """What a probe sees of a document."""

    document: ProbeDocument
    stretches: list[Stretch]
    common: frozenset[str]  # the most frequent words of all documents together, without capitals

    @property
    def sentences(self) -> Iterator[tuple[int, str]]:
        """Every usable sentence with its number in the document."""
        for stretch in self.stretches:
            yield from enumerate(stretch.sentences, stretch.first)


def sources(documents: Sequence[ProbeDocument]) -> Iterator[Source]:
    """The stretches of each document in turn; those without any are left out."""
    common = _common_words(documents)
    met: set[bytes] = set()
    for document in documents:
        if found := list(_stretches(document, met)):
            yield Source(document, found, common)


def _common_words(documents: Iterable[ProbeDocument]) -> frozenset[str]:
    """The COMMON most frequent words of the first documents' text."""
    counts: Counter[str] = Counter()
    sentences = (sentence for document in documents for block in document.blocks for sentence in block)
    characters = 0
    for sentence in sentences:
        counts.update(_WORDS.findall(sentence.casefold()))
        characters += len(sentence)
        if characters >= COUNTED_CHARACTERS:
            break
    return frozenset(sorted(counts, key=lambda word: (-counts[word], word))[:COMMON])


def _stretches(document: ProbeDocument, met: set[bytes]) -> Iterator[Stretch]:
    number = 0
    for block in document.blocks:
        run: list[str] = []
        for place, sentence in enumerate(block):
            if _is_new(sentence, met) and is_usable(sentence):
                run.append(sentence)
                continue
            if run:
                yield Stretch(number + place - len(run), tuple(run), opens=place == len(run))
            run = []
        if run:
            yield Stretch(number + len(block) - len(run), tuple(run), opens=len(block) == len(run))
        number += len(block)


def is_usable(sentence: str) -> bool:
    """Whether a sentence is of ordinary length and mostly letters."""
    if len(sentence) > MOST_CHARACTERS or not FEWEST_WORDS <= sentence.count(" ") + 1 <= MOST_WORDS:
        return False
    return sum(map(str.isalpha, sentence)) >= LETTERS * (len(sentence) - sentence.count(" "))


def _is_new(sentence: str, met: set[bytes]) -> bool:
    key = hashlib.blake2b(sentence.casefold().encode(errors="replace"), digest_size=8).digest()
    new = key not in met
    met.add(key)
    return new
