from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlab.models import cross_entropy
from bertlab.models.cross_entropy import linear_cross_entropy

torch.set_num_threads(1)


def problem(
    rows: int, width: int, vocabulary: int, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    states = (torch.randn(rows, width, generator=generator, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(vocabulary, width, generator=generator, dtype=dtype).requires_grad_()
    bias = torch.randn(vocabulary, generator=generator, dtype=dtype).requires_grad_()
    return states, weight, bias, torch.randint(vocabulary, (rows,), generator=generator)


@settings(max_examples=30)
@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(2, 50),
    st.integers(1, 200),
    st.integers(1, 90),
    st.integers(0, 1000),
    st.floats(0.1, 100),
)
def test_loss_and_gradients_are_pytorchs(
    rows: int, width: int, vocabulary: int, chunk: int, block: int, seed: int, denominator: float
) -> None:
    states, weight, bias, targets = problem(rows, width, vocabulary, seed)
    expected = F.cross_entropy(F.linear(states, weight, bias), targets, reduction="sum") / denominator
    wanted = torch.autograd.grad(expected, (states, weight, bias))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "CHUNK_ON_CPU", chunk)
        patch.setattr(cross_entropy, "BLOCK_ON_CPU", block)
        loss, correct = linear_cross_entropy(states, weight, bias, targets, denominator)
    torch.testing.assert_close(loss, expected)
    for found, want in zip(torch.autograd.grad(loss, (states, weight, bias)), wanted, strict=True):
        torch.testing.assert_close(found, want)
    assert correct == (F.linear(states, weight, bias).argmax(1) == targets).sum()


def test_a_scaled_loss_has_scaled_gradients() -> None:
    states, weight, bias, targets = problem(7, 5, 11, 0)
    once = torch.autograd.grad(linear_cross_entropy(states, weight, bias, targets, 3.0)[0], (states, weight, bias))
    thrice = torch.autograd.grad(3 * linear_cross_entropy(states, weight, bias, targets, 3.0)[0], (states, weight, bias))
    for small, large in zip(once, thrice, strict=True):
        torch.testing.assert_close(3 * small, large)


def test_a_second_gradient_of_the_same_loss_is_refused() -> None:
    states, weight, bias, targets = problem(6, 3, 7, 1)
    loss, _ = linear_cross_entropy(states, weight, bias, targets, 4.0)
    torch.autograd.grad(loss, states, retain_graph=True)
    with pytest.raises(RuntimeError, match="taken already"):
        torch.autograd.grad(loss, states)


@pytest.mark.parametrize("scale", [1e3, 1e5])
def test_logits_far_apart_neither_overflow_nor_lose_the_loss(scale: float) -> None:
    """A diverging model's loss is reported as it is, not as infinity."""
    states, weight, bias, targets = problem(9, 4, 13, 2, scale, torch.float32)
    loss, _ = linear_cross_entropy(states, weight, bias, targets, 1.0)
    expected = F.cross_entropy(F.linear(states, weight, bias).double(), targets, reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert all(torch.isfinite(each).all() for each in torch.autograd.grad(loss, (states, weight, bias)))


def test_a_uniform_prediction_costs_the_logarithm_of_the_vocabulary() -> None:
    states, weight, bias = torch.zeros(5, 4), torch.randn(32, 4), torch.zeros(32)
    loss, correct = linear_cross_entropy(states, weight, bias, torch.arange(5), 5.0)
    assert loss.item() == pytest.approx(math.log(32), rel=1e-6)
    assert correct == 1  # the first of equals is what such a model says


@settings(max_examples=60)
@given(st.integers(1, 30), st.integers(2, 40), st.integers(1, 90), st.integers(0, 1000))
def test_of_equals_the_first_is_said(rows: int, vocabulary: int, block: int, seed: int) -> None:
    """Logits of few values tie everywhere, within blocks of columns and across them."""
    generator = torch.Generator().manual_seed(seed)
    states, weight = torch.ones(rows, 1), torch.randint(2, (vocabulary, 1), generator=generator).float()
    bias, targets = torch.randint(2, (vocabulary,), generator=generator).float(), torch.randint(vocabulary, (rows,), generator=generator)
    targets[0] = F.linear(states, weight, bias)[0].argmax()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "BLOCK_ON_CPU", block)
        _, correct = linear_cross_entropy(states, weight, bias, targets, 1.0)
    assert correct == (F.linear(states, weight, bias).argmax(1) == targets).sum() > 0


def test_no_prediction_is_no_loss() -> None:
    states, weight, bias, _ = problem(0, 4, 13, 2)
    loss, correct = linear_cross_entropy(states, weight, bias, torch.empty(0, dtype=torch.int64), 1.0)
    assert (loss.item(), correct.item()) == (0, 0)
    assert all(not each.any() for each in torch.autograd.grad(loss, (weight, bias)))


def test_evaluation_makes_no_gradients_and_the_same_loss() -> None:
    states, weight, bias, targets = problem(20, 4, 13, 3)
    with torch.no_grad():
        loss, _ = linear_cross_entropy(states, weight, bias, targets, 2.0)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, linear_cross_entropy(states, weight, bias, targets, 2.0)[0].detach())


def test_bfloat16_products_stay_near_fp32() -> None:
    states, weight, bias, targets = problem(64, 32, 500, 4, 0.3, torch.float32)
    exact, _ = linear_cross_entropy(states, weight, bias, targets, 64.0)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, _ = linear_cross_entropy(states, weight, bias, targets, 64.0)
    assert rounded.dtype == torch.float32
    assert rounded.item() == pytest.approx(exact.item(), rel=1e-2)
    for low, high in zip(
        torch.autograd.grad(rounded, (states, weight, bias)), torch.autograd.grad(exact, (states, weight, bias)), strict=True
    ):
        assert low.dtype == torch.float32
        assert (low - high).norm() < 0.02 * high.norm()
