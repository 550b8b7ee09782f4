"""Variance as a result: how much the outcome depends on the seed, and how often a run fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bertlab.ablation.permutation import Permutation

Floats = NDArray[np.float64]
