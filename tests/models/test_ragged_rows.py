from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertlab.models.ragged_rows import RaggedRows

torch.set_num_threads(1)
LENGTHS = [3, 1, 5, 2]


def ragged(lengths: list[int]) -> RaggedRows:
    return RaggedRows.of_lengths(torch.tensor(lengths), sum(lengths))


@settings(max_examples=50)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6), seed=st.integers(0, 1000), width=st.integers(0, 3))
def test_each_part_is_what_it_is_alone(lengths: list[int], seed: int, width: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(sum(lengths), *[width] * (width > 0), dtype=torch.float64) * 30
    parts, found = x.split(lengths), ragged(lengths)
    torch.testing.assert_close(found.sum(x), torch.stack([part.sum(0) for part in parts]))
    torch.testing.assert_close(found.mean(x), torch.stack([part.mean(0) for part in parts]))
    torch.testing.assert_close(found.max(x), torch.stack([part.amax(0) for part in parts]))
    torch.testing.assert_close(found.log_softmax(x), torch.cat([part.log_softmax(0) for part in parts]))
    if width == 0:
        assert found.argmax(x).tolist() == [int(part.argmax()) for part in parts]


@pytest.mark.parametrize("shape", [(11,), (11, 2)])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "log_softmax"])
def test_gradients(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    function: Callable[[Tensor], Tensor] = getattr(ragged(LENGTHS), name)
    assert torch.autograd.gradcheck(function, torch.randn(shape, dtype=torch.float64, requires_grad=True))


def test_logits_of_any_size_have_a_softmax() -> None:
    x = torch.tensor([1e4, -1e4, 0.0, 1e4, 1e4])
    found = RaggedRows.of_lengths(torch.tensor([2, 3]), 5).log_softmax(x)
    torch.testing.assert_close(found, torch.tensor([0.0, -2e4, -1e4 - 0.6931472, -0.6931472, -0.6931472]))


def test_the_first_of_the_highest_counts() -> None:
    assert ragged([3, 4]).argmax(torch.tensor([1.0, 2, 2, 0, 5, 5, 5])).tolist() == [1, 1]


def test_half_precision_is_averaged_in_single() -> None:
    x = torch.full((4096, 1), 1.001).bfloat16()
    torch.testing.assert_close(ragged([4096]).mean(x), x[:1].float(), atol=1e-6, rtol=0)


def test_empty_parts_sum_to_nothing() -> None:
    found = RaggedRows.of_lengths(torch.tensor([0, 2, 0]), 2)
    assert found.sum(torch.ones(2)).tolist() == [0, 2, 0]
    assert found.mean(torch.ones(2)).tolist() == [0, 1, 0]
