from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlab.models import dropout
from bertlab.models.dropout import add_dropped, drop, dropped_elements, seed_dropout, standard_normal

torch.set_num_threads(1)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_each_element_is_dropped_at_the_rate_and_independently(rate: float) -> None:
    seed_dropout(1, 2, 3, 4)
    count = 2_000_000
    mask = np.zeros(count)
    mask[dropped_elements(count, rate).numpy()] = 1
    deviation = (rate * (1 - rate)) ** 0.5
    assert mask.mean() == pytest.approx(rate, abs=5 * deviation / count**0.5)
    for distance in (1, 2, 7, 64):  # neighbours, near and far, know nothing of each other
        both = (mask[distance:] * mask[:-distance]).mean()
        assert both == pytest.approx(rate**2, abs=5 * rate / count**0.5)


def test_the_gaps_are_geometric() -> None:
    """Chi-squared over the gaps between dropped elements, against (1 - p)^k p."""
    seed_dropout(5, 0, 0, 0)
    gaps = np.diff(dropped_elements(5_000_000, 0.1).numpy()) - 1
    observed = np.bincount(np.minimum(gaps, 60), minlength=61)
    expected = len(gaps) * 0.1 * 0.9 ** np.arange(61)
    expected[60] = len(gaps) * 0.9**60
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert statistic < 60 + 5 * (2 * 60) ** 0.5


@pytest.mark.parametrize("word", [-(2**31), -(2**31) + 63, -1, 0, 2**24 - 1, 2**31 - 1])
def test_every_random_word_gives_a_finite_gap(monkeypatch: pytest.MonkeyPatch, word: int) -> None:
    monkeypatch.setattr(dropout, "_random_words", lambda count: torch.full((count,), word, dtype=torch.int32))
    found = dropped_elements(1000, 0.1)
    assert found.diff().unique().numel() <= 1  # equal words, equal gaps
    assert all(0 <= index < 1000 for index in found.tolist())
    # The longest gap that 24 bits can give: 2^-24 = 0.9^k.
    assert len(found) >= 1000 // 160


@settings(max_examples=50)
@given(st.integers(0, 300), st.floats(0.001, 0.999), st.integers(0, 10**6))
def test_indices_are_ascending_distinct_and_within_bounds(count: int, rate: float, seed: int) -> None:
    seed_dropout(seed, 0, 0, 0)
    dropped = dropped_elements(count, rate)
    assert dropped.dtype == torch.int64
    assert bool((dropped.diff() > 0).all())
    assert dropped.numel() == 0 or (int(dropped[0]) >= 0 and int(dropped[-1]) < count)


def test_the_ends_are_dropped_as_often_as_the_middle() -> None:
    hits = np.zeros(20)
    for seed in range(2000):
        seed_dropout(seed, 0, 0, 0)
        hits[dropped_elements(20, 0.3).numpy()] += 1
    assert np.abs(hits / 2000 - 0.3).max() < 5 * (0.21 / 2000) ** 0.5


def test_the_noise_is_a_function_of_seed_step_place_and_stream() -> None:
    def pattern(*key: int) -> list[int]:
        seed_dropout(*key)
        first, second = dropped_elements(1000, 0.1), dropped_elements(1000, 0.1)
        assert not torch.equal(first, second)  # nothing is used twice
        return torch.cat((first, second)).tolist()

    keys = [(1, 1, 0, 0), (2, 1, 0, 0), (1, 2, 0, 0), (1, 1, 1, 0), (1, 1, 0, 1)]
    assert pattern(*keys[0]) == pattern(*keys[0])
    assert len({tuple(pattern(*key)) for key in keys}) == len(keys)


def test_dropping_scales_what_it_keeps_and_its_gradient_likewise() -> None:
    x = torch.full((300, 40), 3.0, requires_grad=True)
    seed_dropout(0, 0, 0, 0)
    y = drop(x, 0.25, training=True)
    kept = y != 0
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 4.0))
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, kept * (1 / 0.75))


@pytest.mark.parametrize(
    "function", [lambda x: drop(x, 0.3, True), lambda x: add_dropped(x, 2 * x, 0.3, True), lambda x: add_dropped(x.exp(), x, 0.3, True)]
)
def test_gradcheck(function) -> None:
    def seeded(x: torch.Tensor) -> torch.Tensor:
        seed_dropout(7, 0, 0, 0)
        return function(x)

    assert torch.autograd.gradcheck(seeded, torch.randn(9, 5, dtype=torch.float64, requires_grad=True))


def test_adding_what_is_dropped_is_adding_and_dropping() -> None:
    x, update = torch.randn(50, 16), torch.randn(50, 16)
    before = x.clone(), update.clone()
    seed_dropout(3, 0, 0, 0)
    expected = x + drop(update, 0.2, training=True)
    seed_dropout(3, 0, 0, 0)
    torch.testing.assert_close(add_dropped(x, update, 0.2, training=True), expected)
    assert torch.equal(x, before[0])  # neither is written to
    assert torch.equal(update, before[1])


def test_no_training_no_noise() -> None:
    x = torch.randn(4, 4)
    assert torch.equal(drop(x, 0.5, training=False), x)
    assert torch.equal(drop(x, 0.0, training=True), x)
    assert torch.equal(add_dropped(x, x, 0.5, training=False), 2 * x)


def test_normal_numbers_are_normal_and_follow_the_seed() -> None:
    seed_dropout(1, 0, 0, 0)
    noise = standard_normal(1000, 200, torch.empty(1))
    seed_dropout(1, 0, 0, 0)
    assert torch.equal(noise, standard_normal(1000, 200, torch.empty(1)))
    assert noise.mean().item() == pytest.approx(0, abs=5 / 200_000**0.5)
    assert noise.var().item() == pytest.approx(1, abs=5 * (2 / 200_000) ** 0.5)
    assert (noise**4).mean().item() == pytest.approx(3, abs=0.1)
