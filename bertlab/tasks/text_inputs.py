"""Single texts, pairs of them, and texts with several continuations as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertlab.arrays import Int64s
from bertlab.data.ragged import offsets_of
from bertlab.tasks.examples import ChoiceExample, TextExample
from bertlab.tasks.inputs import Inputs
from bertlab.tasks.sequences import Assembled, Rows, TextTokenizer, assemble


def text_inputs(examples: Sequence[TextExample], tokenizer: TextTokenizer, max_length: int, regression: bool) -> Inputs:
    """A sequence an example: classification and, where ``regression``, numbers."""
    paired = np.array([example.pair is not None for example in examples], np.bool_)
    texts = tokenizer([example.text for example in examples])
    pairs = tokenizer([example.pair or "" for example in examples]) if paired.any() else None
    labels = [example.label for example in examples]
    return _inputs(_sequences(tokenizer, texts, pairs, paired, max_length), np.arange(len(examples) + 1), known(labels, regression))


def choice_inputs(examples: Sequence[ChoiceExample], tokenizer: TextTokenizer, max_length: int) -> Inputs:
    """A sequence a choice; examples may have different numbers of them."""
    counts = np.array([len(example.choices) for example in examples], np.int64)
    texts = tokenizer([example.text for example in examples]).at(np.repeat(np.arange(len(examples)), counts))
    choices = tokenizer([choice for example in examples for choice in example.choices])
    paired = np.ones(choices.lengths.size, np.bool_)
    labels = [example.label for example in examples]
    return _inputs(_sequences(tokenizer, texts, choices, paired, max_length), offsets_of(counts), known(labels, False))


def _inputs(sequences: Assembled, first_sequence: Int64s, labels: NDArray[Any] | None) -> Inputs:
    return Inputs(sequences.tokens, sequences.offsets, sequences.boundaries, first_sequence, labels)


def _sequences(tokenizer: TextTokenizer, first: Rows, second: Rows | None, paired: NDArray[np.bool_], max_length: int) -> Assembled:
    """Cut to ``max_length`` and put together."""
    if second is None:
        return assemble(tokenizer.vocabulary, first.cut(max_length - 2))
    kept, kept_second = truncated(first.lengths, second.lengths, max_length - 3)
    first = first.cut(np.where(paired, kept, max_length - 2))
    return assemble(tokenizer.vocabulary, first, second.cut(kept_second), paired)


def truncated(first: Int64s, second: Int64s, room: int) -> tuple[Int64s, Int64s]:
    """The lengths of A and B, (n,) each, when tokens are taken from the end of the longer one until both fit into ``room``.

    Of two that are equally long B loses a token first, as in the released BERT (run_classifier.py): so where both are cut, A keeps the
    odd one.
    """
    share = room - room // 2
    kept = np.minimum(first, np.maximum(share, room - second))
    kept_second = np.minimum(second, np.maximum(room // 2, room - first))
    return kept, kept_second


def known(labels: Sequence[int | float | None], regression: bool) -> NDArray[Any] | None:
    """Labels as numbers, what is not known as NaN or -1; None where nothing is."""
    if all(label is None for label in labels):
        return None
    missing = np.nan if regression else -1
    return np.array([missing if label is None else label for label in labels], np.float32 if regression else np.int64)
