"""Permutation tests: how often chance alone, by exchanging what would be exchangeable without a difference, gives as large a difference.

They assume no distribution, and they can say only so much: with n pairs of seeds there are 2ⁿ ways of exchanging, so no p value is below
2 / 2ⁿ: at three pairs .25. Those over seeds also take the evaluation set as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from bertlab.ablation.bootstrap import generator
from bertlab.ablation.example_sums import ExampleSums
from bertlab.arrays import Floats

_ENUMERATED = 1 << 16  # at most as many exchanges are tried one by one
_TOLERANCE = 1e-9  # relative: differences that are equal but for rounding


@dataclass(frozen=True)
class Permutation:
    """The result of a permutation test."""

    p_value: float  # two-sided
    smallest: float  # the smallest that this many seeds could have given
    exact: bool  # whether every exchange was tried


def sign_flips(differences: Floats, draws: int, *purpose: int | str) -> Permutation:
    """Test of paired differences (n,): without an effect each could as well have the other sign.

    Exact up to 16 pairs. Beyond, ``draws`` random exchanges are tried, and the one seen counts among them.
    """
    pairs = differences.size
    exact = 2**pairs <= _ENUMERATED
    if exact:
        signs = 1.0 - 2.0 * ((np.arange(2**pairs)[:, None] >> np.arange(pairs)) & 1)
    else:
        signs = generator(*purpose).choice([-1.0, 1.0], size=(draws, pairs))
    extreme = at_least(signs @ differences, float(differences.sum()))
    return Permutation(share_of_extreme(extreme, exact), 2.0 ** (1 - pairs) if exact else 1 / (draws + 1), exact)


def exchanged_labels(row: Floats, baseline: Floats, draws: int, *purpose: int | str) -> Permutation:
    """Test of two independent groups of values, (n,) and (m,): without an effect any n of them could be the row's.

    The p value counts differences of means that are as large, in either direction. Exact up to 65,536 ways of choosing.
    """
    values, count = np.concatenate([row, baseline]), row.size
    order, exact = orders(values.size, count, draws, *purpose)
    mean = values[order[:, :count]].mean(axis=1)
    difference = mean - (values.sum() - mean * count) / (values.size - count)
    extreme = at_least(difference, float(row.mean() - baseline.mean()))
    # With equal groups, exchanging all labels gives the same difference with the other sign.
    smallest = (2 if row.size == baseline.size else 1) / comb(values.size, count)
    return Permutation(share_of_extreme(extreme, exact), smallest if exact else 1 / (draws + 1), exact)


def exchanged_examples(row: ExampleSums, baseline: ExampleSums, draws: int, *purpose: int | str) -> float:
    """The p value of two single runs: without a difference each example's two predictions could be exchanged (Yeh 2000).

    Raises:
        ValueError: if the runs were evaluated on different examples.
    """
    ours, theirs = row.rows, baseline.in_order_of(row.ids).rows
    total, change = ours.sum(axis=0) + theirs.sum(axis=0), theirs - ours
    # Examples that both runs get alike change nothing; the others are exchanged at random.
    change = change[np.any(change != 0, axis=1)]
    random, extreme = generator(*purpose), []
    observed = row.value() - baseline.value()
    for size in _parts(draws, max(1, len(change))):
        exchanged = ours.sum(axis=0) + random.integers(0, 2, size=(size, len(change)), dtype=np.int8).astype(np.float64) @ change
        extreme.append(at_least(row.formula(exchanged) - row.formula(total - exchanged), observed))
    return share_of_extreme(np.concatenate(extreme), exact=False)


def orders(size: int, count: int, draws: int, *purpose: int | str) -> tuple[NDArray[np.int64], bool]:
    """Ways of making the first ``count`` of ``size`` places a group, (ways, size), and whether they are all of them, each once."""
    if comb(size, count) > _ENUMERATED:
        return np.argsort(generator(*purpose).random((draws, size)), axis=1), False
    first = np.array(list(combinations(range(size), count)), dtype=np.int64)
    outside = np.ones((len(first), size), dtype=np.int8)
    np.put_along_axis(outside, first, 0, axis=1)
    return np.argsort(outside, axis=1, kind="stable"), True


def at_least(found: Floats, observed: float) -> NDArray[np.bool_]:
    """Which are as far from zero as the one observed, or further; equal ones count though they be rounded otherwise."""
    extreme: NDArray[np.bool_] = np.abs(found) >= abs(observed) * (1 - _TOLERANCE) - 1e-14
    return extreme


def share_of_extreme(extreme: NDArray[np.bool_], exact: bool) -> float:
    """The p value: the share of all ways; or of those drawn and the one observed."""
    return float(extreme.mean()) if exact else float((extreme.sum() + 1) / (extreme.size + 1))


def _parts(draws: int, examples: int) -> Iterator[int]:
    at_once = max(1, 4_000_000 // examples)
    for first in range(0, draws, at_once):
        yield min(at_once, draws - first)
