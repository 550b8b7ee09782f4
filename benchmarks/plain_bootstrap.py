"""The plain hierarchical bootstrap, which coverage.py sets beside the intervals that bertlab gives; nothing else uses it.

It draws seeds again as well as examples. With few seeds its percentile interval is far too narrow: the variance among n drawn with
replacement is (n - 1) / n of what it should be, and the normal tail stands where Student's would belong. At three seeds it covers some 80%
and not 95%.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertlab.ablation.bootstrap import generator

Floats = NDArray[np.float64]


def hierarchical_bootstrap(values: Floats, groups: Sequence[int], *purpose: int | str) -> Floats:
    """Means of a row when pretrainings, and the fine-tunings of each, are drawn again with replacement, (draws,).

    Two rows given the same purpose and the same groups get the same draws: their difference is then a bootstrap paired by seed.

    Args:
        values: (draws, runs) what ``resampled`` gives, so that examples are drawn again as well; or a constant row of the runs' values.
        groups: (runs,) which pretraining each run comes from.
        purpose: the parts of the random numbers' key.
    """
    random = generator(*purpose)
    draws = len(values)
    _, group, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")  # the runs, group by group
    first = np.cumsum(sizes) - sizes
    places = np.arange(sizes.max())
    total = np.zeros(draws)
    for _ in sizes:
        chosen = random.integers(0, sizes.size, size=(draws, 1))  # a pretraining,
        within = (random.random((draws, sizes.max())) * sizes[chosen]).astype(np.int64)  # and as many of its fine-tunings as it has
        picked = np.take_along_axis(values, order[first[chosen] + within], axis=1)
        total += np.where(places < sizes[chosen], picked, 0.0).sum(axis=1) / sizes[chosen[:, 0]]
    return total / sizes.size


def percentile_interval(draws: Floats, level: float = 0.95) -> tuple[float, float]:
    """The middle ``level`` of the draws."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
