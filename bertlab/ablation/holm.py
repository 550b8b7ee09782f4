"""Holm's correction: many comparisons in a table, and still at most 5% of such tables with any false verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Adjusted p values, in the order given: those at most α are significant at a family-wise error rate of α (Holm 1979).

    The k-th smallest of m (from 0) is multiplied by m - k, and none may fall below a smaller one's. Entries that are nan (comparisons
    that could not be made) do not count and stay nan.
    """
    given = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(given.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(given))
    order = tested[np.argsort(given[tested], kind="stable")]
    factors = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(given[order] * factors), 1.0)
    return adjusted
