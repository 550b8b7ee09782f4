from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from toys import LENGTHS, toy_batch

from bertlab.models.dropout import seed_dropout
from bertlab.models.task_heads import Convolution, LayerMix, Reader

torch.set_num_threads(1)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 9, 60])
def test_a_convolution_is_one_over_each_sequence_alone(width: int) -> None:
    torch.manual_seed(0)
    layer = Convolution(6, 5, width).double()
    layer.bias.data.normal_()
    x = torch.randn(sum(LENGTHS), 6, dtype=torch.float64, requires_grad=True)
    found = layer(x, toy_batch(LENGTHS))
    kernel = layer.weights.weight.view(width, 5, 6).permute(1, 2, 0)  # (filters, inputs, width)
    expected = torch.cat([F.relu(F.conv1d(each.t()[None], kernel, layer.bias, padding="same"))[0].t() for each in x.split(LENGTHS)])
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    gradients = [torch.autograd.grad((y * weights).sum(), [x, *layer.parameters()]) for y in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_reader_is_a_bilstm_over_each_sequence_alone(layers: int) -> None:
    torch.manual_seed(0)
    reader = Reader(6, 4, layers, 0.1).eval()
    theirs = torch.nn.LSTM(6, 4, layers, bidirectional=True)
    with torch.no_grad():
        for number, ways in enumerate(reader.layers):
            for way, suffix in (("rightward", ""), ("leftward", "_reverse")):
                for name, parameter in ways[way].named_parameters():
                    getattr(theirs, name.replace("l0", f"l{number}") + suffix).copy_(parameter)
    x = torch.randn(sum(LENGTHS), 6)
    expected = torch.cat([theirs(each)[0] for each in x.split(LENGTHS)])
    torch.testing.assert_close(reader(x, toy_batch(LENGTHS)), expected)


def test_dropout_stands_between_the_layers_of_a_reader() -> None:
    torch.manual_seed(0)
    x, batch = torch.randn(sum(LENGTHS), 6), toy_batch(LENGTHS)
    for layers in (1, 2):
        reader = Reader(6, 4, layers, 0.5)
        results = []
        for step in (0, 1, 0):
            seed_dropout(0, step, 0, 0)
            results.append(reader(x, batch))
        assert torch.equal(results[0], results[2])
        assert torch.equal(results[0], results[1]) == (layers == 1)


def test_a_mix_starts_as_the_mean_and_can_be_any_layer() -> None:
    torch.manual_seed(0)
    states, mix = torch.randn(7, 3, 5), LayerMix(3)
    torch.testing.assert_close(mix(states), states.mean(1))
    mix.weights.data[1] = 50.0
    mix.scale.data.fill_(2.0)
    torch.testing.assert_close(mix(states), 2 * states[:, 1])
