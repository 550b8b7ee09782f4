from __future__ import annotations

import pytest
import torch
from toys import LENGTHS, padded, toy_batch

from bertlab.models.grid import Grid


@pytest.mark.parametrize("lengths", [LENGTHS, [4, 4, 4]])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_tokens_lie_where_they_should_and_come_back(lengths: list[int], reverse: bool, right: bool) -> None:
    batch, flat = toy_batch(lengths), torch.randn(sum(lengths), 3)
    grid = Grid.of(batch, reverse=reverse, right=right)
    found = grid.pad(flat)
    for row, (sequence, length) in enumerate(zip(flat.split(lengths), lengths, strict=True)):
        start = grid.width - length if right else 0
        assert torch.equal(found[row, start : start + length], sequence.flip(0) if reverse else sequence)
    assert found.abs().sum() == pytest.approx(flat.abs().sum())  # zero elsewhere
    assert torch.equal(grid.unpad(found), flat)


def test_a_left_aligned_grid_is_plain_padding() -> None:
    batch = toy_batch(LENGTHS)
    flat = torch.randn(sum(LENGTHS), 2)
    assert torch.equal(Grid.of(batch).pad(flat), padded(batch, flat))


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_go_the_same_way(reverse: bool) -> None:
    batch = toy_batch([3, 1, 4])
    grid = Grid.of(batch, reverse=reverse)
    flat = torch.randn(8, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(grid.pad, flat)
    assert torch.autograd.gradcheck(grid.unpad, torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True))
