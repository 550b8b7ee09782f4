from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from bertlab.ablation.example_sums import ExampleSums, f1, mean
from bertlab.ablation.permutation import exchanged_examples, exchanged_labels, sign_flips


def test_sign_flips_are_those_of_scipy() -> None:
    random = np.random.default_rng(0)
    for size in (2, 3, 5, 8):
        differences = random.normal(0.4, 1, size)
        expected = stats.permutation_test(
            (differences, np.zeros(size)), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", n_resamples=np.inf
        )
        assert sign_flips(differences, 100, "x").p_value == pytest.approx(expected.pvalue)


def test_exchanged_labels_are_those_of_a_slow_count() -> None:
    random = np.random.default_rng(1)
    for first, second in ((3, 3), (2, 4), (5, 4)):
        row, baseline = random.normal(0.5, 1, first), random.normal(0, 1, second)
        values = [*row, *baseline]
        observed, found = abs(row.mean() - baseline.mean()), []
        for chosen in itertools.combinations(range(len(values)), first):
            inside = [values[n] for n in chosen]
            outside = [values[n] for n in range(len(values)) if n not in chosen]
            found.append(abs(np.mean(inside) - np.mean(outside)) >= observed - 1e-12)
        assert exchanged_labels(row, baseline, 100, "x").p_value == pytest.approx(np.mean(found))


@pytest.mark.parametrize("pairs", [2, 3, 6])
def test_the_smallest_p_value_is_reached_by_the_clearest_difference(pairs: int) -> None:
    clear = np.arange(1.0, pairs + 1)
    found = sign_flips(clear, 100, "x")
    assert found.p_value == found.smallest == 2 / 2**pairs
    found = exchanged_labels(clear + 100, clear, 100, "x")
    assert found.p_value == pytest.approx(found.smallest)
    found = exchanged_labels(clear + 100, clear[:-1], 100, "x")
    assert found.p_value == pytest.approx(found.smallest)


def test_three_pairs_say_a_quarter_at_best() -> None:
    assert sign_flips(np.array([5.0, 6.0, 7.0]), 100, "x").p_value == 0.25


def test_rounding_makes_no_difference_between_equal_ones() -> None:
    """0.1 + 0.2 - 0.3 is not 0: eight ways give the same difference but for rounding."""
    assert sign_flips(np.array([0.1, 0.2, -0.3]), 100, "x").p_value == 1


def test_many_pairs_are_sampled_near_the_exact_value() -> None:
    differences = np.random.default_rng(2).normal(0.35, 1, 18)
    found = sign_flips(differences, 20_000, "x")
    signs = 1.0 - 2.0 * ((np.arange(2**18)[:, None] >> np.arange(18)) & 1)
    exact = (np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12).mean()
    assert not found.exact
    assert found.p_value == pytest.approx(exact, abs=5 * np.sqrt(exact / 20_000) + 1e-4)
    assert found == sign_flips(differences, 20_000, "x")


def test_exchanged_examples_of_accuracy_are_mcnemar_s_test() -> None:
    """Only examples that one of the two gets right are exchanged: the exact test is binomial in them."""
    right = np.array([(1, 0)] * 16 + [(0, 1)] * 6 + [(1, 1)] * 40 + [(0, 0)] * 10, dtype=np.float64)
    ids = tuple(map(str, range(len(right))))
    runs = [ExampleSums(mean, ids, right[:, [n]] / len(right)) for n in (0, 1)]
    expected = stats.binomtest(16, 22).pvalue
    found = exchanged_examples(runs[0], runs[1], 40_000, "x")
    assert found == pytest.approx(expected, abs=5 * np.sqrt(expected / 40_000))
    # The same examples in another order, as of predictions that somebody has sorted.
    assert exchanged_examples(runs[0], runs[1].in_order_of(ids[::-1]), 40_000, "x") == found


def test_exchanged_examples_are_those_of_a_slow_loop() -> None:
    random = np.random.default_rng(3)
    gold = random.random(60) < 0.5
    said = [np.where(random.random(60) < quality, gold, ~gold) for quality in (0.85, 0.6)]
    ids = tuple(map(str, range(60)))
    sums = [ExampleSums(f1, ids, np.stack([gold & one, gold, one], axis=1).astype(float)) for one in said]

    def score(one: np.ndarray) -> float:
        return 2 * (gold & one).sum() / (gold.sum() + one.sum())

    observed, extreme = abs(score(said[0]) - score(said[1])), 0
    for _ in range(3000):
        swap = random.random(60) < 0.5
        extreme += abs(score(np.where(swap, said[1], said[0])) - score(np.where(swap, said[0], said[1]))) >= observed - 1e-12
    share = (extreme + 1) / 3001
    assert exchanged_examples(sums[0], sums[1], 3000, "x") == pytest.approx(share, abs=7 * np.sqrt(share / 3000))


def test_what_is_drawn_at_random_has_no_p_value_of_zero() -> None:
    """The exchange that was seen counts among those that were tried, none of which is as extreme."""
    found = sign_flips(np.arange(1.0, 41.0), 100, "x")
    assert found.p_value == found.smallest == 1 / 101
    runs = [ExampleSums(mean, tuple(map(str, range(40))), np.full((40, 1), value)) for value in (0.0, 1 / 40)]
    assert exchanged_examples(runs[0], runs[1], 100, "x") == 1 / 101


def test_two_runs_alike_do_not_differ() -> None:
    run = ExampleSums(mean, ("a", "b"), np.array([[0.5], [0.0]]))
    assert exchanged_examples(run, run, 100, "x") == 1
