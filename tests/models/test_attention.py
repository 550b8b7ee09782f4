from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from toys import LENGTHS, toy_batch

from bertlab.models import attention, attention_on_cpu
from bertlab.models.attention import attend
from bertlab.models.attention_on_cpu import attend_from
from bertlab.models.attention_plans import JaggedPlan, plan_padded
from bertlab.models.dropout import seed_dropout

torch.set_num_threads(1)
HEADS, SIZE = 3, 4
DIRECTIONS = ("bidirectional", "causal", "anticausal")


@pytest.fixture(params=[attention_on_cpu.SHORT_COSTS, 0], ids=["short ones masked at once", "short ones one by one"])
def _hiding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of hiding the slots that no token fills."""
    monkeypatch.setattr(attention_on_cpu, "SHORT_COSTS", request.param)


def by_loops(projected: Tensor, lengths: list[int], direction: str, kept: list[Tensor] | None = None) -> Tensor:
    """Attention from its formula, one sequence and one head after another. ``kept``: a mask of weights for each, already scaled."""
    width, start, results = HEADS * SIZE, 0, []
    for row, length in enumerate(lengths):
        heads = []
        for head in range(HEADS):
            part = [projected[start : start + length, which * width + head * SIZE :][:, :SIZE] for which in range(3)]
            scores = part[0] @ part[1].T / math.sqrt(SIZE)
            index = torch.arange(length)
            if direction != "bidirectional":
                seen = index[None] <= index[:, None] if direction == "causal" else index[None] >= index[:, None]
                scores = scores.masked_fill(~seen, -math.inf)
            weights = scores.softmax(-1)
            if kept is not None:
                weights = weights * kept[row * HEADS + head]
            heads.append(weights @ part[2])
        results.append(torch.cat(heads, -1))
        start += length
    return torch.cat(results)


def projection(lengths: list[int], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sum(lengths), 3 * HEADS * SIZE, generator=generator, dtype=torch.float64, requires_grad=True)


@pytest.mark.usefixtures("_hiding")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [LENGTHS, [7, 7, 7], [1], [1, 1], [5]])
def test_without_dropout_it_is_the_formula(direction: str, lengths: list[int]) -> None:
    projected, plan = projection(lengths), plan_padded(toy_batch(lengths), HEADS, direction)
    expected = by_loops(projected, lengths, direction)
    found = attend(projected, plan, 0.0)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(attend(projected.detach(), plan, 0.0), expected.detach())  # evaluation takes another way
    weights = torch.randn_like(expected)
    for each, want in zip(*(torch.autograd.grad((y * weights).sum(), projected) for y in (found, expected)), strict=True):
        torch.testing.assert_close(each, want)


@pytest.mark.usefixtures("_hiding")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [LENGTHS, [7, 7, 7]])
def test_with_dropout_it_is_the_formula_with_the_same_weights_dropped(
    direction: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, widest = toy_batch(lengths), max(lengths)
    dropped = []
    draw = attention_on_cpu.dropped_elements
    monkeypatch.setattr(attention_on_cpu, "dropped_elements", lambda count, rate: dropped.append(draw(count, rate)) or dropped[-1])
    seed_dropout(1, 0, 0, 0)
    projected = projection(lengths)
    found = attend(projected, plan_padded(batch, HEADS, direction), 0.3)
    mask = (
        torch.ones(len(lengths) * HEADS * widest * widest, dtype=torch.float64).index_fill(0, dropped[0], 0).view(-1, widest, widest) / 0.7
    )
    kept = [
        each[widest - length :, widest - length :] if direction == "anticausal" else each[:length, :length]
        for each, length in zip(mask, [length for length in lengths for _ in range(HEADS)], strict=True)
    ]
    expected = by_loops(projected, lengths, direction, kept)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad((y * weights).sum(), projected)[0] for y in (found, expected)]
    torch.testing.assert_close(*gradients)


def parts_of(projected: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The queries of ``rows``, and the keys and values of all."""
    return projected[rows, : HEADS * SIZE], projected[:, HEADS * SIZE :]


ROWS = [[13, 0, 12, 2, 1], [9], list(range(14)), [], [12, 11, 10, 6, 4, 3]]  # of sequences of 3, 9, 1 and 1 tokens


@pytest.mark.usefixtures("_hiding")
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("rows", ROWS, ids=len)
def test_some_tokens_see_what_they_see_among_all(rows: list[int], dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths, of_sequence = [3, 9, 1, 1], [0] * 3 + [1] * 9 + [2, 3]
    projected, asked = projection(lengths), torch.tensor(rows, dtype=torch.int64)
    dropped = []
    draw = attention_on_cpu.dropped_elements
    monkeypatch.setattr(attention_on_cpu, "dropped_elements", lambda count, rate: dropped.append(draw(count, rate)) or dropped[-1])
    seed_dropout(1, 0, 0, 0)
    found = attend_from(asked, *parts_of(projected, asked), plan_padded(toy_batch(lengths), HEADS, "bidirectional"), dropout)
    # The same weights dropped: those of the k-th of a sequence's rows lie in the k-th row of its matrix.
    most = max(sum(of_sequence[row] == one for row in rows) for one in range(4))
    mask = torch.ones(len(lengths) * HEADS * most * 9, dtype=torch.float64).index_fill(0, dropped[0], 0).view(len(lengths), HEADS, most, 9)
    kept = [torch.zeros(length, length, dtype=torch.float64) for length in lengths for _ in range(HEADS)]
    starts, met = [0, 3, 12, 13], [0, 0, 0, 0]
    for row in rows:
        sequence = of_sequence[row]
        for head in range(HEADS):
            weights = mask[sequence, head, met[sequence], : lengths[sequence]] / (1 - dropout)
            kept[sequence * HEADS + head][row - starts[sequence]] = weights
        met[sequence] += 1
    expected = by_loops(projected, lengths, "bidirectional", kept)[asked]
    torch.testing.assert_close(found, expected)
    weighing = torch.randn_like(expected)
    torch.testing.assert_close(*(torch.autograd.grad((y * weighing).sum(), projected)[0] for y in (found, expected)))


def test_of_tokens_that_do_not_see_all_of_their_sequence_none_is_left_out() -> None:
    projected, rows = projection([4]), torch.tensor([1])
    with pytest.raises(ValueError, match="causal"):
        attend_from(rows, *parts_of(projected, rows), plan_padded(toy_batch([4]), HEADS, "causal"), 0.0)


def test_gradcheck_of_some_tokens_with_dropout() -> None:
    plan, rows = plan_padded(toy_batch([3, 5, 1]), HEADS, "bidirectional"), torch.tensor([8, 3, 1, 4])

    def seeded(projected: Tensor) -> Tensor:
        seed_dropout(2, 0, 0, 0)
        return attend_from(rows, *parts_of(projected, rows), plan, 0.2)

    assert torch.autograd.gradcheck(seeded, projection([3, 5, 1]))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gradcheck_with_dropout(direction: str) -> None:
    lengths = [3, 5, 1]
    plan = plan_padded(toy_batch(lengths), HEADS, direction)

    def seeded(projected: Tensor) -> Tensor:
        seed_dropout(2, 0, 0, 0)
        return attend(projected, plan, 0.2)

    assert torch.autograd.gradcheck(seeded, projection(lengths))


def test_dropout_keeps_the_expectation() -> None:
    lengths = [6, 4]
    projected, plan = projection(lengths).detach(), plan_padded(toy_batch(lengths), HEADS, "bidirectional")
    mean, count = torch.zeros(10, HEADS * SIZE, dtype=torch.float64), 1500
    for step in range(count):
        seed_dropout(3, step, 0, 0)
        mean += attend(projected, plan, 0.1) / count
    assert (mean - attend(projected, plan, 0.0)).abs().max() < 0.08


def jagged_attention(queries: Tensor, keys: Tensor, values: Tensor, dropout_p: float, is_causal: bool) -> Tensor:
    """What a GPU's kernel does with jagged tensors (B, A, lengths, D), by a loop: on a CPU PyTorch has none that is causal."""
    assert dropout_p == 0
    parts = zip(*(each.transpose(1, 2).unbind() for each in (queries, keys, values)), strict=True)
    mixed = [F.scaled_dot_product_attention(*(x.transpose(0, 1) for x in part), is_causal=is_causal).transpose(0, 1) for part in parts]
    return torch.nested.as_nested_tensor(mixed, layout=torch.jagged).transpose(1, 2)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [LENGTHS, [7, 7, 7]])
def test_the_way_of_a_gpu_gives_the_same(direction: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """That sequences are put together as jagged tensors and taken apart rightly, with the kernel stood in for where it is causal."""
    batch, projected = toy_batch(lengths), projection(lengths)
    expected = by_loops(projected, lengths, direction)
    if direction != "bidirectional":
        stand_in = SimpleNamespace(scaled_dot_product_attention=jagged_attention)
        monkeypatch.setattr(attention, "F", stand_in)
    found = attend(projected, JaggedPlan(HEADS, direction, batch), 0.0)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    torch.testing.assert_close(*(torch.autograd.grad((y * weights).sum(), projected)[0] for y in (found, expected)))
