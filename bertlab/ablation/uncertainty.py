"""What a mean over seeds, measured on a sample of examples, says about the mean over all seeds and all examples.

Two kinds of luck are in a mean (or a difference of means): which seeds were run, and which examples happen to be in the evaluation set.

*Seeds.* There are few of them, often three. The variance between n independent repetitions estimates theirs, with n - 1 degrees of
freedom; the mean's error is then Student's t times the standard error, an exact statement for normal values and one that does not
pretend to know a variance that two or three numbers cannot tell.

*Examples.* There are many of them. Drawing them again gives the distribution of the mean's error directly. Part of what varies there
is already in the variance between seeds: each run errs on examples of its own. If an example's error is v = c + i / n, with c common to
the repetitions and i each one's own, the variance between repetitions is s² + i; so of the bootstrap variance only c is kept, by
scaling the deviations (this is the analysis of variance of readers × cases: Obuchowski and Rockette 1995, Hillis 2014).

Both are independent, and the distribution of the truth around the estimate is that of their sum, the Behrens-Fisher construction (Fisher
1935): estimate + Σ tₖ · standard errorₖ + deviation. It is a hierarchical bootstrap whose level of seeds draws from Student's t. In
simulations its 95% intervals cover 95 to 99%; the sum of variances with Satterthwaite's degrees of freedom, the usual shortcut,
covers 87 to 95% at two seeds, and the plain hierarchical bootstrap 60 to 94% (docs/statistics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

Floats = NDArray[np.float64]

_POINTS = 200  # that stand for the distribution of examples, under a Student's t that makes it smooth
_NODES = 64  # of the integration over a second Student's t
_HARDLY = 1e-9  # a standard error of so small a share of the other one is none


@dataclass(frozen=True)
class SeedError:
    """The error of a mean over independent repetitions."""

    standard_error: float
    degrees: int


@dataclass(frozen=True)
class Uncertainty:
    """Where the truth may be, around an estimate."""

    estimate: float
    seeds: tuple[SeedError, ...]  # of one row's (or of the differences') repetitions, or of both rows'; () where seeds are not covered
    examples: Floats  # (draws,) deviations due to the examples; () where they are not covered

    @cached_property
    def _errors(self) -> list[SeedError]:
        found = sorted(self.seeds, key=lambda error: -error.standard_error)
        return [error for error in found if error.standard_error > _HARDLY * found[0].standard_error]

    @cached_property
    def _others(self) -> tuple[Floats, Floats]:
        """Everything but the largest of the seeds' errors, as points and their weights, both (points,)."""
        points, weights = self.examples, np.full(self.examples.size, 1 / max(1, self.examples.size))
        if points.size == 0:
            points, weights = np.zeros(1), np.ones(1)
        if self._errors:
            points, weights = _thinned(points, weights)
        if len(self._errors) > 1:
            quantiles, shares = _student_nodes(self._errors[1].degrees)
            points = (points[:, None] + self._errors[1].standard_error * quantiles).ravel()
            points, weights = _thinned(points, (weights[:, None] * shares).ravel())
        return points, weights

    def below(self, value: float) -> float:
        """The share of the distribution that is at or below ``value``."""
        points, weights = self._others
        if not self._errors:
            return float(weights[points <= value - self.estimate].sum())
        first = self._errors[0]
        return float(weights @ special.stdtr(first.degrees, (value - self.estimate - points) / first.standard_error))

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """The middle ``level`` of the distribution; None where nothing is covered."""
        if not self.seeds and not self.examples.size:
            return None
        return self._quantile((1 - level) / 2), self._quantile((1 + level) / 2)

    def p_value(self, value: float = 0.0) -> float:
        """Two-sided: the smallest 1 - level whose interval does not contain ``value``; nan where nothing is covered or nothing varies.

        With the examples drawn again B times it is not below 2 / (B + 1): what is rarer has not been drawn.
        """
        points, weights = self._others
        if not self._errors and np.ptp(points) == 0:
            return 1.0 if (self.seeds or self.examples.size) and self.estimate == value else float("nan")
        above = 1 - self.below(value)
        if not self._errors:
            above = float(weights[points >= value - self.estimate].sum())
        varies = self.examples.size > 1 and np.ptp(self.examples) > 0
        floor = 2 / (self.examples.size + 1) if varies else 0.0
        return min(1.0, max(floor, 2 * min(self.below(value), above)))

    def _quantile(self, share: float) -> float:
        if not self._errors:
            points, _ = self._others
            return self.estimate + float(np.quantile(points, share))
        reach = 1.0 + sum(error.standard_error for error in self._errors) + float(np.abs(self.examples).max(initial=0.0))
        while not self.below(self.estimate - reach) < share < self.below(self.estimate + reach):
            reach *= 4
        return float(brentq(lambda value: self.below(value) - share, self.estimate - reach, self.estimate + reach, xtol=1e-10))


def seed_error(values: Floats) -> SeedError:
    """The error of the mean of independent repetitions, (n,) with n of at least 2."""
    return SeedError(float(np.std(values, ddof=1) / np.sqrt(values.size)), values.size - 1)


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
    shares = np.cumsum(weights) - weights / 2
    group = np.minimum((np.arcsin(np.sqrt(np.clip(shares, 0, 1))) * 2 / np.pi * _POINTS).astype(np.int64), _POINTS - 1)
    mass: Floats = np.bincount(group, weights, _POINTS).astype(np.float64)
    kept = mass > 0
    return np.bincount(group, weights * points, _POINTS)[kept] / mass[kept], mass[kept]


def _student_nodes(degrees: int) -> tuple[Floats, Floats]:
    """Quantiles of Student's t and their weights, densest in the tails: Gauss-Legendre in v, the share being sin²(π v / 2)."""
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    angle = np.pi * (places + 1) / 4
    shares = weights * np.pi / 4 * np.sin(2 * angle)
    low = special.stdtrit(degrees, np.sin(np.minimum(angle, np.pi / 2 - angle)) ** 2)  # from the lower tail, where no digit is lost
    return np.where(angle <= np.pi / 4, low, -low), shares / shares.sum()
