from __future__ import annotations

import pytest
import torch
from toys import LENGTHS, padded, toy_batch

from bertlab.models.padding import PaddedLayout


@pytest.mark.parametrize("lengths", [LENGTHS, [4, 4, 4]])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_tokens_lie_where_they_should_and_come_back(lengths: list[int], reverse: bool, right: bool) -> None:
    batch, flat = toy_batch(lengths), torch.randn(sum(lengths), 3)
    layout = PaddedLayout.of(batch, reverse=reverse, right=right)
    found = layout.pad(flat)
    for row, (sequence, length) in enumerate(zip(flat.split(lengths), lengths, strict=True)):
        start = layout.width - length if right else 0
        assert torch.equal(found[row, start : start + length], sequence.flip(0) if reverse else sequence)
    assert found.abs().sum() == pytest.approx(flat.abs().sum())  # zero elsewhere
    assert torch.equal(layout.unpad(found), flat)


def test_a_left_aligned_layout_is_plain_padding() -> None:
    batch = toy_batch(LENGTHS)
    flat = torch.randn(sum(LENGTHS), 2)
    assert torch.equal(PaddedLayout.of(batch).pad(flat), padded(batch, flat))


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_go_the_same_way(reverse: bool) -> None:
    batch = toy_batch([3, 1, 4])
    layout = PaddedLayout.of(batch, reverse=reverse)
    flat = torch.randn(8, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layout.pad, flat)
    assert torch.autograd.gradcheck(layout.unpad, torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True))
