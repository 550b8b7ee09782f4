"""Examples as numbers: the sequences of a split, flat, with what is to be predicted of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Inputs:
    """E examples as S sequences of N tokens in all, none of them padding.

    Classification and regression: a sequence an example. Choice: a sequence a choice. Tagging: a sequence, or several where the
    sentence is longer than a sequence may be; each of its words is predicted in exactly one of them. Span: a sequence a window. The
    sequences of an example stand together, in order. Every array is None where it is not of the task's kind.
    """

    tokens: NDArray[Any]  # (N,) uint16 or int32
    offsets: NDArray[np.int64]  # (S + 1,) of sequences in ``tokens``
    boundaries: NDArray[np.int32]  # (S,) where segment B begins in the sequence; its length where there is none
    first_sequence: NDArray[np.int64]  # (E + 1,) of each example
    # (E,) int64 classes or choices, or float32 numbers; -1 or NaN where it is not known; None where that holds of every example
    labels: NDArray[Any] | None = None
    # Tagging: the W words to be predicted, in order.
    word_tokens: NDArray[np.int64] | None = None  # (W,) flat index of the word's first sub-token, ascending
    word_offsets: NDArray[np.int64] | None = None  # (E + 1,) of the examples in the words
    tags: NDArray[np.int64] | None = None  # (W,), -1 where it is not known; None where that holds of every word
    # Span: what windows cover and where the answer lies. -1 where it is not known; None where that holds of every example.
    starts: NDArray[np.int64] | None = None  # (S,) place in the sequence of the answer's first token; 0, [CLS]: not in this window
    ends: NDArray[np.int64] | None = None  # (S,) of its last token
    context_begins: NDArray[np.int64] | None = None  # (S,) where the context's tokens begin in the sequence; they end before its [SEP]
    characters: NDArray[np.int32] | None = None  # (N, 2) of a context's tokens: where they begin and end in the context's characters
    max_context: NDArray[np.bool_] | None = None  # (N,) whether the token has more context in this window than in any other

    @property
    def examples(self) -> int:
        """E."""
        return len(self.first_sequence) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(S,) tokens of each sequence."""
        return np.diff(self.offsets)

    @property
    def tokens_per_example(self) -> NDArray[np.int64]:
        """(E,) tokens of all sequences of each example."""
        return np.diff(self.offsets[self.first_sequence])
