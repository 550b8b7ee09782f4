from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from fake_stores import FIRST_ORDINARY, UNKNOWN, make_store, random_documents

from bertlab.data import unigram
from bertlab.data.unigram import count_tokens, unigram_baseline


def text_store(seed=0, documents=40, vocabulary=60):
    sizes = random_documents(seed, documents)
    generator = np.random.default_rng(seed)
    frequencies = 1 / np.arange(1, vocabulary - FIRST_ORDINARY + 1)
    total = sum(map(sum, sizes))
    tokens = FIRST_ORDINARY + generator.choice(frequencies.size, size=total, p=frequencies / frequencies.sum())
    tokens[generator.random(total) < 0.05] = UNKNOWN
    return make_store(sizes, vocabulary, tokens=tokens.astype(np.uint16))


def by_hand(store, training, held_out):
    def words(documents):
        for d in documents:
            yield from (t for t in store.tokens[store.document_offsets[d] : store.document_offsets[d + 1]].tolist() if t != UNKNOWN)

    counts, held = Counter(words(training)), list(words(held_out))
    denominator = sum(counts.values()) + store.vocabulary.size - FIRST_ORDINARY
    return math.exp(-sum(math.log((counts[t] + 1) / denominator) for t in held) / len(held))


def test_perplexity_by_hand():
    store = text_store()
    held_out = np.array([3, 4, 17])
    training = np.setdiff1d(np.arange(40), held_out)
    assert unigram_baseline(store, training, held_out).perplexity == pytest.approx(by_hand(store, training, held_out), rel=1e-12)


def test_even_words_give_the_size_of_the_vocabulary():
    store = make_store([[50] * 20] * 2, 15, tokens=np.tile(np.arange(5, 15), 200).astype(np.uint16))
    assert unigram_baseline(store, np.array([0]), np.array([1])).perplexity == pytest.approx(10)


def test_counting_in_pieces_counts_every_token_once(monkeypatch):
    store = text_store(seed=4)
    documents = np.array([0, 5, 6, 30])
    flat = np.concatenate([store.tokens[store.document_offsets[d] : store.document_offsets[d + 1]] for d in documents])
    expected = np.bincount(flat, minlength=60)
    for piece in (1, 7, 64, 1000, 1 << 20):
        monkeypatch.setattr(unigram, "_PIECE", piece)
        assert count_tokens(store, documents).tolist() == expected.tolist()


def test_a_large_corpus_is_sampled_evenly(monkeypatch):
    store = text_store(seed=2, documents=600)
    monkeypatch.setattr(unigram, "_PIECE", 64)
    everything, sample = count_tokens(store, np.arange(600)), count_tokens(store, np.arange(600), limit=30_000)
    assert 15_000 < sample.sum() < 40_000
    shares, sampled = everything / everything.sum(), sample / sample.sum()
    assert np.abs(shares - sampled).max() < 5 * (shares.max() / sample.sum()) ** 0.5
