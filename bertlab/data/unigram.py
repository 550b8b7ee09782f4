"""What knowing word frequencies alone gives: the perplexity that a model must be far below to have learnt anything of context."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bertlab.arrays import Int64s
from bertlab.data.ragged import ranges

if TYPE_CHECKING:
    from bertlab.data.store import TokenStore


_PIECE = 1 << 20  # tokens read from a document at once
_LIMIT = 100_000_000  # tokens counted; of a larger corpus an even sample, which has the same frequencies to three digits


@dataclass(frozen=True)
class UnigramBaseline:
    """Add-one smoothed word frequencies of the training documents, on the held-out ones."""

    perplexity: float  # a held-out ordinary token


def unigram_baseline(store: TokenStore, training_ids: Int64s, held_out_ids: Int64s) -> UnigramBaseline:
    """The perplexity that a masked model's is to be compared with: both are over ordinary tokens only, special ones left out.

    With c(w) the count of w in training, N their sum and R the number of ordinary tokens, p(w) = (c(w) + 1) / (N + R).
    """
    ordinary = store.vocabulary.ordinary
    training, held_out = (count_tokens(store, documents)[ordinary] for documents in (training_ids, held_out_ids))
    log_probability = np.log(training + 1) - math.log(training.sum() + ordinary.size)
    return UnigramBaseline(perplexity=math.exp(-float(held_out @ log_probability) / max(int(held_out.sum()), 1)))


def count_tokens(store: TokenStore, documents: Int64s, limit: int = _LIMIT) -> Int64s:
    """(V,) how often each id occurs in these documents, or in an even sample of about ``limit`` tokens of them."""
    starts, sizes = _pieces(store, documents)
    starts, sizes = _even_sample(starts, sizes, limit)
    counts = np.zeros(store.vocabulary.size, np.int64)
    tokens = np.asarray(store.tokens)
    edges = np.searchsorted(np.cumsum(sizes), np.arange(_PIECE, sizes.sum() + _PIECE, _PIECE))  # groups of about a piece each
    for first, end in zip([0, *edges[:-1]], [*edges[:-1], sizes.size], strict=True):
        counts += np.bincount(tokens[ranges(starts[first:end], sizes[first:end])], minlength=counts.size)
    return counts


def _pieces(store: TokenStore, documents: Int64s) -> tuple[Int64s, Int64s]:
    """The documents as ranges (start, size) of at most ``_PIECE`` tokens."""
    first, end = store.document_offsets[documents], store.document_offsets[documents + 1]
    counts = -(-(end - first) // _PIECE)
    starts = np.repeat(first, counts) + ranges(np.zeros_like(counts), counts) * _PIECE
    return starts, np.minimum(np.repeat(end, counts) - starts, _PIECE)


def _even_sample(starts: Int64s, sizes: Int64s, limit: int) -> tuple[Int64s, Int64s]:
    total = int(sizes.sum())
    if total <= limit:
        return starts, sizes
    stride = -(-total // limit)
    return starts[::stride], sizes[::stride]
