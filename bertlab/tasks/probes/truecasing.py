"""Truecasing as tagging (Lita et al. 2003): how was each word written that is given in small letters?

A sentence's first word has its capital by position and not by what it is, so it is not among the words to tag; the model sees it only with
``task.document_context=true``, as what stands before them. For the same reason sentences are not used in which something begins anew
(after a quotation mark, a colon, a full stop), nor headings, where most words have capitals, nor sentences without any capital after the
first word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from bertlab.tasks.examples import TaggingExample
from bertlab.tasks.probes.probe import Probe, draw
from bertlab.tasks.probes.stretches import Source

LABELS = ("O", "capitalised", "upper", "mixed")  # O: small letters, or none
MOST_CAPITALS = 0.5  # of all words of a sentence
_BEGINS_ANEW = frozenset(".!?…:\"'“”„‘’‚«»‹›¿¡—")  # a capital after one of these may be the position's
_WORDS = re.compile(r"\w+(?:[-.'’&/]\w+)*|[^\w\s]")


def candidates(source: Source, key: int) -> Sequence[tuple[int, tuple[str, ...]]]:
    """The words of every sentence with some capitals, in random order."""
    found = []
    for number, sentence in source.sentences:
        words = tuple(_WORDS.findall(sentence))
        capitals = sum(1 for word in words[opening(words) :] if tag(word))
        if 0 < capitals <= MOST_CAPITALS * len(words) and not begins_anew(words):
            found.append((number, words))
    return sorted(found, key=lambda candidate: draw(1 << 64, key, "order", candidate[0]))


def begins_anew(words: Sequence[str]) -> bool:
    """Whether a capital after the first word may be there by position."""
    inside = words[opening(words) :]
    return any(mark in _BEGINS_ANEW and word[0].isalnum() for mark, word in pairwise(inside))


def opening(words: Sequence[str]) -> int:
    """How many words there are up to the first one with a letter, that one included."""
    return next((place for place, word in enumerate(words, 1) if any(map(str.isalpha, word))), len(words))


def tag(word: str) -> int:
    """The index of a word's label."""
    capitals = [character != character.lower() for character in word if character.lower() != character.upper()]
    if not any(capitals):
        return 0
    if all(capitals) and len(capitals) > 1:
        return 2
    return 1 if capitals[0] and not any(capitals[1:]) else 3


def example(id: str, words: tuple[str, ...], outcome: int, key: int) -> TaggingExample:
    """The sentence in small letters, without its first word, and the tags of its words."""
    begin = opening(words)
    small = tuple(word.lower() for word in words)
    return TaggingExample(id, small[begin:], tuple(map(tag, words[begin:])), before=small[:begin])


PROBE = Probe("tagging", LABELS, 1, candidates, example)
