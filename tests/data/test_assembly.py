from __future__ import annotations

import copy
import itertools
import pickle
from dataclasses import fields

import numpy as np
import pytest
import torch
from fake_stores import CLS, FIRST_ORDINARY, MASK, SEP, UNKNOWN, make_store, random_documents
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import toy_model

from bertlab.config import LengthsConfig, PretrainConfig, StageConfig
from bertlab.data.assembly import PretrainingData, share_of
from bertlab.data.schedule import plan_training
from bertlab.errors import UserError
from bertlab.objectives import objective_of
from bertlab.training.identity import cut_of_statistics

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def store():
    return make_store(random_documents(8, 80, sentences=(2, 30), words=(2, 25)), held_out=range(0, 80, 8))


def config(kind="mlm_nsp", sequences=24, length=48, micro=None, seed=1, **masking):
    made = PretrainConfig(seed=seed)
    made.objective.kind, made.batch.sequences, made.batch.length, made.batch.micro = kind, sequences, length, micro
    made.budget.steps = 1000
    for name, value in masking.items():
        setattr(made.masking, name, value)
    return made


def data(store, made, rank=0, world=1, predict="masked"):
    return PretrainingData(store, made, plan_training(made), rank, world, predict=predict, pair=made.objective.kind == "mlm_nsp")


def joined(batches):
    """The micro-batches as one, by the definition of the fields."""
    starts = np.cumsum([0] + [batch.tokens.numel() for batch in batches])
    flat = {}
    for name in ("tokens", "segments", "positions", "targets", "next_sentence"):
        values = [getattr(batch, name) for batch in batches]
        flat[name] = None if values[0] is None else torch.cat(values).tolist()
    for name in ("predicted", "zeroed", "noised"):
        values = [getattr(batch, name) for batch in batches]
        flat[name] = None if values[0] is None else torch.cat([v + int(s) for v, s in zip(values, starts, strict=False)]).tolist()
    flat["lengths"] = torch.cat([batch.offsets.diff() for batch in batches]).tolist()
    return flat


def check_sound(batch):
    for f in fields(batch):
        value = getattr(batch, f.name)
        if isinstance(value, torch.Tensor):
            assert value.dtype == torch.int64, f.name
            assert value.is_contiguous(), f.name
    assert batch.offsets[0] == 0
    assert batch.offsets[-1] == batch.tokens.numel() == batch.segments.numel() == batch.positions.numel()
    assert (batch.tokens[batch.offsets[:-1]] == CLS).all()
    assert (batch.tokens[batch.offsets[1:] - 1] == SEP).all()
    assert batch.max_length == batch.offsets.diff().max()
    assert (batch.positions[batch.offsets[:-1]] == 0).all()


masks = {"mask": 0.4, "keep": 0.1, "random": 0.1, "zero": 0.2, "noise": 0.2}


@given(st.integers(1, 24), st.one_of(st.none(), st.integers(1, 25)), st.integers(0, 300), st.sampled_from(["mlm_nsp", "mlm", "ltr", "rtl"]))
@settings(max_examples=40)
def test_ranks_and_micro_batches_part_one_global_batch(store, world, micro, step, kind):
    predict = {"ltr": "next", "rtl": "previous"}.get(kind, "masked")
    whole = data(store, config(kind, **masks), predict=predict)[step]
    assert len(whole.micro_batches) == 1
    reference = joined(whole.micro_batches)
    shares = [data(store, config(kind, micro=micro, **masks), rank, world, predict)[step] for rank in range(world)]
    batches = [batch for share in shares for batch in share.micro_batches]
    assert joined(batches) == reference
    sizes = [sum(batch.sequences for batch in share.micro_batches) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    for batch in batches:
        check_sound(batch)
        assert batch.sequences <= (micro or 24)
        assert batch.predicted_in_step == len(reference["predicted"])
        assert batch.sequences_in_step == 24
    assert {share.tokens_in_step for share in shares} == {len(reference["tokens"])}
    assert {share.positions_in_step for share in shares} == {24 * 48}


def test_a_step_is_the_same_in_any_order_and_any_process(store):
    made = data(store, config())
    again = pickle.loads(pickle.dumps(made))
    forward = [joined(made[step].micro_batches) for step in (0, 1, 200, 7)]
    backward = [joined(again[step].micro_batches) for step in (7, 200, 1, 0)]
    assert forward == backward[::-1]
    assert forward[0] != forward[1]


def test_texts_and_what_is_masked_are_other_ones_with_each_seed_and_stage():
    store = make_store([[22]] * 200)  # every document is one whole sequence, so that what is masked does not follow from the text
    texts, masked = set(), set()
    for seed, step in ((1, 0), (2, 0), (1, 500)):
        made = config("mlm", length=24, seed=seed)
        made.batch.short_probability = 0.0
        made.lengths = LengthsConfig(stages=[StageConfig(0.5, 24), StageConfig(0.5, 24)])
        batch = data(store, made)[step].micro_batches[0]
        texts.add(tuple(batch.tokens.index_copy(0, batch.predicted, batch.targets).tolist()))
        masked.add(tuple(batch.predicted.tolist()))
    assert len(texts) == len(masked) == 3


def test_an_epoch_of_steps_sees_every_training_token_and_no_other():
    store = make_store(random_documents(8, 80, sentences=(2, 30), words=(2, 25)), held_out=range(0, 80, 8))
    made = config("ltr", sequences=150, length=30)  # so many that three steps, which are not an epoch, are made at once
    made.batch.short_probability = 0.0
    training = data(store, made, predict="next")
    sizes = np.diff(store.document_offsets)[training.training_documents]
    epoch = int(np.ceil(sizes / 28).sum())
    assert epoch > 450
    places = np.concatenate([training[n].micro_batches[0].tokens.numpy() for n in range(epoch // 150 + 1)])
    positions = np.concatenate([training[n].micro_batches[0].positions.numpy() for n in range(epoch // 150 + 1)])
    starts = np.flatnonzero(positions == 0)
    places = places[: starts[epoch]] if starts.size > epoch else places
    seen = np.sort(places[places >= FIRST_ORDINARY] - FIRST_ORDINARY)
    documents = np.isin(store.document_of(np.arange(store.tokens.size)), training.training_documents)
    assert np.array_equal(seen, np.flatnonzero(documents))


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_short_sequences_are_as_many_as_the_configuration_says(share):
    made = config("mlm", sequences=2000, length=24)
    made.batch.short_probability = share
    lengths = data(make_store([[22]] * 100), made)[0].micro_batches[0].offsets.diff()
    expected = share * 20 / 21  # of the sizes 2 to 22, alike, the last is that of the others
    assert abs(float((lengths < 24).double().mean()) - expected) <= 5 * (expected * (1 - expected) / 2000) ** 0.5


def test_masked_batches_hide_what_they_ask_for(store):
    batch = data(store, config(**masks))[3].micro_batches[0]
    original = batch.tokens.clone()
    original[batch.predicted] = batch.targets
    assert (batch.targets >= FIRST_ORDINARY).all()
    inner = original[original >= FIRST_ORDINARY]
    assert (inner.diff() == 1).float().mean() > 0.9  # the fake store's tokens count upwards
    changed = (batch.tokens != original).nonzero().ravel()
    assert set(changed.tolist()) <= set(batch.predicted.tolist())
    assert set(batch.zeroed.tolist()) | set(batch.noised.tolist()) <= set(batch.predicted.tolist())
    assert not set(batch.zeroed.tolist()) & set(batch.noised.tolist())
    assert (batch.tokens == MASK).sum() > 0


def test_stages_follow_the_plan_with_streams_of_their_own(store):
    made = config("ltr")
    made.lengths = LengthsConfig(stages=[StageConfig(0.5, 16), StageConfig(0.3, 40), StageConfig(0.2, 16, 7)], keep_tokens=True)
    made.budget.steps = 10
    built = data(store, made, predict="next")
    assert len(built) == 10
    assert [built[step].length for step in range(10)] == [16] * 5 + [40] * 3 + [16] * 2
    assert [built[step].micro_batches[0].sequences for step in (0, 5, 8)] == [72, 29, 7]
    assert built[5].micro_batches[0].max_length == 40
    first, third = joined(built[0].micro_batches), joined(built[8].micro_batches)
    assert third["tokens"] != first["tokens"][: len(third["tokens"])]


def test_a_budget_in_minutes_is_told_the_stage(store):
    made = config("mlm")
    made.budget.steps, made.budget.minutes = None, 5.0
    made.lengths = LengthsConfig(stages=[StageConfig(0.5, 16), StageConfig(0.5, 40)])
    built, plan = data(store, made), plan_training(made)
    by_steps = copy.deepcopy(made)
    by_steps.budget.minutes, by_steps.budget.steps = None, 20
    batch = built.step_batch_at(plan.stages[1], 3, step=77)
    assert batch.step == 77
    assert joined(batch.micro_batches) == joined(data(store, by_steps)[13].micro_batches)
    with pytest.raises(TypeError, match="minutes"):
        len(built)


def validation(store, made, length=48, rank=0, world=1, **options):
    return data(store, made, rank, world, **options).validation_batches(length)


def test_validation_is_of_held_out_documents_and_of_no_seed(store):
    first, second = (validation(store, config(seed=seed)) for seed in (1, 2))
    assert joined(first) == joined(second)
    places = np.array(joined(first)["targets"]) - FIRST_ORDINARY
    assert set(store.document_of(places).tolist()) <= set(store.held_out.tolist())
    flat = joined(first)
    assert len(flat["lengths"]) >= 4
    assert 0 < sum(flat["next_sentence"]) < len(flat["lengths"])


def test_validation_does_not_depend_on_training_batches(store):
    made = config(sequences=8, length=96, micro=3)
    made.batch.short_probability = 0.7
    assert joined(validation(store, made)) == joined(validation(store, config()))
    weights = [(40, 1.0), (40, 3.0)]  # of how often an epoch of the training sees a source
    weighted = make_store(random_documents(8, 80, sentences=(2, 30), words=(2, 25)), held_out=range(0, 80, 8), weights=weights)
    assert joined(validation(weighted, config())) == joined(validation(store, config()))


@pytest.mark.parametrize("world", [2, 3, 7])
def test_validation_is_shared_by_ranks(store, world):
    shares = [validation(store, config(), rank=rank, world=world) for rank in range(world)]
    assert joined([batch for share in shares for batch in share]) == joined(validation(store, config()))


def figures(batches, model, kind):
    made = PretrainConfig()
    made.objective.kind = kind
    with torch.no_grad():
        found = [objective_of(made).loss(model, batch).sums for batch in batches]
    return {name: sum(float(sums[name]) for sums in found) for name in found[0]}


def test_validation_of_two_language_models_judges_each_as_if_it_were_alone():
    """Both directions predict every ordinary word and nothing else, so that each compares with the unigram figure."""
    tokens = np.random.default_rng(3).integers(FIRST_ORDINARY, 61, 3000).astype(np.uint32)
    tokens[::7] = UNKNOWN
    store = make_store([[20, 30]] * 60, held_out=range(6), tokens=tokens, vocabulary_size=61)
    pair = {"backbone": "bilstm", "directions": "pair", "next_sentence": False}
    forward, backward = (toy_model(attention=attention, **pair).eval() for attention in ("causal", "anticausal"))
    backward.load_state_dict(forward.state_dict())
    rightward = data(store, config("ltr", 8, 24), predict="next").validation_batches(24)
    leftward = data(store, config("rtl", 8, 24), predict="previous").validation_batches(24)
    ltr, rtl = figures(rightward, forward, "ltr"), figures(leftward, backward, "rtl")
    assert (ltr["opposite_loss"], ltr["opposite_correct"]) == pytest.approx((rtl["language_loss"], rtl["correct"]))
    assert (rtl["opposite_loss"], rtl["opposite_correct"]) == pytest.approx((ltr["language_loss"], ltr["correct"]))
    expected, words = 0.0, 0
    for batch in rightward:
        lengths = batch.offsets.diff().tolist()
        for states, line in zip(forward(batch).detach().split(lengths), batch.tokens.split(lengths), strict=True):
            for place in (place for place, word in enumerate(line.tolist()) if word >= FIRST_ORDINARY):
                logits = forward.language_logits(states[place + 1 : place + 2, 8:]).detach()
                expected += float(torch.nn.functional.cross_entropy(logits, line[place : place + 1]))
                words += 1
    assert ltr["opposite_loss"] == pytest.approx(expected, rel=1e-5)
    assert ltr["predicted"] == rtl["predicted"] == words > 100


def test_validation_batches_are_bounded():
    store = make_store([[20] * 2000] * 2 + [[20] * 100] * 4, held_out=[0, 1])
    made = config()
    batches = validation(store, made)
    assert sum(batch.sequences for batch in batches) == 512
    assert all(batch.tokens.numel() <= 16384 for batch in batches)
    for batch in batches:
        check_sound(batch)
    made.validation.sequences = 8
    few = validation(store, made)
    assert sum(batch.sequences for batch in few) == 8
    assert joined(few)["tokens"] == joined(batches)["tokens"][: len(joined(few)["tokens"])]


@pytest.mark.parametrize("held_out", [2, 3, 5, 7, 22])
@pytest.mark.parametrize("at_most", [1, 10, 512])
def test_exactly_half_of_the_pairs_validated_on_are_true_however_few_there_are(held_out, at_most):
    store = make_store([[8, 9]] * 40, held_out=range(held_out))  # at length 24 each document gives one pair of 17 words
    made = config()
    made.validation.sequences = at_most
    built = data(store, made)
    flat = joined(built.validation_batches(24))
    count = len(flat["next_sentence"])
    assert sum(flat["next_sentence"]) == count / 2
    assert built.validation_sequences(24) == (count, held_out)
    assert count == max(4, min(held_out, at_most) // 4 * 4)
    single = config("mlm")
    single.validation.sequences = at_most
    assert data(store, single).validation_sequences(24) == (min(held_out, at_most), held_out)


def test_more_devices_than_sequences_are_refused(store):
    with pytest.raises(UserError, match=r"24 sequences .* 25 devices"):
        data(store, config(), world=25)


@given(st.integers(0, 200), st.integers(1, 50))
def test_shares_are_even_and_complete(count, parts):
    shares = [share_of(count, part, parts) for part in range(parts)]
    assert [n for first, end in shares for n in range(first, end)] == list(range(count))
    sizes = [end - first for first, end in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("sequences", "world", "micro"), [(7, 2, 3), (256, 3, 85), (100, 8, 12), (24, 5, None)])
def test_every_rank_has_as_many_micro_batches(store, sequences, world, micro):
    counts = {len(data(store, config(sequences=sequences, micro=micro), rank, world)[0].micro_batches) for rank in range(world)}
    assert len(counts) == 1
    largest = max(
        batch.sequences
        for rank in range(world)
        for batch in data(store, config(sequences=sequences, micro=micro), rank, world)[0].micro_batches
    )
    assert micro is None or largest <= micro


@pytest.mark.parametrize("sequences", [10, 13, 24])
def test_a_batch_is_cut_alike_by_ranks_and_by_micro_batches(store, sequences):
    """Four ranks, two with two micro-batches each, and one with four have the same pieces, whose places tell their noise."""
    cuts = []
    for world, micro in ((4, None), (2, -(-sequences // 4)), (1, -(-sequences // 4))):
        made = config(sequences=sequences, micro=micro)
        pieces = [batch for rank in range(world) for batch in data(store, made, rank, world)[3].micro_batches]
        cuts.append([(batch.place, batch.sequences, batch.tokens.tolist()) for batch in pieces])
    assert cuts[0] == cuts[1] == cuts[2]
    assert len(cuts[0]) == 4
    places = [place for place, _, _ in cuts[0]]
    assert places == [sum(count for _, count, _ in cuts[0][:number]) for number in range(4)]


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_ranks_with_parts_of_the_weights_validate_as_many_batches_each(store, world):
    made = config()
    expected = validation(store, made)
    made.trainer.strategy = "fsdp"
    shares = [validation(store, made, rank=rank, world=world) for rank in range(world)]
    assert {len(share) for share in shares} == {-(-len(expected) // world)}
    counted = [batch for share in shares for batch in share if batch.counts]
    assert joined(counted) == joined(expected)
    assert [batch.place for batch in counted] == [batch.place for batch in expected] == list(range(len(expected)))


def test_what_is_normalised_together_follows_from_the_identity(store):
    """One cut of the statistics is one set of sequences for each micro-batch of all ranks, and the whole batch where nothing is cut."""
    groups = {}
    for world, micro in itertools.product((1, 2, 4), (None, 2, 3, 4, 6, 12, 24)):
        made = config(micro=micro)
        made.norm.kind = "batch"
        ranks = [data(store, made, rank, world)[3].micro_batches for rank in range(world)]
        together = [sorted(tuple(tokens) for batch in at_once for tokens in sequences_of(batch)) for at_once in zip(*ranks, strict=True)]
        groups.setdefault(str(cut_of_statistics(micro, world, 24)), []).append(together)
    assert all(together == found[0] for found in groups.values() for together in found)
    assert len(groups["None"]) == 9
    assert [len(group) for group in groups["None"][0]] == [24]
    assert groups["6"][0] != groups["[3, 2]"][0]


def sequences_of(batch):
    return [batch.tokens[first:end].tolist() for first, end in itertools.pairwise(batch.offsets.tolist())]


def test_parted_weights_refuse_unequal_numbers_of_micro_batches(store):
    made = config(sequences=7, micro=1)
    made.trainer.strategy = "fsdp"
    with pytest.raises(UserError, match="micro-batches of 1"):
        data(store, made, 0, 2)


def test_batch_norm_refuses_unequal_numbers_of_micro_batches(store):
    made = config(sequences=7, micro=1)
    assert [len(data(store, made, rank, 2)[0].micro_batches) for rank in range(2)] == [3, 4]
    made.norm.kind = "batch"
    with pytest.raises(UserError, match="micro-batches of 1"):
        data(store, made, 0, 2)


@pytest.mark.parametrize(("kind", "predict", "step"), [("ltr", "next", 1), ("rtl", "previous", -1)])
def test_validation_predicts_every_ordinary_word_and_nothing_else(store, kind, predict, step):
    flat = joined(validation(store, config(kind), predict=predict))
    tokens, ordinary = np.array(flat["tokens"]), set(store.vocabulary.ordinary.tolist())
    # By hand: a word's neighbour in its sequence predicts it; each sequence opens with a special token and closes with one.
    expected = [index - step for index, token in enumerate(tokens.tolist()) if token in ordinary]
    assert sorted(flat["predicted"]) == expected
    assert tokens[np.array(flat["predicted"]) + step].tolist() == flat["targets"]
