from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from task_inputs import inputs_of

from bertlab.data.task_batch import TaskBatch
from bertlab.tasks.batching import TaskBatches, collate, count_of, evaluation_batches, step_share, token_indices
from bertlab.tasks.examples import Answer, ChoiceExample, SpanExample, TaggingExample, TextExample
from bertlab.tasks.inputs import Inputs


def lengths_only(lengths: list[int]) -> Inputs:
    """Single sequences of these lengths."""
    offsets = np.cumsum([0, *lengths])
    count = np.arange(len(lengths) + 1)
    return Inputs(np.zeros(offsets[-1], np.uint16), offsets, np.array(lengths, np.int32), count)


def texts(*lengths: int) -> list[str]:
    return [" ".join("abcdefgh"[(n + length) % 8] for n in range(length)) for length in lengths]


def inputs_of_kind(kind: str) -> Inputs:
    if kind == "classification":
        return inputs_of(
            [TextExample("", a, b, n) for n, (a, b) in enumerate(zip(texts(5, 1, 9), (None, *texts(2, 4)), strict=True))], kind
        )
    if kind == "regression":
        return inputs_of([TextExample("", text, "a b", n / 3) for n, text in enumerate(texts(5, 1, 9, 2))], kind)
    if kind == "choice":
        return inputs_of([ChoiceExample("", "a", tuple(texts(*sizes)), 0) for sizes in [(1, 2), (3, 4, 5), (2,), (6, 1)]], kind)
    if kind == "tagging":
        words = [tuple(text.split()) for text in texts(3, 17, 1, 9)] + [()]
        return inputs_of([TaggingExample("", one, tuple(range(len(one)))) for one in words], kind, max_length=8)
    spans = [SpanExample("", "the", text, (Answer(text[-1], len(text) - 1),)) for text in texts(3, 40, 1, 18)]
    return inputs_of(spans, kind, max_length=12, max_query_length=4, stride=3)


KINDS = ["classification", "regression", "choice", "tagging", "span"]


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 3), st.booleans(), st.data())
def test_an_epoch_takes_every_example_once(examples: int, batch: int, seed: int, group: bool, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(2, 9), min_size=examples, max_size=examples))
    batches = TaskBatches(lengths_only(lengths), batch, seed, group)
    steps = batches.steps_per_epoch
    for epoch in range(2):
        taken = [batches.at(epoch * steps + step).tolist() for step in range(steps)]
        assert sorted(i for one in taken for i in one) == list(range(examples))
        assert all(len(one) == batch for one in taken[:-1])
        assert len(taken[-1]) == (examples - 1) % batch + 1


@pytest.mark.parametrize("group", [True, False])
def test_a_step_is_a_function_of_the_seed_and_the_step(group: bool) -> None:
    inputs = lengths_only(np.random.default_rng(0).integers(3, 60, 500).tolist())
    in_order = TaskBatches(inputs, 7, 3, group)
    expected = [in_order.at(step).tolist() for step in range(200)]
    jumping = TaskBatches(inputs, 7, 3, group)
    for step in np.random.default_rng(1).permutation(200):
        assert jumping.at(int(step)).tolist() == expected[step]
    other = TaskBatches(inputs, 7, 4, group)
    assert [other.at(step).tolist() for step in range(200)] != expected
    steps = in_order.steps_per_epoch
    assert expected[:steps] != expected[steps : 2 * steps]


def test_grouped_batches_are_alike_in_length_and_otherwise_random() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 100, 6400)
    inputs = lengths_only(lengths.tolist())
    spread = {}
    for group in (True, False):
        batches = TaskBatches(inputs, 32, 1, group)
        taken = [batches.at(step) for step in range(batches.steps_per_epoch)]
        spread[group] = np.mean([np.ptp(lengths[one]) for one in taken])
        means = np.array([lengths[one].mean() for one in taken])
        # Lengths do not drift with the steps: the correlation of 200 independent pairs is within 0.25 but once in 2,000 times.
        assert abs(np.corrcoef(means, np.arange(means.size))[0, 1]) < 0.25
        assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 0.25  # nor do they rise and fall
    assert spread[True] < 5 < 80 < spread[False]
    # Who meets whom changes with the epoch: the companions of an example are not those that it had.
    batches = TaskBatches(inputs, 32, 1, True)
    steps = batches.steps_per_epoch
    companions = [
        {int(i): set(one.tolist()) for one in (batches.at(epoch * steps + step) for step in range(steps)) for i in one} for epoch in (0, 1)
    ]
    shared = np.mean([len(companions[0][i] & companions[1][i]) - 1 for i in range(6400)])
    assert shared < 31 / 4  # of 31, each of which is in the same one of the four stretches again in one epoch of four


def sequences_of(batch: TaskBatch) -> list[tuple[list[int], list[int]]]:
    """(ids, segments) of each sequence of a batch."""
    bounds = batch.inputs.offsets.tolist()
    return [(batch.inputs.tokens[a:b].tolist(), batch.inputs.segments[a:b].tolist()) for a, b in itertools.pairwise(bounds)]


@pytest.mark.parametrize("kind", KINDS)
def test_collate_is_a_loop_over_examples(kind: str) -> None:
    inputs = inputs_of_kind(kind)
    chosen = [inputs.examples - 1, 0, 2, 1]
    batch = collate(inputs, chosen)
    tokens: list[int] = []
    segments: list[int] = []
    positions: list[int] = []
    lengths: list[int] = []
    words: list[int] = []
    tags: list[int] = []
    sequence_numbers: list[int] = []
    for number in chosen:
        first, last = inputs.first_sequence[number], inputs.first_sequence[number + 1]
        if inputs.word_tokens is not None and inputs.word_offsets is not None and inputs.tags is not None:
            for word in range(inputs.word_offsets[number], inputs.word_offsets[number + 1]):
                words.append(len(tokens) + int(inputs.word_tokens[word] - inputs.offsets[first]))
                tags.append(int(inputs.tags[word]))
        for sequence in range(first, last):
            sequence_numbers.append(sequence)
            ids = inputs.tokens[inputs.offsets[sequence] : inputs.offsets[sequence + 1]].tolist()
            tokens += ids
            segments += [int(place >= inputs.boundaries[sequence]) for place in range(len(ids))]
            positions += range(len(ids))
            lengths.append(len(ids))
    assert batch.inputs.tokens.tolist() == tokens
    assert batch.inputs.segments.tolist() == segments
    assert batch.inputs.positions.tolist() == positions
    assert batch.inputs.offsets.tolist() == np.cumsum([0, *lengths]).tolist()
    assert batch.inputs.max_length == max(lengths)
    assert batch.inputs.predicted.numel() == batch.inputs.targets.numel() == 0
    assert batch.examples.tolist() == chosen
    assert batch.sequences_per_example.tolist() == [int(np.diff(inputs.first_sequence)[number]) for number in chosen]
    assert inputs.tokens[token_indices(inputs, chosen)].tolist() == tokens
    if inputs.labels is not None:
        assert batch.labels is not None
        np.testing.assert_array_equal(batch.labels.numpy(), inputs.labels[chosen])
    if kind == "tagging":
        assert batch.word_tokens is not None
        assert batch.words_per_example is not None
        assert batch.tags is not None
        assert batch.word_tokens.tolist() == words
        assert batch.tags.tolist() == tags
        assert batch.words_per_example.tolist() == [0, 3, 1, 17]
    if kind == "span":
        assert batch.starts is not None
        assert batch.ends is not None
        assert inputs.starts is not None
        assert batch.starts.tolist() == [int(inputs.starts[number]) for number in sequence_numbers]
        assert batch.starts.dtype == batch.ends.dtype == torch.int64
    expected = {"tagging": len(words), "span": len(lengths)}.get(kind, len(chosen))
    assert batch.count_in_step == count_of(inputs, chosen) == expected
    for tensor in (batch.inputs.tokens, batch.inputs.segments, batch.inputs.positions, batch.inputs.offsets, batch.examples):
        assert tensor.dtype == torch.int64


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_moves_as_a_whole(kind: str) -> None:
    batch = collate(inputs_of_kind(kind), [1, 0])
    moved = batch.to("meta")
    for field in dataclasses.fields(TaskBatch):
        before, after = getattr(batch, field.name), getattr(moved, field.name)
        if isinstance(before, torch.Tensor):
            assert after.device.type == "meta"
            assert (after.shape, after.dtype) == (before.shape, before.dtype)
        elif field.name != "inputs":
            assert after == before
    assert moved.inputs.tokens.device.type == moved.inputs.offsets.device.type == "meta"
    assert moved.inputs.max_length == batch.inputs.max_length


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("micro", [None, 1, 2, 3])
def test_ranks_and_micro_batches_part_the_step(kind: str, micro: int | None) -> None:
    inputs = inputs_of_kind(kind)
    chosen = np.arange(inputs.examples)[::-1]
    whole = collate(inputs, chosen)
    for world in range(1, 7):
        shares = [step_share(inputs, chosen, rank, world, micro) for rank in range(world)]
        parts = [batch for share in shares for batch in share]
        assert [i for part in parts for i in part.examples.tolist()] == chosen.tolist()
        assert [sequence for part in parts for sequence in sequences_of(part)] == sequences_of(whole)
        assert all(part.count_in_step == whole.count_in_step for part in parts)
        assert all(part.examples.numel() <= (micro or inputs.examples) for part in parts)
        sizes = [sum(part.examples.numel() for part in share) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        if len(chosen) >= world:
            assert all(shares)


def test_a_step_is_cut_alike_by_ranks_and_by_micro_batches() -> None:
    inputs = inputs_of_kind("classification")
    chosen = np.arange(inputs.examples)
    micro, cuts = -(-inputs.examples // 4), []
    for world in (4, 2, 1):
        parts = [part for rank in range(world) for part in step_share(inputs, chosen, rank, world, micro)]
        cuts.append([(part.place, part.examples.tolist()) for part in parts])
    assert cuts[0] == cuts[1] == cuts[2]
    assert [place for place, _ in cuts[0]] == [examples[0] for _, examples in cuts[0]]


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(2, 30), min_size=1, max_size=4), max_size=30), st.integers(1, 100), st.integers(1, 5))
def test_evaluation_takes_every_example_once_whatever_the_ranks(sizes: list[list[int]], budget: int, world: int) -> None:
    flat = [length for one in sizes for length in one]
    inputs = lengths_only(flat)
    inputs.first_sequence = np.cumsum([0, *map(len, sizes)])
    alone = evaluation_batches(inputs, budget)
    assert sorted(i for one in alone for i in one) == list(range(len(sizes)))
    longest = [max(sizes[i]) for one in alone for i in one]
    assert longest == sorted(longest, reverse=True)
    for number, one in enumerate(alone):
        tokens = sum(sum(sizes[i]) for i in one)
        assert tokens <= budget or len(one) == 1
        if number + 1 < len(alone):
            assert tokens + sum(sizes[alone[number + 1][0]]) > budget
    shares = [evaluation_batches(inputs, budget, rank, world) for rank in range(world)]
    together = [[one.tolist() for one in share] for share in shares]
    assert sorted(one for share in together for one in share) == sorted(one.tolist() for one in alone)
    assert max(map(len, together)) - min(map(len, together)) <= 1
