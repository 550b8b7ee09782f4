from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bertlab.ablation.power import MOST, power, seeds_for, seeds_needed, smallest_difference
from bertlab.ablation.uncertainty import Uncertainty, seed_error


@pytest.mark.parametrize("seeds", [2, 3, 5, 10, 40])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_without_examples_it_is_the_power_of_the_t_test(seeds: int, alpha: float) -> None:
    for effect in (0.3, 1.0, 3.0):
        critical = stats.t.ppf(1 - alpha / 2, seeds - 1)
        exact = stats.nct.sf(critical, seeds - 1, effect * np.sqrt(seeds)) + stats.nct.cdf(-critical, seeds - 1, effect * np.sqrt(seeds))
        assert power(effect * 0.02, [0.02**2], 0.0, seeds, alpha) == pytest.approx(exact, abs=0.012)


def test_without_seeds_it_is_the_power_of_the_normal_test() -> None:
    exact = stats.norm.sf(1.96 - 2.8) + stats.norm.cdf(-1.96 - 2.8)
    assert power(2.8, [], 1.0, 5) == pytest.approx(exact, abs=1e-4)
    assert power(2.8, [1e-12], 1.0, 5) == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize(("seeds", "variances", "examples"), [(3, [1.0], 0.2), (5, [0.6, 1.4], 0.1), (10, [1.0], 0.3)])
def test_it_is_how_often_the_test_finds_the_difference(seeds: int, variances: list[float], examples: float) -> None:
    """The verdict's own test, on normal values: what is approximate in the formula is within the simulation's error."""
    random, repetitions, difference = np.random.default_rng(seeds), 600, 2.0
    deviations = np.sqrt(examples) * stats.norm.ppf((np.arange(400) + 0.5) / 400)
    found = 0
    for _ in range(repetitions):
        groups = [random.normal(0, np.sqrt(variance), seeds) for variance in variances]
        estimate = difference + groups[0].mean() - sum(group.mean() for group in groups[1:]) + random.normal(0, np.sqrt(examples))
        found += Uncertainty(float(estimate), seed_error(groups), deviations).p_value() <= 0.05
    expected = power(difference, variances, examples, seeds)
    assert found / repetitions == pytest.approx(expected, abs=3.5 * np.sqrt(expected * (1 - expected) / repetitions) + 0.02)


def test_the_number_of_seeds_is_the_smallest_that_suffices() -> None:
    for difference in (0.5, 1.0, 2.0, 40.0):  # the last of which two seeds find
        seeds = seeds_for(difference, [1.0], 0.01)
        assert seeds is not None
        assert power(difference, [1.0], 0.01, seeds) >= 0.8
        assert seeds == 2 or power(difference, [1.0], 0.01, seeds - 1) < 0.8
        assert (seeds == 2) == (difference == 40)


def test_a_known_sample_size() -> None:
    """The paired t test needs 34 pairs for half a standard deviation (Cohen 1988, table 2.4.1, two-sided .05, power .80)."""
    assert seeds_for(0.5, [1.0], 0.0) == 34


def test_seeds_cannot_make_up_for_a_small_evaluation_set() -> None:
    found = seeds_needed(1.0, [1.0], 0.5, degrees=2)
    assert found.seeds is None
    assert not found.examples_suffice
    tiny = seeds_needed(0.001, [1.0], 0.0, degrees=2)
    assert tiny.seeds is None
    assert tiny.examples_suffice
    # Three deviations of the examples are found in 85% at .05 (1.96 of them), and in 58% at .005 (2.81).
    at = {alpha: seeds_needed(3.0, [1.0], 1.0, degrees=2, alpha=alpha).examples_suffice for alpha in (0.05, 0.005)}
    assert at == {0.05: True, 0.005: False}


def test_the_range_is_that_of_the_variance() -> None:
    found = seeds_needed(1.0, [1.0], 0.01, degrees=2)
    assert found.low is not None
    assert found.seeds is not None
    assert found.high is not None
    assert found.low < found.seeds < found.high <= MOST
    # The 80% interval of a variance seen with two degrees of freedom runs from 2 / 4.605 to 2 / 0.2107 times it.
    assert found.low == seeds_for(1.0, [2 / 4.605], 0.01)
    assert found.high == seeds_for(1.0, [2 / 0.2107], 0.01)


def test_the_smallest_difference_has_the_power_that_is_wanted() -> None:
    for seeds in (2, 3, 10):
        difference = smallest_difference([1.0, 2.0], 0.1, seeds, 0.01)
        assert power(difference, [1.0, 2.0], 0.1, seeds, 0.01) == pytest.approx(0.8, abs=1e-6)
    assert smallest_difference([0.0], 0.0, 3) == 0
