from __future__ import annotations

import itertools

import pytest
import torch
from toys import LENGTHS, toy_batch

from bertlab.models.pooling import pool, pooled_width, tokens_read

torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("pooling", "directions"), [*itertools.product(("first", "last", "mean", "max", "mean_max"), (0,)), *(("ends", n) for n in (0, 1, 2))]
)
def test_pooling_is_over_each_sequence_alone(pooling: str, directions: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(sum(LENGTHS), 8, dtype=torch.float64)
    expected = []
    for each in x.split(LENGTHS):
        first, last = each[0], each[-1]
        vectors = {
            "first": [first],
            "last": [last],
            "mean": [each.mean(0)],
            "max": [each.amax(0)],
            "mean_max": [each.mean(0), each.amax(0)],
            "ends": {0: [first, last], 1: [last[:4], first[4:]], 2: [last[:2], first[2:4], last[4:6], first[6:]]}[directions],
        }[pooling]
        expected.append(torch.cat(vectors))
    found = pool(x, toy_batch(LENGTHS).offsets, pooling, directions)
    torch.testing.assert_close(found, torch.stack(expected))
    assert found.shape[1] == pooled_width(8, pooling, directions)


@pytest.mark.parametrize(("pooling", "directions"), [("first", 1), ("last", 1), ("ends", 0), ("ends", 1)])
def test_of_the_tokens_that_are_read_the_rest_need_not_be_there(pooling: str, directions: int) -> None:
    torch.manual_seed(0)
    x, offsets = torch.randn(sum(LENGTHS), 8), toy_batch(LENGTHS).offsets
    tokens, among_those = tokens_read(offsets, pooling)
    assert torch.equal(pool(x[tokens], among_those, pooling, directions), pool(x, offsets, pooling, directions))
