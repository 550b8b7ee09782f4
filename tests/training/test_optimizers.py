from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from bertlab.config import OptimizerConfig
from bertlab.training.optimizers import clip, make_optimizer, parameter_groups

STEPS = 40


class Net(nn.Module):
    """A matrix, a bias, and a norm with its two vectors."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.linear = nn.Linear(7, 5)
        self.norm = nn.LayerNorm(5)
        self.table = nn.Embedding(11, 7)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)


def gradients_of(step: int, net: Net) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    return [torch.randn(parameter.shape, generator=generator) for parameter in net.parameters()]


def by_hand(net: Net, config: OptimizerConfig, rates: list[float], corrected: bool) -> list[np.ndarray]:
    """Adam with decoupled decay in float64, one number after another as the formula has it."""
    values = [parameter.detach().double().numpy().copy() for parameter in net.parameters()]
    decays = [0.0 if "bias" in name or "norm" in name else config.weight_decay for name, _ in net.named_parameters()]
    first, second = [np.zeros_like(value) for value in values], [np.zeros_like(value) for value in values]
    for step, rate in enumerate(rates):
        for index, gradient in enumerate(gradients_of(step, net)):
            g = gradient.double().numpy()
            first[index] = config.beta1 * first[index] + (1 - config.beta1) * g
            second[index] = config.beta2 * second[index] + (1 - config.beta2) * g * g
            m, v = first[index], second[index]
            if corrected:
                m, v = m / (1 - config.beta1 ** (step + 1)), v / (1 - config.beta2 ** (step + 1))
            values[index] = values[index] - rate * (m / (np.sqrt(v) + config.epsilon) + decays[index] * values[index])
    return values


def train(net: Net, config: OptimizerConfig, rates: list[float], restart_at: int | None = None) -> None:
    optimizer = make_optimizer(net, config)
    for step, rate in enumerate(rates):
        if step == restart_at:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = make_optimizer(net, config)
            optimizer.load_state_dict(state)
        for group in optimizer.param_groups:
            group["lr"] = rate
        for parameter, gradient in zip(net.parameters(), gradients_of(step, net), strict=True):
            parameter.grad = gradient
        optimizer.step()


@pytest.mark.parametrize("restart_at", [None, 1, 25])
@pytest.mark.parametrize("kind", ["bert_adam", "adamw"])
def test_matches_the_formula(kind: str, restart_at: int | None) -> None:
    config = OptimizerConfig(kind=kind, weight_decay=0.1)
    rates = [0.01 * (1 - step / STEPS) for step in range(STEPS)]
    net = Net()
    expected = by_hand(net, config, rates, corrected=kind == "adamw")
    train(net, config, rates, restart_at)
    for parameter, value in zip(net.parameters(), expected, strict=True):
        np.testing.assert_allclose(parameter.detach().numpy(), value, rtol=2e-5, atol=2e-6)


def test_the_two_recipes_differ_where_correction_matters() -> None:
    # Uncorrected, the first update is (1 - b1) / sqrt(1 - b2) = 3.16 times as long.
    moves = {}
    for kind in ("bert_adam", "adamw"):
        net = Net()
        before = net.linear.bias.detach().clone()
        train(net, OptimizerConfig(kind=kind), [1e-3])
        moves[kind] = (net.linear.bias.detach() - before).abs()
    np.testing.assert_allclose((moves["bert_adam"] / moves["adamw"]).numpy(), 3.1623, rtol=1e-2)


def test_what_decays() -> None:
    net = Net()
    decayed, free = parameter_groups(net, 0.01)
    assert {id(parameter) for parameter in decayed["params"]} == {id(net.linear.weight), id(net.table.weight)}
    assert {id(parameter) for parameter in free["params"]} == {id(net.linear.bias), id(net.norm.weight), id(net.norm.bias)}
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.01, 0.0)


@pytest.mark.parametrize("bound", [0.5, 1e6, None])
def test_clipping_scales_by_the_global_norm(bound: float | None) -> None:
    config = OptimizerConfig(kind="adamw", epsilon=0.1)  # a large epsilon, or Adam would not see the scale at all
    net, reference = Net(), Net()
    optimizer, plain = make_optimizer(net, config), make_optimizer(reference, config)
    gradients = gradients_of(0, net)
    norm = float(torch.cat([gradient.flatten() for gradient in gradients]).norm())
    scale = 1.0 if bound is None else min(1.0, bound / norm)
    for ours, theirs, gradient in zip(net.parameters(), reference.parameters(), gradients, strict=True):
        ours.grad, theirs.grad = gradient.clone(), gradient * scale
    assert float(clip(optimizer, net.parameters(), bound)) == pytest.approx(norm, rel=1e-6)
    optimizer.step()
    plain.step()
    for ours, theirs in zip(net.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
