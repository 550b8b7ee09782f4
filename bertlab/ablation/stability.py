"""Variance as a result: how much the outcome depends on the seed, and how often a run fails.

Fine-tuning on small data now and then collapses, so values are not normal, and what is right for normal values (the chi-square interval
of a deviation, the F test of two variances) is wrong here: in simulations with collapses the F test finds a difference between the
variances of every fifth pair of equal rows (docs/statistics.md). Bonett's interval and the permuted Brown-Forsythe statistic keep far
closer to what they promise, and are nearly as sharp on normal values. No method sees a collapse that the seeds at hand did not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from bertlab.ablation.permutation import Permutation, at_least, orders, share_of_extreme
from bertlab.arrays import Floats

_FEWEST_FOR_BONETT = 5  # values: with four or fewer their kurtosis says nothing


@dataclass(frozen=True)
class Deviation:
    """A standard deviation over runs."""

    value: float
    interval: tuple[float, float] | None  # of 95%; None where all values are equal, which does not show that others would be


@dataclass(frozen=True)
class Failures:
    """How many of the runs failed (or were degenerate), and the 95% interval of the probability that one does (Clopper-Pearson)."""

    count: int
    runs: int
    low: float
    high: float


def deviation(values: Floats, level: float = 0.95) -> Deviation | None:
    """The standard deviation of ``values`` (n,) and its interval; None with fewer than two values.

    From five values on it is Bonett's (2006), which takes the kurtosis into account; below, chi-square's, which holds for normal ones.
    Equal values have none: both formulas would give one without any width.
    """
    count = values.size
    if count < 2:
        return None
    if np.ptp(values) == 0:
        return Deviation(0.0, None)
    variance = float(np.var(values, ddof=1))
    if count < _FEWEST_FOR_BONETT:
        quantiles = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], count - 1)
        low, high = np.sqrt(variance * (count - 1) / quantiles)
        return Deviation(variance**0.5, (float(low), float(high)))
    quantile = float(stats.norm.ppf((1 + level) / 2))
    correction = count / (count - quantile)
    middle = stats.trim_mean(values, 1 / (2 * np.sqrt(count - 4)) if count > 5 else 0.4)
    kurtosis = count * np.sum((values - middle) ** 4) / np.sum((values - values.mean()) ** 2) ** 2
    error = correction * np.sqrt(max(0.0, kurtosis - (count - 3) / count) / (count - 1))
    low, high = np.sqrt(correction * variance * np.exp([-quantile * error, quantile * error]))
    return Deviation(variance**0.5, (float(low), float(high)))


def failures(count: int, runs: int, level: float = 0.95) -> Failures | None:
    """The interval of a probability of which ``count`` of ``runs`` were seen; None without runs."""
    if runs == 0:
        return None
    interval = stats.binomtest(count, runs).proportion_ci(level, method="exact")
    return Failures(count, runs, float(interval.low), float(interval.high))


def compare_deviations(row: Floats, baseline: Floats, draws: int, *purpose: int | str) -> Permutation | None:
    """Whether two rows' values vary differently: Brown and Forsythe's statistic, its distribution by permutation.

    The values, each less its row's median, are exchanged between the rows, and the statistic is computed anew. None with fewer than two
    values in a row. With three in each it can hardly find anything; ten are a start.
    """
    if min(row.size, baseline.size) < 2:
        return None
    residuals = np.concatenate([row - np.median(row), baseline - np.median(baseline)])
    order, exact = orders(residuals.size, row.size, draws, *purpose)
    observed = float(_brown_forsythe(residuals[None, :], row.size)[0])
    statistics = _brown_forsythe(residuals[order], row.size)
    extreme = at_least(statistics, observed)
    smallest = float(at_least(statistics, float(statistics.max())).mean()) if exact else 1 / (draws + 1)
    return Permutation(share_of_extreme(extreme, exact), smallest, exact)


def _brown_forsythe(values: Floats, count: int) -> Floats:
    """Student's t, without a sign, of the distances from each group's median; (ways, n), the first ``count`` a group, → (ways,)."""
    parts = [values[:, :count], values[:, count:]]
    distances = [np.abs(part - np.median(part, axis=1, keepdims=True)) for part in parts]
    first, second = (part.mean(axis=1) for part in distances)
    squares = sum(np.sum((part - part.mean(axis=1, keepdims=True)) ** 2, axis=1) for part in distances)
    error = np.sqrt(squares / (values.shape[1] - 2) * (1 / count + 1 / (values.shape[1] - count)))
    difference = np.abs(first - second)
    found: Floats = np.where(difference == 0, 0.0, difference / np.maximum(error, 1e-300))
    return found
