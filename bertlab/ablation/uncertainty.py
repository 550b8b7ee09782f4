"""What a mean over seeds, measured on a sample of examples, says about the mean over all seeds and all examples.

Two kinds of luck are in a mean (or a difference of means): which seeds were run, and which examples happen to be in the evaluation set.

*Seeds.* There are few of them, often three. The variance between n independent repetitions estimates theirs, with n - 1 degrees of
freedom; the mean's error is then Student's t times the standard error, an exact statement for normal values and one that does not
pretend to know a variance that two or three numbers cannot tell. Two rows whose seeds do not pair have a variance each, and Welch's
degrees of freedom.

*Examples.* There are many of them. Drawing them again gives the distribution of the mean's error directly. Part of what varies there
is already in the variance between seeds: each run errs on examples of its own. If an example's error is v = c + i / n, with c common to
the repetitions and i each one's own, the variance between repetitions is s² + i; so of the bootstrap variance only c is kept, by
scaling the deviations (this is the analysis of variance of readers × cases: Obuchowski and Rockette 1995, Hillis 2014).

Both are independent, and the distribution of the truth around the estimate is that of their sum (the construction of Behrens and Fisher):
estimate + t · standard error + deviation. It is a hierarchical bootstrap whose level of seeds draws from Student's t. For seeds that pair
its 95% intervals cover 95 to 99% in simulations. The usual shortcut, the sum of both variances with Satterthwaite's degrees of
freedom, takes two seeds that lie close together by chance for a known variance; it and the plain hierarchical bootstrap fall short
where seeds are few (docs/statistics.md has the measurements).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special
from scipy.optimize import brentq

from bertlab.arrays import Floats

_POINTS = 200  # that stand for the distribution of examples, under a Student's t that makes it smooth
_HARDLY = 1e-9  # a deviation of so small a share of the other kind's is none


@dataclass(frozen=True)
class SeedError:
    """The error of a mean over independent repetitions, or of the difference of two."""

    standard_error: float
    degrees: float  # of freedom


@dataclass(frozen=True)
class Uncertainty:
    """Where the truth may be, around an estimate."""

    estimate: float
    seeds: SeedError | None  # None where seeds are not covered
    examples: Floats  # (draws,) deviations due to the examples; () where they are not covered

    @cached_property
    def _seeds_vary(self) -> bool:
        return self.seeds is not None and self.seeds.standard_error > _HARDLY * float(np.abs(self.examples).max(initial=0.0))

    @cached_property
    def _deviations(self) -> tuple[Floats, Floats]:
        """The examples' deviations as points and their weights, both (points,)."""
        if not self.examples.size:
            return np.zeros(1), np.ones(1)
        weights = np.full(self.examples.size, 1 / self.examples.size)
        return _thinned(self.examples, weights) if self._seeds_vary else (self.examples, weights)

    def below(self, value: float) -> float:
        """The share of the distribution that is at or below ``value``."""
        points, weights = self._deviations
        if self.seeds is None or not self._seeds_vary:
            return float(weights[points <= value - self.estimate].sum())
        return float(weights @ special.stdtr(self.seeds.degrees, (value - self.estimate - points) / self.seeds.standard_error))

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """The middle ``level`` of the distribution; None where nothing is covered."""
        if self.seeds is None and not self.examples.size:
            return None
        return self._quantile((1 - level) / 2), self._quantile((1 + level) / 2)

    def p_value(self, value: float = 0.0) -> float:
        """Two-sided: the smallest 1 - level whose interval does not contain ``value``; nan where nothing is covered or nothing varies.

        With the examples drawn again B times it is not below 2 / (B + 1): what is rarer has not been drawn.
        """
        if not self._seeds_vary and not np.ptp(self._deviations[0]):
            covered = self.seeds is not None or self.examples.size > 0
            return 1.0 if covered and self.estimate == value else float("nan")
        at_least = 1 - self.below(value)
        if not self._seeds_vary:
            at_least = float(np.mean(self.examples >= value - self.estimate))
        floor = 2 / (self.examples.size + 1) if self.examples.size and np.ptp(self.examples) else 0.0
        return min(1.0, max(floor, 2 * min(self.below(value), at_least)))

    def _quantile(self, share: float) -> float:
        if self.seeds is None or not self._seeds_vary:
            return self.estimate + float(np.quantile(self._deviations[0], share))
        reach = 3 * self.seeds.standard_error + float(np.abs(self.examples).max(initial=0.0))
        while not self.below(self.estimate - reach) < share < self.below(self.estimate + reach):
            reach *= 4
        ends = self.estimate - reach, self.estimate + reach
        return float(brentq(lambda value: self.below(value) - share, *ends, xtol=1e-8 * reach))


def seed_error(groups: Sequence[Floats], rounding: float = 0.0) -> SeedError:
    """The error of the mean of one group of independent repetitions (n,), n ≥ 2, or of the difference of two groups' means (Welch 1947).

    Welch's degrees of freedom hold well where both groups are of one size. Where the smaller one is of two or three and varies far more
    than the other, the 95% interval covers 91 to 94%.

    ``rounding`` is a variance that repetitions can't be seen to fall below, see ``variance_of``.
    """
    parts = np.array([variance_of(group, rounding) / group.size for group in groups])
    if not parts.sum():
        return SeedError(0.0, float(sum(group.size - 1 for group in groups)))
    shares = parts / parts.sum()
    degrees = 1 / sum(share**2 / (group.size - 1) for share, group in zip(shares, groups, strict=True))
    return SeedError(float(np.sqrt(parts.sum())), float(degrees))


def variance_of(group: Floats, rounding: float = 0.0) -> float:
    """The variance of repetitions (n,) as it is seen, and at least ``rounding``.

    Among E examples a score is a multiple of 1 / E, more or less, so that two seeds in thirty agree to the last digit by chance. That
    tells that they differ by less than a step, not that seeds do not matter: the variance of rounding to steps, 1 / 12 E², is the least.
    """
    return max(float(np.var(group, ddof=1)), rounding)


def common_deviations(groups: Sequence[Floats], mean: Floats) -> Floats:
    """The deviations due to examples (draws,) of a mean over repetitions, without what the variance between repetitions already holds.

    Args:
        groups: for each row whose seeds are covered, its repetitions on resampled examples, (draws, n); or, where seeds are paired, the
            differences of the pairs.
        mean: (draws,) the mean (or difference of means) on the same resamples.
    """
    deviations: Floats = mean - mean.mean()
    total = float(np.mean(deviations**2))
    if total == 0:
        return deviations
    own = sum(_own_variance(group) / group.shape[1] for group in groups if group.shape[1] > 1)
    common: Floats = deviations * np.sqrt(max(0.0, 1 - own / total))
    return common


def _own_variance(group: Floats) -> float:
    """The variance of a repetition's error on examples, less what repetitions have in common; ``group`` is (draws, n)."""
    return float(np.mean(np.var(group - group.mean(axis=0), axis=1, ddof=1)))


def _thinned(points: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """At most ``_POINTS`` points in place of many: the means of groups that are small at both ends and large in the middle."""
    if points.size <= _POINTS:
        return points, weights
    order = np.argsort(points)
    points, weights = points[order], weights[order]
    # In v with share = sin²(π v / 2) equal steps are fine at the ends: the outermost draws stay single.
    shares = np.cumsum(weights) - weights / 2
    group = np.minimum((np.arcsin(np.sqrt(np.clip(shares, 0, 1))) * 2 / np.pi * _POINTS).astype(np.int64), _POINTS - 1)
    mass: Floats = np.bincount(group, weights, _POINTS).astype(np.float64)
    kept = mass > 0
    return np.bincount(group, weights * points, _POINTS)[kept] / mass[kept], mass[kept]
