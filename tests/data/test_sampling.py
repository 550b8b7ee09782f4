from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from fake_stores import CLS, FIRST_ORDINARY, SEP, make_store, random_documents
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlab.data.sampling import SequenceSampler
from bertlab.errors import UserError

KEY = np.uint64(20181011)


def sampler(store, length=32, key=KEY, documents=None, **options):
    documents = np.arange(store.documents) if documents is None else documents
    return SequenceSampler(store, documents, length, key, **{"pair": True, **options})


def segments_of(sequences):
    """For each sequence the places in the store of the tokens of A, and of B (None where there is no B); checks the framing."""
    found = []
    for first, end in zip(sequences.offsets[:-1], sequences.offsets[1:], strict=True):
        tokens, segments = sequences.tokens[first:end], sequences.segments[first:end]
        assert sequences.positions[first:end].tolist() == list(range(end - first))
        assert tokens[0] == CLS
        assert tokens[-1] == SEP
        separators = np.flatnonzero(tokens == SEP)
        pieces = np.split(tokens, separators + 1)[:-1]
        pieces[0] = pieces[0][1:]
        assert 1 <= len(pieces) <= 2
        assert segments.tolist() == [0] * (separators[0] + 1) + [1] * (end - first - separators[0] - 1)
        places = [piece[:-1] - FIRST_ORDINARY for piece in pieces]
        for piece in places:
            assert piece.size
            assert (np.diff(piece) == 1).all()
        found.append((places[0], places[1] if len(places) == 2 else None))
    return found


def same(left, right):
    return all(np.array_equal(getattr(left, f.name), getattr(right, f.name)) for f in fields(left))


def joined_places(sequences):
    return np.concatenate([np.concatenate([piece for piece in pieces if piece is not None]) for pieces in segments_of(sequences)])


@pytest.fixture(scope="module")
def store():
    return make_store(random_documents(1, 60, sentences=(2, 40), words=(2, 25)))


def test_every_token_is_in_exactly_one_sequence_of_a_pass(store):
    single = sampler(store, length=23, pair=False)
    for epoch in range(3):
        places = joined_places(single.draw(epoch * single.epoch_length, single.epoch_length))
        assert np.array_equal(np.sort(places), np.arange(store.tokens.size))


def test_pairs_part_a_document_too():
    """Where no window has to move: documents of whole chunks, each with a start of a sentence."""
    store = make_store([[6, 5, 2, 6, 6, 1] * (n + 1) for n in range(8)])  # 26 tokens each time; room for 13
    pairs = sampler(store, length=16)
    places = joined_places(pairs.draw(0, pairs.epoch_length))
    assert np.array_equal(np.sort(places), np.arange(store.tokens.size))


def test_the_number_of_sequences_is_what_the_documents_need(store):
    sizes = np.diff(store.document_offsets)
    assert sampler(store, length=23, pair=False).epoch_length == np.ceil(sizes / 21).sum()
    assert sampler(store, length=23).epoch_length == np.ceil(sizes / 20).sum()


def test_passes_cut_at_different_and_evenly_spread_places():
    """In each document anew: how one is cut tells nothing of how another is."""
    store = make_store([[1] * 95] * 2)  # 10 chunks of room 10 each, so offsets 0 to 5
    single = sampler(store, length=12, pair=False)
    cuts = []
    for epoch in range(1200):
        spans = single.spans(epoch * 20, 20)
        starts = np.sort(spans.start).reshape(2, 10) - [[0], [95]]
        assert (np.diff(starts[:, 1:]) == 10).all()
        cuts.append(starts[:, 1])
    first, second = 10 - np.array(cuts).T
    counts = np.bincount(6 * first + second, minlength=36)
    assert counts.size == 36
    assert ((counts - 1200 / 36) ** 2 / (1200 / 36)).sum() < 90  # 35 degrees of freedom, one in a million


def test_epochs_come_in_different_orders(store):
    single = sampler(store, length=23, pair=False)
    first, second = (single.spans(n * single.epoch_length, single.epoch_length) for n in (0, 1))
    assert np.array_equal(np.sort(first.row), np.sort(second.row))
    assert np.count_nonzero(first.row == second.row) < first.row.size / 4
    assert abs(np.corrcoef(np.arange(first.row.size), first.row)[0, 1]) < 5 / first.row.size**0.5


def test_keys_give_other_streams(store):
    assert not same(sampler(store, key=np.uint64(1)).draw(0, 64), sampler(store, key=np.uint64(2)).draw(0, 64))


@given(st.integers(0, 4000), st.lists(st.integers(1, 700), min_size=1, max_size=5), st.booleans())
@settings(max_examples=30)
def test_a_stretch_of_the_stream_is_its_parts_joined(store, first, counts, pair):
    whole = sampler(store, pair=pair, next_sentence=pair, short_probability=0.2).draw(first, sum(counts))
    made = sampler(store, pair=pair, next_sentence=pair, short_probability=0.2)
    parts = [made.draw(first + sum(counts[:n]), count) for n, count in enumerate(counts)]
    for name in ("tokens", "segments", "positions", "places", *(["next_sentence"] if pair else [])):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    assert np.array_equal(np.concatenate([part.lengths for part in parts]), whole.lengths)


def test_single_draws_equal_a_joint_one(store):
    made = sampler(store, next_sentence=True)
    whole = made.draw(1018, 12)  # over the boundary of the blocks that are found at once
    for n in range(12):
        one = made.draw(1018 + n, 1)
        assert np.array_equal(one.tokens, whole.tokens[whole.offsets[n] : whole.offsets[n + 1]])
        assert one.next_sentence[0] == whole.next_sentence[n]


def test_of_every_four_one_pair_gets_another_document(store):
    labels = sampler(store, next_sentence=True).draw(0, 4000).next_sentence.reshape(-1, 2, 2)
    assert (labels[:, :, 0] == labels[:, :, 1]).all()
    assert (labels[:, :, 0].sum(axis=1) == 1).all()
    coins = labels[:, 0, 0]
    assert abs(coins.mean() - 0.5) < 5 * 0.5 / 1000**0.5
    assert abs(np.corrcoef(coins[1:], coins[:-1])[0, 1]) < 5 / 1000**0.5  # each four has a coin of its own


def test_b_follows_a_or_is_from_another_document(store):
    sequences = sampler(store, next_sentence=True, short_probability=0.1).draw(0, 3000)
    assert sequences.lengths.max() <= 32
    for (a, b), label in zip(segments_of(sequences), sequences.next_sentence, strict=True):
        document_a, document_b = store.document_of(a), store.document_of(b)
        assert (document_a == document_a[0]).all()
        assert (document_b == document_b[0]).all()
        if label == 0:
            assert b[0] == a[-1] + 1
        assert (document_a[0] != document_b[0]) == label


def test_the_boundary_is_that_of_sentences(store):
    """Under both labels A ends with a sentence, and B begins one that does not open its document."""
    sequences = sampler(store, next_sentence=True, short_probability=0.1).draw(0, 3000)
    starts, openings = set(store.sentence_offsets.tolist()), set(store.document_offsets.tolist())
    for a, b in segments_of(sequences):
        assert a[-1] + 1 in starts
        assert b[0] in starts
        assert b[0] not in openings


def test_the_split_is_any_start_of_a_sentence_inside_alike():
    store = make_store([[4] * 50] * 2)
    spans = sampler(store, length=35).spans(0, 12_000)  # chunks of 32 tokens
    whole = (spans.second_end - spans.start == 32) & ((spans.start - store.document_offsets[spans.row]) % 4 == 0)
    ends_of_a = ((spans.split - spans.start)[whole]) // 4  # 1 to 7 sentences
    counts = np.bincount(ends_of_a, minlength=8)[1:]
    assert whole.sum() > 500
    assert counts.size == 7
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 40  # six degrees of freedom


def test_an_exchanged_b_is_as_long_as_the_true_one(store):
    """Exactly, or where the true one ends its document, as nearly as another document's sentences allow."""
    true = sampler(store, length=64).spans(0, 6000)
    exchanged = sampler(store, length=64, next_sentence=True).spans(0, 6000)
    assert np.array_equal(true.start, exchanged.start)
    assert np.array_equal(true.split, exchanged.split)
    changed = exchanged.label == 1
    assert np.array_equal(true.second_start[~changed], exchanged.second_start[~changed])
    assert np.array_equal(true.second_end[~changed], exchanged.second_end[~changed])
    true_size, size = (true.second_end - true.second_start)[changed], (exchanged.second_end - exchanged.second_start)[changed]
    closed = np.isin(true.second_end[changed], store.document_offsets)
    assert (size == true_size)[~closed].mean() > 0.999  # short only where no tried document had the room
    assert (size <= true_size)[~closed].all()
    assert np.isin(exchanged.second_end[changed][closed], store.sentence_offsets).mean() > 0.9  # but for the shortest
    assert abs((size - true_size)[closed].mean()) < 1.5
    assert np.abs(size - true_size)[closed].max() <= 25  # a sentence at most
    starts, rooms = exchanged.second_start[changed], 61 - (exchanged.split - exchanged.start)[changed]
    for index in np.flatnonzero(closed & np.isin(exchanged.second_end[changed], store.sentence_offsets)):
        ends = store.sentence_offsets - starts[index]  # of sentences of this and other documents
        last = store.document_offsets[store.document_of(starts[index]) + 1] - starts[index]
        ends = ends[(ends > 0) & (ends <= min(last, rooms[index]))]
        assert abs(size[index] - true_size[index]) == np.abs(ends - true_size[index]).min()


@pytest.mark.parametrize("words", [(2, 25), (10, 60)])
def test_lengths_and_ends_tell_nothing_about_the_label(words):
    store = make_store(random_documents(3, 400, sentences=(2, 12), words=words))  # many documents of a single chunk
    spans = sampler(store, length=128, next_sentence=True, short_probability=0.1).spans(0, 20_000)
    first, second = spans.split - spans.start, spans.second_end - spans.second_start
    ends_sentence = np.isin(spans.second_end, store.sentence_offsets)
    for statistic, bound in [(first, 0.03), (second, 0.05), (first + second, 0.05)]:
        true, false = (np.sort(statistic[spans.label == label]) for label in (0, 1))
        values = np.unique(statistic)
        gap = np.abs(np.searchsorted(true, values, "right") / true.size - np.searchsorted(false, values, "right") / false.size)
        assert gap.max() < bound, bound  # Kolmogorov–Smirnov; 0.02 is the noise of 2 x 10,000
    assert abs(ends_sentence[spans.label == 0].mean() - ends_sentence[spans.label == 1].mean()) < 0.03


def test_a_dropped_b_is_what_the_neighbour_gets(store):
    true = sampler(store, length=64).spans(0, 2000)
    exchanged = sampler(store, length=64, next_sentence=True).spans(0, 2000)
    changed = np.flatnonzero(exchanged.label)
    partner = changed ^ 1
    kept = exchanged.second_start[changed] == true.second_start[partner]
    assert kept.mean() > 0.6
    assert (true.row[partner][kept] != true.row[changed][kept]).all()
    # Or text of the same document, wherever that has as much behind its first sentence.
    own, other = true.row[changed], true.row[partner]
    second = store.sentence_offsets[store.document_sentences[other] + 1]
    has_room = second + (true.second_end - true.second_start)[changed] <= store.document_offsets[other + 1]
    fits = has_room & (other != own)
    assert (store.document_of(exchanged.second_start[changed]) == other)[fits].all()
    assert fits.mean() > kept.mean() + 0.05


def test_a_neighbour_of_the_same_document_gives_nothing():
    """One document is half of the corpus: its sequences are often each other's neighbours. The others come by their shares of the rest."""
    store = make_store([[5] * 290, [5] * 58, [5] * 232])  # 50, 10 and 40 chunks of 29
    sequences = sampler(store, next_sentence=True).draw(0, 2000)
    from_others = []
    for (a, b), label in zip(segments_of(sequences), sequences.next_sentence, strict=True):
        documents = store.document_of(a[0]), store.document_of(b[0])
        assert (documents[0] != documents[1]) == label
        if label and documents[0] == 0:
            from_others.append(int(documents[1]))
    counts = np.bincount(from_others, minlength=3)
    assert counts[0] == 0
    assert abs(counts[2] / counts.sum() - 0.8) < 5 * (0.16 / counts.sum()) ** 0.5


@pytest.mark.parametrize(("sentences", "starts"), [([5] * 10, range(5, 41, 5)), ([50], range(1, 44))])
def test_a_b_from_elsewhere_begins_at_any_start_with_room_behind_it(sentences, starts):
    """But the document's own; in a document of a single sentence at any token."""
    made = sampler(make_store([sentences] * 2))
    count = 100 * len(starts)
    row, size = np.zeros(count, np.int64), np.full(count, 7)
    found, counts = np.unique(made._random_start(row, size, (np.arange(count) + 0.5) / count), return_counts=True)
    assert (found.tolist(), set(counts.tolist())) == (list(starts), {100})
    assert set(made._latest_start(row, size).tolist()) == {max(starts)}
    none = np.full(count, 50)
    assert set(made._random_start(row, none, np.zeros(count)).tolist()) == set(made._latest_start(row, none).tolist()) == {-1}


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_short_sequences(share):
    store = make_store([[1] * 3000] * 4)
    whole = sampler(store, length=23, pair=False).spans(0, 30_000)
    short = sampler(store, length=23, pair=False, short_probability=share).spans(0, 30_000)
    full = whole.split - whole.start == 21
    size = (short.split - short.start)[full]
    count = full.sum()
    expected = np.full(22, share * count / 20)
    expected[:2] = 0
    expected[21] += (1 - share) * count
    counts = np.bincount(size, minlength=22)
    assert counts[:2].sum() == 0
    assert ((counts - expected)[2:] ** 2 / expected[2:]).sum() < 65  # 19 degrees of freedom, one in a million
    cut = full & (short.split - short.start < 21)
    at_front = (short.start > whole.start)[cut]
    assert (at_front ^ (short.split < whole.split)[cut]).all()
    assert abs(at_front.mean() - 0.5) < 5 * 0.5 / cut.sum() ** 0.5


def test_how_short_a_sequence_is_where_it_is_cut_and_where_it_is_split_are_independent():
    store = make_store([[1] * 3000] * 4)
    whole, short = (sampler(store, length=33, short_probability=share).spans(0, 20_000) for share in (0.0, 1.0))
    size, at_front = short.second_end - short.start, short.start > whole.start
    proportion = (short.split - short.start - 0.5) / (size - 1)  # of 1 to size - 1 tokens: 0.5 on average, whatever the size
    cut = (whole.second_end - whole.start == 30) & (size < 30)
    correlations = np.corrcoef([size[cut], at_front[cut], proportion[cut]])
    assert np.abs(correlations[np.triu_indices(3, 1)]).max() < 5 / cut.sum() ** 0.5


def uses(made, first, count):
    """How often each chunk (document, number) is in a stretch of the stream."""
    order = made._order.locate(np.arange(first, first + count))
    keys, counts = np.unique(order.rows * 10_000 + order.chunks, return_counts=True)
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


def test_weights_are_how_often_an_epoch_sees_a_source():
    documents = random_documents(5, 90, sentences=(1, 20), words=(1, 20))
    store = make_store(documents, weights=[(30, 1.0), (40, 2.0), (20, 0.5)])
    made = sampler(store, pair=False)
    chunks = np.ceil(np.diff(store.document_offsets) / 30).astype(int)
    sizes = [chunks[:30].sum(), chunks[30:70].sum(), chunks[70:].sum()]
    assert made.epoch_length == sizes[0] + 2 * sizes[1] + round(sizes[2] / 2)
    seen = uses(made, 0, made.epoch_length)
    assert {seen[d * 10_000 + k] for d in range(30) for k in range(chunks[d])} == {1}
    assert {seen[d * 10_000 + k] for d in range(30, 70) for k in range(chunks[d])} == {2}
    third = [seen.get(d * 10_000 + k, 0) for d in range(70, 90) for k in range(chunks[d])]
    assert sum(third) == round(sizes[2] / 2)
    assert max(third) == 1


def test_a_fractional_weight_goes_through_the_whole_source_in_turns():
    store = make_store([[1] * 1000, [1] * 1010], weights=[(1, 1.0), (1, 0.25)])
    made = sampler(store, length=12, pair=False)  # 100 and 101 chunks; 25 of the second an epoch
    counts = [uses(made, n * made.epoch_length, made.epoch_length) for n in range(9)]
    assert {sum(count for key, count in seen.items() if key >= 10_000) for seen in counts} == {25}
    epochs = [[key for key in seen if key >= 10_000] for seen in counts]
    assert len(set().union(*epochs[:4])) == 100
    assert set().union(*epochs[:5]) == {10_000 + k for k in range(101)}
    means = [np.mean(keys) - 10_000 for keys in epochs]
    assert all(20 < mean < 80 for mean in means)  # each a random part, not a stretch from the front: that would be 12, 37, …
    assert epochs[0] != epochs[4]


def test_each_pass_and_each_source_has_an_order_of_its_own():
    made = sampler(make_store([[1] * 1000] * 3, weights=[(1, 1.0), (1, 0.25), (1, 0.25)]), length=12, pair=False)  # 100 chunks each
    seen = [uses(made, epoch * made.epoch_length, made.epoch_length) for epoch in (0, 4)]  # the first quarters of two passes
    quarters = {tuple(key % 10_000 for key in each if key // 10_000 == source) for each in seen for source in (1, 2)}
    assert [len(quarter) for quarter in quarters] == [25] * 4


def test_documents_left_out_are_not_seen(store):
    chosen = np.array([3, 50, 7, 20])
    sequences = sampler(store, documents=chosen, next_sentence=True).draw(0, 1000)
    assert set(store.document_of(joined_places(sequences)).tolist()) == set(chosen.tolist())


documents_of_any_shape = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=2, max_size=12)


@given(documents_of_any_shape, st.integers(5, 40), st.integers(0, 2**63), st.sampled_from([0.0, 0.5]))
@settings(max_examples=150)
def test_documents_of_any_shape_give_sound_pairs(documents, length, key, short_probability):
    """Long sentences, single sentences and documents of a token or two: framing, bounds, continuity and labels all the same."""
    store = make_store(documents)
    if np.count_nonzero(np.diff(store.document_offsets) >= 2) < 2:
        return
    sequences = sampler(store, length, np.uint64(key), next_sentence=True, short_probability=short_probability).draw(0, 60)
    assert sequences.lengths.max() <= length
    for (a, b), label in zip(segments_of(sequences), sequences.next_sentence, strict=True):
        documents_seen = [set(store.document_of(piece).tolist()) for piece in (a, b)]
        assert [len(seen) for seen in documents_seen] == [1, 1]
        assert (documents_seen[0] != documents_seen[1]) == label
        if label == 0:
            assert b[0] == a[-1] + 1
            document = documents_seen[0].pop()
            if store.document_sentences[document + 1] - store.document_sentences[document] > 1:
                assert b[0] in store.sentence_offsets


def test_a_chunk_within_one_sentence_moves_to_the_nearest_start_of_one():
    store = make_store([[3, 200, 4]] * 2)
    chunks, moved = sampler(store, length=22, pair=False).spans(0, 200), sampler(store, length=23).spans(0, 200)  # room for 20 each
    sides = {3: 0, 203: 0}
    for row, first, end, split in zip(chunks.row, chunks.start, chunks.split, moved.split, strict=True):
        begin = store.document_offsets[row]
        distances = {side: max(first - begin + 1 - side, side - (end - begin - 1), 0) for side in sides}  # zero where B can begin inside
        assert distances[split - begin] == min(distances.values())
        sides[split - begin] += 1
    assert min(sides.values()) > 50


def test_a_moved_window_lies_anywhere_about_its_split():
    spans = sampler(make_store([[100, 100]] * 2), length=23).spans(0, 4000)
    counts = np.bincount(spans.split - spans.start, minlength=20)
    assert counts[0] == 0
    assert counts.size == 20
    inner = counts[2:19]  # 1 and 19 come half as often again
    assert ((inner - inner.mean()) ** 2 / inner.mean()).sum() < 58  # sixteen degrees of freedom, one in a million


def test_next_sentence_needs_two_documents():
    with pytest.raises(UserError, match="another document"):
        sampler(make_store([[5, 5, 5], [1]]), next_sentence=True)
    with pytest.raises(UserError, match="another document"):
        sampler(make_store([[5, 5]] * 3), documents=np.array([1]), next_sentence=True)


def test_no_text_or_no_room_is_refused():
    with pytest.raises(UserError, match="no text"):
        sampler(make_store([[1], [1]]))
    with pytest.raises(UserError, match="no room"):
        sampler(make_store([[5, 5]]), length=4)


@pytest.mark.parametrize(("pair", "least"), [(False, 4), (True, 5)])
def test_the_least_length_is_told(store, pair, least):
    with pytest.raises(UserError, match=f"set it to {least} or more"):
        sampler(store, least - 1, pair=pair)
    assert sampler(store, least, pair=pair).draw(0, 50).lengths.max() == least
