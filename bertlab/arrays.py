"""Names for arrays of one type of number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
