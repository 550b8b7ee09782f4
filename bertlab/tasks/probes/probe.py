"""What a probe consists of, and the random draws that its examples are made with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bertlab.data.randomness import derive
from bertlab.tasks.examples import Example
from bertlab.tasks.probes.stretches import Source

T = TypeVar("T")


@dataclass(frozen=True)
class Probe:
    """A way of making examples of raw text. A candidate is what an example will be made of, whichever its outcome.

    Outcomes are the classes of a classification or the places of the right choice: equally many examples of a split have each of them.
    Which one an example has is drawn after, and independently of, what it is made of, so that nothing else can tell it.
    """

    kind: str  # of the examples
    labels: tuple[str, ...]
    outcomes: int
    # The candidates of a document, with a number that tells each from its others; of those that should be taken first, first.
    candidates: Callable[[Source, int], Sequence[tuple[int, Any]]]  # (source, key)
    example: Callable[[str, Any, int, int], Example]  # (id, candidate, outcome, key)


def draw(bound: int, *parts: int | str) -> int:
    """A random number below ``bound`` that belongs to ``parts``."""
    return int(derive(*parts)) * bound >> 64


def shuffled(items: Sequence[T], *parts: int | str) -> list[T]:
    """``items`` in the random order that belongs to ``parts``."""
    return [items[index] for index in sorted(range(len(items)), key=lambda index: int(derive(*parts, index)))]
