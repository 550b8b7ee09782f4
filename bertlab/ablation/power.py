"""How many seeds would resolve a difference, given how much seeds and examples vary.

The answer is about the test that gives the verdict (``uncertainty``), whose half-width at n seeds is close to
√(t² s² / n + z² c), with s² the variance between seeds as it is seen (the sum of two where rows are not paired), c the part of the
examples' variance that seeds do not take away, and t and z the quantiles of Student's t and of the normal distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

MOST = 1000  # seeds: whoever needs more needs another experiment
_NODES = 60  # quantiles of the variance that n seeds may show


@dataclass(frozen=True)
class SeedsNeeded:
    """The number of seeds (of each row) for a difference as large as the one seen; None: more than ``MOST``, or no number is enough.

    ``low`` and ``high`` say how well that is known: the variance between few seeds is itself uncertain, and they are the answers at
    the ends of its 80% interval.
    """

    seeds: int | None
    low: int | None
    high: int | None
    examples_suffice: bool  # False: the evaluation set is too small for this difference, whatever the number of seeds


def power(difference: float, seed_variances: Sequence[float], example_variance: float, seeds: int, alpha: float = 0.05) -> float:
    """The probability that ``seeds`` seeds of each row resolve a true ``difference`` at level ``alpha``.

    Args:
        difference: of the rows.
        seed_variances: one, of the pairs' differences, or two, of the rows' repetitions.
        example_variance: of the difference, due to examples.
        seeds: at least 2.
        alpha: of the two-sided test.
    """
    shares = (np.arange(_NODES) + 0.5) / _NODES
    factors = 2 * special.gammaincinv((seeds - 1) / 2, shares) / (seeds - 1)  # a variance as n seeds show it, over the true one
    seen = [variance / seeds * factors.reshape(-1, *[1] * place) for place, variance in enumerate(seed_variances)]
    total = np.asarray(sum(seen, np.zeros(1)))
    squares = np.asarray(sum((part**2 for part in seen), np.zeros(1)))
    degrees = (seeds - 1) * np.divide(total**2, squares, out=np.ones_like(total), where=squares > 0)  # Welch's, where there are two
    student = special.stdtrit(degrees, 1 - alpha / 2)
    normal = float(special.ndtri(1 - alpha / 2))
    half_width = np.sqrt(student**2 * total + normal**2 * example_variance)
    deviation = np.sqrt(sum(seed_variances) / seeds + example_variance)
    if deviation == 0:
        return float(difference != 0)
    resolved = special.ndtr((difference - half_width) / deviation) + special.ndtr((-difference - half_width) / deviation)
    return float(resolved.mean())


def seeds_for(
    difference: float, seed_variances: Sequence[float], example_variance: float, alpha: float = 0.05, wanted: float = 0.8
) -> int | None:
    """The smallest number of seeds whose power is ``wanted``; None above ``MOST``."""
    if power(difference, seed_variances, example_variance, MOST, alpha) < wanted:
        return None
    low, high = 1, MOST  # power grows with the number of seeds
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(difference, seed_variances, example_variance, middle, alpha) >= wanted else (middle, high)
    return high


def seeds_needed(
    difference: float,
    seed_variances: Sequence[float],
    example_variance: float,
    degrees: int,
    alpha: float = 0.05,
    wanted: float = 0.8,
) -> SeedsNeeded:
    """``seeds_for`` with the uncertainty of the variances, which were estimated with ``degrees`` degrees of freedom."""
    ends = degrees / stats.chi2.ppf([0.9, 0.1], degrees)
    low, middle, high = (
        seeds_for(difference, [variance * factor for variance in seed_variances], example_variance, alpha, wanted)
        for factor in (ends[0], 1.0, ends[1])
    )
    return SeedsNeeded(middle, low, high, power(difference, (), example_variance, MOST, alpha) >= wanted)


def smallest_difference(
    seed_variances: Sequence[float], example_variance: float, seeds: int, alpha: float = 0.05, wanted: float = 0.8
) -> float:
    """The true difference that ``seeds`` seeds resolve with the probability ``wanted``."""
    deviation = float(np.sqrt(sum(seed_variances) / seeds + example_variance))
    low, high = 0.0, deviation
    while high > 0 and power(high, seed_variances, example_variance, seeds, alpha) < wanted:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, seed_variances, example_variance, seeds, alpha) >= wanted else (middle, high)
    return high
