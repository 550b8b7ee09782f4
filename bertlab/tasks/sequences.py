"""Texts → ids, and ids → sequences [CLS] A [SEP] or [CLS] A [SEP] B [SEP], laid flat."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertlab.arrays import Int64s
from bertlab.data.progress import progress_bar
from bertlab.data.ragged import offsets_of, ranges
from bertlab.data.tokenizer import Vocabulary
from bertlab.data.words import WordTokenizer

Say = Callable[[str], None]

TEXTS_AT_ONCE = 4096  # between reports of progress
WORTH_A_BAR = 3_000_000  # characters; fewer are tokenised in about a second


@dataclass(frozen=True)
class Rows:
    """n stretches of an array of ids. They may overlap, as the windows of a text do."""

    ids: NDArray[Any]  # (N,) uint16 or int32
    starts: Int64s  # (n,)
    lengths: Int64s  # (n,)

    @property
    def flat(self) -> NDArray[Any]:
        """The ids of all stretches, one after another."""
        return self.ids[ranges(self.starts, self.lengths)]

    def at(self, index: Int64s) -> Rows:
        """The stretches of these numbers."""
        return Rows(self.ids, self.starts[index], self.lengths[index])

    def cut(self, lengths: int | Int64s) -> Rows:
        """Each stretch's first ``lengths`` ids."""
        return Rows(self.ids, self.starts, np.minimum(self.lengths, lengths))


def id_type(vocabulary: Vocabulary) -> np.dtype[Any]:
    """The type that inputs keep ids in."""
    return np.dtype(np.uint16 if vocabulary.size <= 1 << 16 else np.int32)


_SURROGATES = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """The text with U+FFFD, which the tokenizer drops, for every lone half of a surrogate pair: JSON can hold them, UTF-8 cannot."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


class TextTokenizer:
    """Texts → ids without special tokens.

    What reads like a special token is ordinary text: transformers would let a "[MASK]" that somebody wrote, or a "[SEP]", stand for
    the real thing, and so a text could part itself. Every other text becomes the ids that transformers gives.
    """

    def __init__(self, vocabulary: Vocabulary, progress: bool, say: Say) -> None:
        self.vocabulary = vocabulary
        self.dtype = id_type(vocabulary)
        self._words = WordTokenizer(vocabulary, self.dtype)
        self._progress, self._say = progress, say

    def __call__(self, texts: Sequence[str]) -> Rows:
        """A stretch a text."""
        characters = sum(map(len, texts))
        encoded: list[bytes] = []
        with progress_bar("tokenising", characters, self._progress and characters >= WORTH_A_BAR, self._say) as bar:
            for first in range(0, len(texts), TEXTS_AT_ONCE):
                part = texts[first : first + TEXTS_AT_ONCE]
                encoded += map(self._words, map(encodable, part))
                bar.advance(sum(map(len, part)))
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded)) // self.dtype.itemsize
        return Rows(np.frombuffer(b"".join(encoded), self.dtype), offsets_of(lengths)[:-1], lengths)


@dataclass(frozen=True)
class Assembled:
    """S sequences of N tokens in all."""

    tokens: NDArray[Any]  # (N,)
    offsets: Int64s  # (S + 1,)
    boundaries: NDArray[np.int32]  # (S,) where B begins; the sequence's length where there is none


def assemble(vocabulary: Vocabulary, first: Rows, second: Rows | None = None, paired: NDArray[np.bool_] | None = None) -> Assembled:
    """[CLS] ``first`` [SEP], and after it ``second`` [SEP] where ``paired`` (n,) says so (None: everywhere); all rows are (n,)."""
    pairs = np.zeros(first.lengths.size, np.bool_)
    if second is not None:
        pairs = ~pairs if paired is None else paired
    boundaries = first.lengths + 2
    lengths = boundaries if second is None else boundaries + np.where(pairs, second.lengths + 1, 0)
    offsets = offsets_of(lengths)
    begins = offsets[:-1]
    tokens = np.empty(offsets[-1], first.ids.dtype)
    tokens[begins] = vocabulary.cls
    tokens[begins + boundaries - 1] = vocabulary.sep
    tokens[ranges(begins + 1, first.lengths)] = first.flat
    if second is not None:
        there = np.flatnonzero(pairs)
        tokens[offsets[1:][there] - 1] = vocabulary.sep
        tokens[ranges(begins[there] + boundaries[there], second.lengths[there])] = second.at(there).flat
    return Assembled(tokens, offsets, boundaries.astype(np.int32))
