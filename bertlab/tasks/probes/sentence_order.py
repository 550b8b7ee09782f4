"""Sentence order (Chen et al. 2019, DiscoEval; Lan et al. 2020): do two neighbouring sentences stand in their order or in the opposite one?

Both orders have the same words and the same total length. The first sentence of a paragraph is left out where the corpus has enough
others: it tends to be a definition or a heading, told without reading the other sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from bertlab.tasks.examples import TextExample
from bertlab.tasks.probes.probe import Probe, draw
from bertlab.tasks.probes.stretches import Source

LABELS = ("in_order", "swapped")


def candidates(source: Source, key: int) -> Sequence[tuple[int, tuple[str, str]]]:
    """Disjoint pairs of neighbouring sentences, in random order."""
    found = []
    for stretch in source.stretches:
        count = len(stretch.sentences)
        skipped = draw(2, key, "start", stretch.first) if count % 2 else 0
        for place in range(skipped, count - 1, 2):
            found.append((stretch.first + place, (stretch.sentences[place], stretch.sentences[place + 1])))
    return sorted(found, key=lambda candidate: draw(1 << 64, key, "order", candidate[0]))


def example(id: str, pair: tuple[str, str], outcome: int, key: int) -> TextExample:
    """The pair as it is (outcome 0) or swapped (1)."""
    first, second = reversed(pair) if outcome else pair
    return TextExample(id, first, second, outcome)


PROBE = Probe("classification", LABELS, len(LABELS), candidates, example)
