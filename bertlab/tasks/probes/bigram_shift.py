"""Bigram shift (Conneau et al. 2018, "What you can cram into a single vector"): have two neighbouring words of the sentence been exchanged?

The two forms of a sentence have the same words, so a bag of words cannot tell them apart. What else could give an exchange away
is avoided: both words are letters only, so no comma or full stop moves with them; neither is the sentence's first, whose capital would
move; and they are different words. A sentence without such a pair is not used, whatever its form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bertlab.tasks.examples import TextExample
from bertlab.tasks.probes.probe import Probe, draw
from bertlab.tasks.probes.stretches import Source

LABELS = ("original", "shifted")
_LETTERS = re.compile(r"[^\W\d_]+([-'’][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and where the first of two exchangeable words is."""

    words: tuple[str, ...]
    place: int


def candidates(source: Source, key: int) -> Sequence[tuple[int, Pair]]:
    """Every sentence that has two exchangeable words, in random order."""
    found = []
    for number, sentence in source.sentences:
        words = tuple(sentence.split(" "))
        if places := exchangeable(words):
            found.append((number, Pair(words, places[draw(len(places), key, "place", number)])))
    return sorted(found, key=lambda candidate: draw(1 << 64, key, "order", candidate[0]))


def exchangeable(words: Sequence[str]) -> list[int]:
    """The places of the first words of all pairs that can be exchanged."""
    plain = [bool(_LETTERS.fullmatch(word)) for word in words]
    return [
        place
        for place in range(1, len(words) - 1)
        if plain[place] and plain[place + 1] and words[place].casefold() != words[place + 1].casefold()
    ]


def example(id: str, pair: Pair, outcome: int, key: int) -> TextExample:
    """The sentence as it is (outcome 0) or with the pair exchanged (1)."""
    words = list(pair.words)
    if outcome:
        words[pair.place], words[pair.place + 1] = words[pair.place + 1], words[pair.place]
    return TextExample(id, " ".join(words), label=outcome)


PROBE = Probe("classification", LABELS, len(LABELS), candidates, example)
