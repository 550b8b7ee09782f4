from __future__ import annotations

from math import isnan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bertlab.ablation.holm import holm

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def rejected_step_by_step(p_values: list[float], alpha: float) -> set[int]:
    """Holm's procedure as he wrote it: the smallest at alpha / m, the next at alpha / (m - 1), …, until one is not rejected."""
    left = sorted(range(len(p_values)), key=lambda number: p_values[number])
    rejected = set()
    while left and p_values[left[0]] * len(left) <= alpha:
        rejected.add(left.pop(0))
    return rejected


@given(P_VALUES, st.floats(0.001, 0.999))
def test_adjusted_values_reject_what_the_steps_reject(p_values: list[float], alpha: float) -> None:
    assert {number for number, p_value in enumerate(holm(p_values)) if p_value <= alpha} == rejected_step_by_step(p_values, alpha)


@given(P_VALUES)
def test_comparisons_that_could_not_be_made_do_not_count(p_values: list[float]) -> None:
    with_gaps = [value for p_value in p_values for value in (p_value, float("nan"))]
    np.testing.assert_array_equal(holm(with_gaps)[::2], holm(p_values))
    assert all(isnan(value) for value in holm(with_gaps)[1::2])


def test_none_and_one() -> None:
    assert holm([]).size == 0
    assert holm([0.03]).tolist() == [0.03]
