"""Random numbers without a generator's state: every draw is a function of a key and a counter.

So a batch can be made anywhere, in any order and any number of times, and is always the same. The mixing is that of SplitMix64
(Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"), on whole NumPy arrays.
"""

from __future__ import annotations

import hashlib

import numpy as np

from bertlab.arrays import Floats, Int64s, UInt64s

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE, _ELEVEN = np.uint64(1), np.uint64(11)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)
_FEISTEL_ROUNDS = 4  # with fewer, pairs of images in a range of a few values are visibly uneven


def derive(*parts: int | str) -> np.uint64:
    """A key for the purpose that ``parts`` name, such as ``derive(seed, "masking", 2)``; other parts give an unrelated key."""
    text = "\x1f".join(f"{'s' if isinstance(part, str) else 'i'}{part}" for part in parts)
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little"))


def mix(key: np.uint64 | UInt64s, counters: Int64s | UInt64s) -> UInt64s:
    """64 random bits for each counter: the ``counters``-th outputs (from 0) of the SplitMix64 generators seeded with ``key``.

    Key and counters broadcast against each other. Chained, ``mix(mix(key, i), j)`` gives the bits that belong to the pair (i, j).
    """
    state: UInt64s = counters.astype(np.uint64)
    state += _ONE
    state *= _GOLDEN
    state = state + key
    state ^= state >> _30
    state *= _FIRST
    state ^= state >> _27
    state *= _SECOND
    state ^= state >> _31
    return state


def uniform(bits: UInt64s) -> Floats:
    """Floats in [0, 1), multiples of 2^-53, from 64 random bits each."""
    fractions: Floats = (bits >> _ELEVEN) * np.float64(2.0**-53)
    return fractions


def below(bits: UInt64s, bound: int | Int64s) -> Int64s:
    """Integers in [0, bound) from 64 random bits each.

    The product with a 53-bit fraction is rounded down, so two values' probabilities differ by at most 2^-53: for a bound of a
    billion, one part in ten million of a probability.
    """
    return (uniform(bits) * bound).astype(np.int64)


def permute(key: UInt64s, index: Int64s, size: Int64s) -> Int64s:
    """The image of each ``index`` under the random permutation of range(``size``) that belongs to its ``key``; all are (n,).

    Nothing is tabulated: a Feistel network on pairs (left, right) in Z_a × Z_b, with a * b only just above the size, permutes
    the pairs; the few images past the size are sent through it again until they are inside (cycle walking, Black and Rogaway 2002).
    """
    rows = np.ceil(np.sqrt(size)).astype(np.uint64)  # a
    columns = (size.astype(np.uint64) + rows - _ONE) // rows  # b
    round_keys = mix(key, np.arange(2 * _FEISTEL_ROUNDS)[:, None])  # (2 * rounds, n)
    image = _feistel(round_keys, index.astype(np.uint64), rows, columns)
    outside = np.flatnonzero(image >= size)
    while outside.size:
        image[outside] = _feistel(round_keys[:, outside], image[outside], rows[outside], columns[outside])
        outside = outside[image[outside] >= size[outside]]
    return image.astype(np.int64)


def _feistel(round_keys: UInt64s, value: UInt64s, rows: UInt64s, columns: UInt64s) -> UInt64s:
    left, right = value // columns, value % columns
    for first, second in zip(round_keys[::2], round_keys[1::2], strict=True):
        # Half of the random range, so that the sum does not wrap around: it would no longer be a bijection.
        left = (left + (mix(first, right) >> _ONE)) % rows
        right = (right + (mix(second, left) >> _ONE)) % columns
    return left * columns + right
