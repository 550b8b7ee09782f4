from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from torch import Tensor, nn
from toys import LENGTHS, TINY, toy_batch, toy_model

from bertlab.models.bert import Bert
from bertlab.models.bilstm import Recurrence

torch.set_num_threads(1)


def pieces(flat: Tensor) -> list[Tensor]:
    return list(flat.split(LENGTHS))


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("direction", ["both", "forward", "backward", "pair"])
def test_an_lstm_stack_is_lstms_over_each_sequence_alone(direction: str, placement: str) -> None:
    attention = {"both": "bidirectional", "forward": "causal", "backward": "anticausal", "pair": "causal"}[direction]
    model = toy_model(backbone="bilstm", directions=direction, attention=attention, placement=placement, next_sentence=False).eval()
    batch, x = toy_batch(LENGTHS), torch.randn(sum(LENGTHS), 16)
    expected = []
    with torch.no_grad():
        found = model.backbone(x, batch)
        for sequence in pieces(x):
            stacks = []
            for stack in model.backbone.stacks:
                state = sequence
                for layer in stack.layers:
                    state = one_layer(layer, state, pre=placement == "pre")
                stacks.append(state if placement == "post" else stack.norm(state))
            expected.append(torch.cat(stacks, -1))
    torch.testing.assert_close(found, torch.cat(expected))


def one_layer(layer: Recurrence, x: Tensor, pre: bool) -> Tensor:
    """A layer on a single sequence (L, inputs), unbatched and by PyTorch alone."""
    inputs = layer.norm(x) if pre else x
    states = [
        lstm(inputs)[0] if way == "rightward" else lstm(inputs.flip(0))[0].flip(0)
        for way, lstm in layer.lstms.items()
        if isinstance(lstm, nn.LSTM)
    ]
    update = torch.cat(states, -1)
    total = x + update if update.shape == x.shape else update
    return total if pre else layer.norm(total)


def test_the_two_halves_of_a_pair_share_nothing() -> None:
    model = toy_model(backbone="bilstm", directions="pair", attention="causal", next_sentence=False).train()
    batch = toy_batch(LENGTHS)
    hidden = model(batch)
    hidden[:, :8].square().sum().backward()
    forward, backward = model.backbone.stacks
    assert all(parameter.grad is not None for parameter in forward.parameters())
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in backward.parameters())


@pytest.mark.parametrize(("direction", "window"), itertools.product(("bidirectional", "causal", "anticausal"), (None, 1, 4)))
def test_a_bag_of_words_is_a_mean_over_what_may_be_seen(direction: str, window: int | None) -> None:
    model = toy_model(backbone="cbow", attention=direction, window=window)
    batch, x = toy_batch(LENGTHS), torch.randn(sum(LENGTHS), 16, requires_grad=True)
    means = []
    for sequence in pieces(x):
        for place in range(len(sequence)):
            reach = len(sequence) if window is None else window
            before, after = range(max(0, place - reach), place), range(place + 1, min(len(sequence), place + reach + 1))
            chosen = {"bidirectional": [*before, *after], "causal": [*before, place], "anticausal": [place, *after]}[direction]
            means.append(sequence[chosen].mean(0) if chosen else torch.zeros(16))
    expected, found = model.backbone.norm(torch.stack(means)), model.backbone(x, batch)
    # A lone token has no context: its mean of nothing is zero.
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    weights = torch.randn_like(found)
    lone = torch.cat([torch.full((length,), length == 1) for length in LENGTHS])[:, None]
    weights = weights.masked_fill(lone, 0)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (found, expected)]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-3)


def test_the_order_of_words_plays_no_part_in_a_bag() -> None:
    model = toy_model(backbone="cbow").eval()
    batch = toy_batch([9])
    turned = dataclasses.replace(batch, tokens=batch.tokens.flip(0))
    with torch.no_grad():
        torch.testing.assert_close(model(turned).flip(0), model(batch), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_pre_norm_stream_is_normalised_at_the_end_only(placement: str) -> None:
    model = Bert(dataclasses.replace(TINY, placement=placement)).eval()
    assert (model.embeddings.norm is None) == (placement == "pre")
    with torch.no_grad():
        states = model(toy_batch(LENGTHS))
    torch.testing.assert_close(states.mean(1), torch.zeros(len(states)), atol=1e-5, rtol=0)
    torch.testing.assert_close(states.var(1, unbiased=False), torch.ones(len(states)), atol=1e-3, rtol=0)
    layer = model.backbone.layers[0]
    for parameter in (layer.attention.output.weight, layer.feed_forward.outer.weight):  # both branches silent
        nn.init.zeros_(parameter)
    x = torch.randn(sum(LENGTHS), 16) * 5
    from bertlab.models.attention_plans import plan_attention

    with torch.no_grad():
        through = layer(x, plan_attention(toy_batch(LENGTHS), model.architecture))
    assert torch.equal(through, x) == (placement == "pre")
