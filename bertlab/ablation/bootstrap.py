"""Drawing evaluation examples again with replacement.

``resampled`` evaluates every run of a column on the same resampled evaluation sets, so that differences between runs keep what their
common examples share. Seeds are not drawn again: with few of them such an interval is far too narrow (benchmarks/plain_bootstrap.py),
and verdicts rest on ``uncertainty``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertlab.ablation.example_sums import ExampleSums
from bertlab.arrays import Floats
from bertlab.data.randomness import derive

_COUNTS_AT_ONCE = 4_000_000  # of examples in resamples, 8 bytes each


def generator(*purpose: int | str) -> np.random.Generator:
    """Random numbers that belong to a purpose: the counter-based Philox generator under a key made of the parts."""
    return np.random.Generator(np.random.Philox(key=int(derive(*purpose))))


def resampled(runs: Sequence[ExampleSums], draws: int, *purpose: int | str) -> Floats:
    """The metric of each run on each of ``draws`` resampled evaluation sets, (draws, runs).

    Raises:
        ValueError: if the runs were evaluated on different examples, or by different metrics.
    """
    examples = len(runs[0].ids)
    at_once = max(1, _COUNTS_AT_ONCE // examples)
    random = generator(*purpose)
    parts = [min(at_once, draws - first) for first in range(0, draws, at_once)]
    return np.concatenate([metrics_on(runs, resample_counts(random, part, examples)) for part in parts])


def metrics_on(runs: Sequence[ExampleSums], counts: Floats) -> Floats:
    """The metric of each run where each example is counted as often as ``counts`` (draws, examples) say, (draws, runs)."""
    if any(run.formula is not runs[0].formula for run in runs):
        raise ValueError("the runs of a column have different metrics")
    aligned = [run.in_order_of(runs[0].ids).rows for run in runs]  # each (E, K)
    totals = counts @ np.concatenate(aligned, axis=1)  # (draws, runs * K)
    return runs[0].formula(totals.reshape(len(counts), len(runs), -1))


def resample_counts(random: np.random.Generator, draws: int, examples: int) -> Floats:
    """How often each example is in each resample, (draws, examples); rows add up to ``examples``."""
    chosen = random.integers(0, examples, size=(draws, examples), dtype=np.int64)
    chosen += (np.arange(draws, dtype=np.int64) * examples)[:, None]
    return np.bincount(chosen.ravel(), minlength=draws * examples).reshape(draws, examples).astype(np.float64)
