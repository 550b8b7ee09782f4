from __future__ import annotations

import dataclasses

import pytest
import torch
from toys import TINY, toy_batch

from bertlab.models.bert import Bert


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_compiled_blocks_compute_the_same(placement: str) -> None:
    architecture = dataclasses.replace(TINY, placement=placement, dropout=0.0, attention_dropout=0.0)
    plain, compiled = Bert(architecture), Bert(architecture)
    compiled.load_state_dict(plain.state_dict())
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        graphs.append(graph)
        return graph.forward

    compiled.backbone.compile_blocks(backend=backend)
    assert compiled.state_dict().keys() == plain.state_dict().keys()
    # Another number of tokens; all states, or some, or one.
    for lengths, rows in (([9, 5], None), ([7, 7, 3], None), ([9, 5], [0, 3, 4, 10]), ([7, 7, 3], [1, 2, 6, 8, 15]), ([9, 5], [2])):
        batch = toy_batch(lengths)
        results = []
        for model in (plain, compiled):
            hidden = model(batch, rows=None if rows is None else torch.tensor(rows))
            model.zero_grad()
            hidden.square().sum().backward()
            results.append((hidden.detach(), [parameter.grad for parameter in model.backbone.parameters()]))
        torch.testing.assert_close(results[1], results[0])
    assert graphs
