"""Tokenising by looking words up: the ids of ``tokenizers``, several times as fast.

BERT's clean-up works character by character, and its words end at spaces and at punctuation. So a text's ids are the ids of
its words after one another, wherever it is cut at spaces and around ASCII punctuation; and most words have been met before.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bertlab.data.tokenizer import Vocabulary

# A run of characters that are neither the space nor ASCII punctuation, or one punctuation mark. Other white space and punctuation stays
# inside the runs, where the tokenizer deals with it. So does "_": an added token that must be a word by itself is not taken beside it.
_RUNS = re.compile(r"[^ !-/:-@\[-^`{-~]+|[!-/:-@\[-^`{-~]")
_MOST_WORDS = 400_000  # remembered; about 100 MB
_LONGEST_WORD = 50  # characters of a word that is remembered


class WordTokenizer:
    """Turns texts into the bytes of their ids; a special token's name in a text is taken as ordinary text."""

    def __init__(self, vocabulary: Vocabulary, dtype: np.dtype[Any]) -> None:
        """``dtype`` is the type of the ids."""
        self._words = _Words(vocabulary, dtype)
        self._lookup = self._words.__getitem__

    def __call__(self, text: str) -> bytes:
        """The ids of ``text``, one after the other."""
        return b"".join(map(self._lookup, _RUNS.findall(text)))


class _Words(dict[str, bytes]):
    """Words → the bytes of their ids, tokenised when they are first met."""

    def __init__(self, vocabulary: Vocabulary, dtype: np.dtype[Any]) -> None:
        self._encoder = vocabulary.plain_encoder()
        self._dtype = dtype

    def __missing__(self, word: str) -> bytes:
        ids = np.array(self._encoder.encode(word, add_special_tokens=False).ids, dtype=self._dtype).tobytes()
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = ids
        return ids
