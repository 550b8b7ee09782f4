from __future__ import annotations

import numpy as np
import pytest
from fake_stores import CLS, FIRST_ORDINARY, MASK, SEP, UNKNOWN, FakeVocabulary, make_store, random_documents
from hypothesis import given
from hypothesis import strategies as st

from bertlab.config import MaskingConfig
from bertlab.data.masking import Masker, predict_next, predict_previous
from bertlab.data.sampling import Sequences, SequenceSampler

KEY = np.uint64(42)
VOCABULARY = 205  # 200 ordinary ids


def sequences_of(tokens, lengths, first_place=0):
    lengths = np.array(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.concatenate([np.arange(n) for n in lengths])
    places = np.arange(first_place, first_place + lengths.size)
    return Sequences(np.array(tokens), np.zeros(len(tokens), np.int64), positions, offsets, places, None)


def framed(contents, first_place=0):
    """[CLS] … [SEP] around each list of ids."""
    tokens = [[CLS, *content, SEP] for content in contents]
    return sequences_of([token for content in tokens for token in content], [len(content) for content in tokens], first_place)


@pytest.fixture(scope="module")
def text():
    """Four thousand sequences of random text, short ones among them."""
    documents = random_documents(2, 300, sentences=(2, 40), words=(2, 25))
    total = sum(map(sum, documents))
    tokens = np.random.default_rng(0).integers(FIRST_ORDINARY, VOCABULARY, total).astype(np.uint16)
    store = make_store(documents, VOCABULARY, tokens=tokens)
    return SequenceSampler(store, np.arange(300), 64, KEY, pair=True, next_sentence=True, short_probability=0.3).draw(0, 4000)


def masker(key=KEY, starts_word=None, **config):
    return Masker(FakeVocabulary(VOCABULARY, starts_word=starts_word), MaskingConfig(**config), key)


def per_sequence(sequences, flat):
    return np.bincount(np.searchsorted(sequences.offsets, flat, side="right") - 1, minlength=sequences.places.size)


@pytest.mark.parametrize("rate", [0.15, 0.4, 0.01, 1.0])
def test_the_number_chosen_is_exact(text, rate):
    chosen = masker(rate=rate).choose(text)
    assert (np.diff(chosen) > 0).all()
    candidates = per_sequence(text, np.flatnonzero((text.tokens != CLS) & (text.tokens != SEP)))
    expected = [max(1, int(rate * count + 0.5)) for count in candidates]
    assert per_sequence(text, chosen).tolist() == expected


@given(st.lists(st.lists(st.integers(FIRST_ORDINARY, VOCABULARY - 1), min_size=1, max_size=12), min_size=1, max_size=9), st.booleans())
def test_short_sequences_have_one_at_least(contents, whole_word):
    sequences = framed(contents)
    chosen = masker(whole_word=whole_word).choose(sequences)
    assert per_sequence(sequences, chosen).tolist() == [max(1, int(0.15 * len(content) + 0.5)) for content in contents]


def test_special_tokens_are_never_chosen_changed_or_put_in(text):
    tokens = text.tokens.copy()
    tokens[np.random.default_rng(1).random(tokens.size) < 0.2] = UNKNOWN
    tokens[text.offsets[:-1]], tokens[text.offsets[1:] - 1] = CLS, SEP
    sequences = sequences_of(tokens, text.lengths)
    prediction = masker(rate=0.9, mask=0.3, keep=0.0, random=0.7).mask(sequences)
    assert (prediction.targets >= FIRST_ORDINARY).all()
    assert np.array_equal(prediction.targets, tokens[prediction.predicted])
    special = tokens < FIRST_ORDINARY
    assert np.array_equal(prediction.tokens[special], tokens[special])
    put_in = prediction.tokens[prediction.predicted]
    assert ((put_in >= FIRST_ORDINARY) | (put_in == MASK)).all()


def test_a_sequence_of_unknown_words_has_nothing_to_predict():
    sequences = framed([[UNKNOWN] * 5, [50] * 5])
    assert per_sequence(sequences, masker().choose(sequences)).tolist() == [0, 1]


def test_every_position_is_chosen_alike():
    sequences = framed([[7] * 20] * 20_000)
    counts = np.bincount(sequences.positions[masker().choose(sequences)], minlength=22)
    assert counts[[0, 21]].tolist() == [0, 0]
    assert counts.sum() == 3 * 20_000
    expected = 3_000
    assert ((counts[1:21] - expected) ** 2 / (expected * (1 - 3 / 20))).sum() < 65  # 19 degrees of freedom, one in a million


def test_pairs_of_positions_are_chosen_independently():
    """A choice of 2 of 5: each of the ten pairs alike, so the choice is no stride or run."""
    sequences = framed([[7] * 5] * 10_000)
    chosen = sequences.positions[masker(rate=0.4).choose(sequences)].reshape(-1, 2)
    counts = np.bincount(chosen[:, 0] * 6 + chosen[:, 1])
    counts = counts[counts > 0]
    assert counts.size == 10
    assert ((counts - 1000) ** 2 / 1000).sum() < 45


@pytest.mark.parametrize(
    "rates", [(0.8, 0.1, 0.1, 0, 0), (1, 0, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0.2, 0.8, 0, 0), (0.2, 0.1, 0.1, 0.4, 0.2), (0.8, 0, 0, 0, 0.2)]
)
def test_rates_of_the_corruptions(text, rates):
    config = dict(zip(("mask", "keep", "random", "zero", "noise"), rates, strict=True))
    prediction = masker(rate=0.5, **config).mask(text)
    chosen, total = prediction.predicted, prediction.predicted.size
    marked = np.concatenate([flat for flat in (prediction.zeroed, prediction.noised) if flat is not None] or [np.zeros(0, np.int64)])
    assert np.isin(marked, chosen).all()
    assert np.unique(marked).size == marked.size
    put_in = prediction.tokens[chosen]
    rest = ~np.isin(chosen, marked)
    unchanged = (put_in == prediction.targets) & rest
    assert np.array_equal(prediction.tokens[marked], text.tokens[marked])
    same_by_chance = config["random"] / 200
    counted = {
        "mask": (put_in == MASK).sum(),
        "keep": unchanged.sum() - total * same_by_chance,
        "random": ((put_in != MASK) & rest & ~unchanged).sum() + total * same_by_chance,
        "zero": 0 if prediction.zeroed is None else prediction.zeroed.size,
        "noise": 0 if prediction.noised is None else prediction.noised.size,
    }
    for kind, rate in config.items():
        bound = 5 * (total * rate * (1 - rate)) ** 0.5 + 5 * (total * same_by_chance) ** 0.5
        assert abs(counted[kind] - rate * total) <= bound, kind
    assert (prediction.zeroed is None, prediction.noised is None) == (config["zero"] == 0, config["noise"] == 0)
    untouched = np.setdiff1d(np.arange(text.tokens.size), chosen)
    assert np.array_equal(prediction.tokens[untouched], text.tokens[untouched])


def test_rates_that_miss_one_are_taken_in_proportion(text):
    """So a sum a little below 1, from rounding, leaves no share of the positions for a kind whose rate is 0."""
    prediction = masker(rate=1.0, mask=0.8, keep=0.0, random=0.1).mask(text)
    put_in, total = prediction.tokens[prediction.predicted], prediction.predicted.size
    assert abs((put_in == MASK).mean() - 8 / 9) < 5 * (8 / 81 / total) ** 0.5
    assert (put_in == prediction.targets).mean() < 2 / 9 / 200


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_random_words_are_even_over_the_vocabulary(text, share):
    """Also where a draw decides whether there is one: it tells nothing of which."""
    prediction = masker(rate=1.0, mask=1 - share, keep=0, random=share).mask(text)
    put_in = prediction.tokens[prediction.predicted]
    counts = np.bincount(put_in[put_in != MASK], minlength=VOCABULARY)
    assert counts[:FIRST_ORDINARY].sum() == 0
    expected = counts.sum() / 200
    assert ((counts[FIRST_ORDINARY:] - expected) ** 2 / expected).sum() < 312  # 199 degrees of freedom, one in a million


def test_the_input_is_left_alone(text):
    before = text.tokens.copy()
    masker(rate=1.0).mask(text)
    assert np.array_equal(text.tokens, before)


def test_masking_is_of_the_place_not_of_the_company(text):
    """A sequence is masked the same in whatever batch; at another place of the stream, or with another key, otherwise."""
    contents = [np.arange(10, 70).tolist()] * 6
    alone = [masker().mask(framed([content], first_place=n)) for n, content in enumerate(contents)]
    together = masker().mask(framed(contents))
    assert np.array_equal(together.tokens, np.concatenate([prediction.tokens for prediction in alone]))
    assert len({tuple(prediction.predicted.tolist()) for prediction in alone}) == 6
    assert masker(np.uint64(1)).mask(framed(contents)).predicted.tolist() != together.predicted.tolist()


@pytest.fixture(scope="module")
def starts_word():
    """Every second id continues a word."""
    starts = np.ones(VOCABULARY, np.bool_)
    starts[FIRST_ORDINARY + 1 :: 2] = False
    return starts


def words_of(sequences, starts_word):
    """For each token the number of its word; special tokens have none (-1)."""
    words, number = [], 0
    for first, end in zip(sequences.offsets[:-1], sequences.offsets[1:], strict=True):
        previous_special = True
        for token in sequences.tokens[first:end]:
            if token < FIRST_ORDINARY:
                words.append(-1)
                previous_special = True
                continue
            number += bool(starts_word[token] or previous_special)
            words.append(number)
            previous_special = False
    return np.array(words)


def test_whole_words_are_chosen_wholly(text, starts_word):
    chosen = masker(starts_word=starts_word, whole_word=True).choose(text)
    words = words_of(text, starts_word)
    assert words[chosen].min() >= 0
    assert np.array_equal(chosen, np.flatnonzero(np.isin(words, words[chosen])))


def test_whole_words_keep_the_rate(text, starts_word):
    """In expectation as many as without; never a whole word's size more."""
    whole = per_sequence(text, masker(starts_word=starts_word, whole_word=True).choose(text))
    single = per_sequence(text, masker().choose(text))
    longest = np.bincount(words_of(text, starts_word)[words_of(text, starts_word) >= 0]).max()
    assert (whole >= 1).all()
    assert (whole - single < longest).all()
    several = single >= 3  # where the rule of one word at least changes little
    difference = (whole - single)[several]
    assert abs(difference.mean()) < 5 * difference.std() / several.sum() ** 0.5 + 0.02


def test_long_words_are_chosen_as_often_as_short_ones():
    starts = np.ones(VOCABULARY, np.bool_)
    starts[100:] = False
    content = [10, 11, 12, 100, 100, 13, 14, 100, 15, 16, 17, 18, 100, 100, 100, 19, 20, 21, 22, 23]
    sequences = framed([content] * 20_000)
    chosen = masker(rate=0.3, starts_word=starts, whole_word=True).choose(sequences)
    rates = np.bincount(sequences.positions[chosen], minlength=22)[1:21] / 20_000
    assert abs(rates.mean() - 0.3) < 0.003
    assert abs(rates[12] - rates[0]) < 0.05  # a word of four pieces, and one of one


def test_next_and_previous():
    sequences = framed([[10, 11, 12], [20], [30, 31]])
    forward, backward = predict_next(sequences), predict_previous(sequences)
    assert forward.predicted.tolist() == [0, 1, 2, 3, 5, 6, 8, 9, 10]
    assert forward.targets.tolist() == [10, 11, 12, SEP, 20, SEP, 30, 31, SEP]
    assert backward.predicted.tolist() == [1, 2, 3, 4, 6, 7, 9, 10, 11]
    assert backward.targets.tolist() == [CLS, 10, 11, 12, CLS, 20, CLS, 30, 31]
    assert forward.tokens.tolist() == backward.tokens.tolist() == sequences.tokens.tolist()
