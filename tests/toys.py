"""Small models and batches for the tests, and the map to the independent implementation in transformers."""

from __future__ import annotations

import dataclasses
import itertools

import torch
from torch import Tensor

from bertlab.data.batches import Batch
from bertlab.data.task_batch import TaskBatch
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert

TINY = Architecture(
    vocab_size=61, layers=2, hidden=16, heads=4, intermediate=40, positions=24, dropout=0.0, attention_dropout=0.0, initializer_range=0.2
)
LENGTHS = [9, 24, 1, 13, 24, 2]


def toy_batch(lengths: list[int], vocab_size: int = 61, seed: int = 0, predict: str = "masked", labels: bool = True) -> Batch:
    """Sequences of random tokens; a third of the positions predicted under "masked", else all that have a neighbour."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    total = int(offsets[-1])
    positions = torch.cat([torch.arange(length) for length in lengths])
    tokens = torch.randint(1, vocab_size, (total,), generator=generator)
    original = torch.randint(vocab_size, (total,), generator=generator)
    firsts, lasts = set(offsets[:-1].tolist()), set((offsets[1:] - 1).tolist())
    if predict == "next":
        predicted = torch.tensor([t for t in range(total) if t not in lasts], dtype=torch.int64)
        targets = tokens[predicted + 1]
    elif predict == "previous":
        predicted = torch.tensor([t for t in range(total) if t not in firsts], dtype=torch.int64)
        targets = tokens[predicted - 1]
    else:
        predicted = (torch.rand(total, generator=generator) < 0.33).nonzero().view(-1)
        predicted = predicted if predicted.numel() else torch.tensor([0])
        targets = original[predicted]
    boundary = torch.cat([torch.arange(length) >= max(1, length // 2) for length in lengths]).long()
    return Batch(
        tokens=tokens,
        segments=boundary,
        positions=positions,
        offsets=offsets,
        predicted=predicted,
        targets=targets,
        next_sentence=torch.randint(2, (len(lengths),), generator=generator) if labels else None,
        max_length=max(lengths),
        predicted_in_step=predicted.numel(),
        sequences_in_step=len(lengths),
    )


def toy_model(seed: int = 0, dtype: torch.dtype = torch.float32, **changes: object) -> Bert:
    """A tiny model whose biases and norm weights are not at their trivial initial values."""
    torch.manual_seed(seed)
    model = Bert(dataclasses.replace(TINY, **changes)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def padded(batch: Batch, flat: Tensor, fill: float = 0) -> Tensor:
    """(T, …) → (B, S, …) by a loop over the sequences."""
    bounds = batch.offsets.tolist()
    result = flat.new_full((batch.sequences, batch.max_length, *flat.shape[1:]), fill)
    for row, (start, end) in enumerate(itertools.pairwise(bounds)):
        result[row, : end - start] = flat[start:end]
    return result


def toy_task_batch(kind: str, lengths: list[int], seed: int = 0, classes: int = 3) -> TaskBatch:
    """A batch for a task of ``kind`` with targets at random; a choice has 2, 3, 2, 3, … of the sequences, what is left over its own."""
    generator = torch.Generator().manual_seed(seed)
    inputs = toy_batch(lengths, seed=seed, labels=False)
    inputs = dataclasses.replace(inputs, predicted=inputs.predicted[:0], targets=inputs.targets[:0])
    per_example = [1] * len(lengths)
    if kind == "choice":
        per_example, left = [], len(lengths)
        while left:
            per_example.append(min(left, 2 + len(per_example) % 2))
            left -= per_example[-1]
    examples = len(per_example)
    batch = TaskBatch(inputs, torch.arange(examples), torch.tensor(per_example), count_in_step=examples)

    def below(bounds: list[int]) -> Tensor:
        return torch.tensor([int(torch.randint(bound, (), generator=generator)) for bound in bounds])

    if kind == "classification":
        batch.labels = below([classes] * examples)
    elif kind == "choice":
        batch.labels = below(per_example)
    elif kind == "regression":
        batch.labels = torch.randn(examples, generator=generator)
    elif kind == "span":
        batch.starts, batch.ends = below(lengths), below(lengths)
    else:
        first = torch.rand(sum(lengths), generator=generator) < 0.6
        batch.word_tokens = first.nonzero().view(-1)
        batch.words_per_example = torch.tensor([int(each.sum()) for each in first.split(lengths)])
        batch.tags = torch.randint(classes, batch.word_tokens.shape, generator=generator)
        batch.count_in_step = len(batch.word_tokens)
    return batch
