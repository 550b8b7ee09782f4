from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlab.data.randomness import below, derive, mix, permute, uniform


def chi_square_bound(degrees: int) -> float:
    """Exceeded by chance once in some millions (Wilson and Hilferty's approximation at five standard deviations)."""
    return degrees * (1 - 2 / (9 * degrees) + 5 * (2 / (9 * degrees)) ** 0.5) ** 3


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def permutation(key: int, size: int) -> np.ndarray:
    index = np.arange(size)
    return permute(np.full(size, key, np.uint64), index, np.full(size, size))


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]),
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
    ],
)
def test_mix_gives_the_published_outputs_of_splitmix64(seed, expected):
    assert mix(np.uint64(seed), np.arange(len(expected))).tolist() == expected


def test_mix_broadcasts_keys_against_counters():
    keys, counters = np.array([3, 8], np.uint64), np.arange(5)
    table = mix(keys[:, None], counters)
    for row, key in zip(table, keys, strict=True):
        assert row.tolist() == mix(key, counters).tolist()


def test_mix_leaves_its_counters_alone():
    counters = np.arange(4, dtype=np.uint64)
    mix(np.uint64(1), counters)
    assert counters.tolist() == [0, 1, 2, 3]


def test_neighbouring_keys_and_counters_share_no_bits():
    bits = mix(mix(np.uint64(9), np.arange(400)[:, None]), np.arange(400))
    assert np.unique(bits).size == bits.size
    differing = [bin(int(a) ^ int(b)).count("1") for a, b in itertools.pairwise(bits.ravel()[:20000])]
    assert abs(np.mean(differing) - 32) < 5 * 4 / 20000**0.5  # 64 fair bits: a standard deviation of 4


def test_derive_tells_parts_apart():
    keys = [
        derive(1, "a", 2),
        derive(2, "a", 1),
        derive(1, "a2"),
        derive("1", "a", 2),
        derive(1, "a", 2, 0),
        derive(12, "a"),
        derive(1, "b", 2),
    ]
    assert len({int(key) for key in keys}) == len(keys)
    assert derive(1, "a", 2) == keys[0]


def test_uniform_is_in_the_unit_interval_and_even():
    extremes = uniform(np.array([0, 2**64 - 1], np.uint64))
    assert extremes[0] == 0
    assert extremes[1] == 1 - 2.0**-53
    draws = uniform(mix(derive("uniform"), np.arange(100_000)))
    assert chi_square(np.bincount((draws * 50).astype(int), minlength=50)) < chi_square_bound(49)


@given(st.integers(1, 2**40))
def test_below_never_reaches_its_bound(bound):
    drawn = below(np.array([0, 2**63, 2**64 - 1], np.uint64), bound)
    assert drawn[0] == 0
    assert drawn[1] == bound // 2
    assert drawn[2] == bound - 1


@pytest.mark.parametrize("bound", [2, 3, 7, 100])
def test_below_is_even(bound):
    drawn = below(mix(derive("below"), np.arange(50_000)), bound)
    assert chi_square(np.bincount(drawn, minlength=bound)) < chi_square_bound(bound - 1)


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
@settings(max_examples=150)
def test_permute_is_a_bijection(size, key):
    assert np.array_equal(np.sort(permutation(key, size)), np.arange(size))


def test_permute_is_a_bijection_near_squares_and_powers():
    for size in {n + d for n in [4, 9, 16, 64, 100, 256, 1024, 2500, 4096] for d in (-1, 0, 1)}:
        assert np.array_equal(np.sort(permutation(7, size)), np.arange(size)), size


def test_permute_stays_inside_a_large_range_without_repeating():
    size = 30_000_000_000
    index = np.arange(0, size, size // 10_000)
    image = permute(np.full(index.size, 5, np.uint64), index, np.full(index.size, size))
    assert image.min() >= 0
    assert image.max() < size
    assert np.unique(image).size == index.size
    assert chi_square(np.bincount(image * 20 // size, minlength=20)) < chi_square_bound(19)


def test_permute_of_mixed_keys_and_sizes_equals_each_by_itself():
    keys, sizes = np.array([1, 1, 2, 2, 9], np.uint64), np.array([10, 11, 10, 1000, 1])
    index = np.array([3, 3, 3, 3, 0])
    together = permute(keys, index, sizes)
    alone = [permute(keys[n : n + 1], index[n : n + 1], sizes[n : n + 1])[0] for n in range(5)]
    assert together.tolist() == alone


@pytest.mark.parametrize("size", [2, 3, 5, 8, 12, 30])
def test_permute_sends_every_pair_of_places_everywhere(size):
    """Over many keys, the images of two neighbours are even over all ordered pairs of different values."""
    keys = mix(derive("pairs"), np.arange(40_000))
    sizes = np.full(keys.size, size)
    first, second = (permute(keys, np.full(keys.size, place), sizes) for place in (0, 1))
    counts = np.bincount(first * size + second, minlength=size * size).reshape(size, size)
    assert np.trace(counts) == 0
    off_diagonal = counts[~np.eye(size, dtype=bool)]
    assert chi_square(off_diagonal) < chi_square_bound(max(off_diagonal.size - 1, 1))


def test_different_keys_give_unrelated_orders():
    first, second = permutation(1, 2000), permutation(2, 2000)
    assert np.count_nonzero(first == second) < 12  # one is expected
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / 2000**0.5
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 5 / 2000**0.5
