"""Sentence order (Chen et al. 2019, DiscoEval; Lan et al. 2020): do two neighbouring sentences stand in their order or in the opposite one?

Both orders have the same words and the same length in all. A sentence by itself should not tell its place either. So the first
sentence of a paragraph, often a definition or a headline, is not used; and every other one that has neighbours on both sides is the
earlier sentence of one pair and the later one of another.
"""

from __future__ import annotations

from collections.abc import Sequence

from bertlab.tasks.examples import TextExample
from bertlab.tasks.probes.probe import Probe, draw
from bertlab.tasks.probes.stretches import Source

LABELS = ("in_order", "swapped")


def candidates(source: Source, key: int) -> Sequence[tuple[int, tuple[str, str]]]:
    """Pairs of neighbouring sentences, in random order."""
    found = []
    for stretch in source.stretches:
        for place in range(int(stretch.opens), len(stretch.sentences) - 1):
            found.append((stretch.first + place, (stretch.sentences[place], stretch.sentences[place + 1])))
    return sorted(found, key=lambda candidate: draw(1 << 64, key, "order", candidate[0]))


def example(id: str, pair: tuple[str, str], outcome: int, key: int) -> TextExample:
    """The pair as it is (outcome 0) or swapped (1)."""
    first, second = reversed(pair) if outcome else pair
    return TextExample(id, first, second, outcome)


PROBE = Probe("classification", LABELS, len(LABELS), candidates, example)
