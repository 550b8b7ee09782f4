"""Which documents make which split, and how many examples each gives.

Documents go to splits whole. Where a split has more candidates than it needs, its documents give as evenly as they can: a long
document does not make a split by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SPLITS = ("test", "dev", "train")  # in the order in which they choose between equals
ENOUGH = 0.25  # of the examples asked for, in dev and in test, for ``documents: auto`` to keep to held-out documents


@dataclass(frozen=True)
class Supply:
    """What a document has to offer, best first."""

    document: int  # its hash
    held_out: bool
    candidates: Sequence[tuple[int, Any]]


def by_held_out(supplies: Sequence[Supply], wanted: Mapping[str, int]) -> dict[str, list[Supply]]:
    """Dev and test of held-out documents; train too where they are enough for all, else of the others."""
    held = [one for one in supplies if one.held_out]
    if sum(len(one.candidates) for one in held) >= sum(wanted.values()):
        return evenly(held, wanted)
    parted = evenly(held, {name: wanted[name] for name in SPLITS if name != "train"})
    return {**parted, "train": [one for one in supplies if not one.held_out]}


def evenly(supplies: Sequence[Supply], wanted: Mapping[str, int]) -> dict[str, list[Supply]]:
    """Each document in turn for the split that has the smallest share of what it needs."""
    parted: dict[str, list[Supply]] = {name: [] for name in SPLITS if wanted.get(name)}
    have = dict.fromkeys(parted, 0)
    for supply in supplies:
        name = min(parted, key=lambda one: have[one] / wanted[one])
        parted[name].append(supply)
        have[name] += len(supply.candidates)
    return parted


def taken(supplies: Sequence[Supply], wanted: int) -> list[tuple[Supply, int]]:
    """How many candidates each document gives, so that there are ``wanted`` of them or all that there are."""
    most = max((len(one.candidates) for one in supplies), default=0)
    low, high = 0, most  # the smallest bound on one document's share that gives enough
    while low < high:
        middle = (low + high) // 2
        if sum(min(len(one.candidates), middle) for one in supplies) >= wanted:
            high = middle
        else:
            low = middle + 1
    shares = [min(len(one.candidates), low) for one in supplies]
    surplus = max(0, sum(shares) - wanted)
    result = []
    for supply, share in zip(supplies, shares, strict=True):
        less = 1 if surplus and share == low else 0
        surplus -= less
        result.append((supply, share - less))
    return result
