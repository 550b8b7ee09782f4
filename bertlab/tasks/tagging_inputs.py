"""Words with tags as inputs: a word's first sub-token stands for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertlab.arrays import Int64s
from bertlab.data.ragged import offsets_of, ranges
from bertlab.tasks.examples import TaggingExample
from bertlab.tasks.inputs import Inputs
from bertlab.tasks.sequences import Rows, TextTokenizer, assemble


def tagging_inputs(examples: Sequence[TaggingExample], tokenizer: TextTokenizer, max_length: int, document_context: bool) -> Inputs:
    """A sequence a sentence, or several of a long one: each of its words is predicted once.

    A sentence that does not fit is cut between words, as late as possible. What room a sequence then has is filled with the words around
    it, half of it on either side where there are as many: those of the sentence, and with ``document_context`` those before and after it.
    """
    room = max_length - 2
    stream = _Stream(examples, tokenizer, room, document_context)
    example, first, end = _pieces(stream, room)
    left, right = _surroundings(stream, example, first, end, room)
    begins = stream.offsets[left]
    sequences = assemble(tokenizer.vocabulary, Rows(stream.ids, begins, stream.offsets[right] - begins))
    predicted = ranges(first, end - first)  # words, in the stream
    shift = sequences.offsets[:-1] + 1 - begins
    return Inputs(
        tokens=sequences.tokens,
        offsets=sequences.offsets,
        boundaries=sequences.boundaries,
        first_sequence=offsets_of(np.bincount(example, minlength=len(examples))),
        word_tokens=stream.offsets[predicted] + np.repeat(shift, end - first),
        word_offsets=offsets_of(stream.end - stream.first),
        tags=_tags(examples),
    )


def words_to_rows(words: Sequence[str], tokenizer: TextTokenizer, room: int) -> Rows:
    """The ids of each word, (n,) stretches, none of them empty: a word of control characters alone is unknown.

    A word with more sub-tokens than a sequence has room for loses the last of them.
    """
    rows = tokenizer(words)
    ids = np.append(rows.ids, np.array(tokenizer.vocabulary.unknown, tokenizer.dtype))
    empty = rows.lengths == 0
    return Rows(ids, np.where(empty, ids.size - 1, rows.starts), np.where(empty, 1, rows.lengths)).cut(room)


class _Stream:
    """The words of E examples, each after what stands before it and before what stands after it, one example after another.

    n words, N sub-tokens. A word is tokenised by itself, and so once, however often it occurs.
    """

    def __init__(self, examples: Sequence[TaggingExample], tokenizer: TextTokenizer, room: int, document_context: bool) -> None:
        numbers: dict[str, int] = {}
        stream: list[int] = []
        edges: list[tuple[int, int, int, int]] = []
        for example in examples:
            # Every word has a sub-token at least, so words farther away cannot be reached.
            before = example.before[-room:] if document_context else ()
            after = example.after[:room] if document_context else ()
            begin = len(stream)
            for words in (before, example.words, after):
                stream += [numbers.setdefault(word, len(numbers)) for word in words]
            first = begin + len(before)
            edges.append((begin, first, first + len(example.words), len(stream)))
        rows = words_to_rows(list(numbers), tokenizer, room).at(np.array(stream, np.int64))
        self.ids = rows.flat  # (N,)
        self.offsets = offsets_of(rows.lengths)  # (n + 1,) of the words
        # (E,) words where what may be read of each example begins, its own words begin and end, and what may be read ends.
        self.begin, self.first, self.end, self.stop = np.array(edges, np.int64).reshape(-1, 4).T


def _pieces(stream: _Stream, room: int) -> tuple[Int64s, Int64s, Int64s]:
    """The stretches of words that are predicted in a sequence: (example, first word, end), each (S,)."""
    pieces: list[tuple[int, int, int]] = []
    for example, (first, end) in enumerate(zip(stream.first.tolist(), stream.end.tolist(), strict=True)):
        while stream.offsets[end] - stream.offsets[first] > room:
            cut = int(np.searchsorted(stream.offsets, stream.offsets[first] + room, side="right")) - 1
            pieces.append((example, first, cut))
            first = cut
        pieces.append((example, first, end))
    example_of, firsts, ends = np.array(pieces, np.int64).reshape(-1, 3).T
    return example_of, firsts, ends


def _surroundings(stream: _Stream, example: Int64s, first: Int64s, end: Int64s, room: int) -> tuple[Int64s, Int64s]:
    """The words that each sequence shows: (first, end), each (S,)."""
    at_left = stream.offsets[first] - stream.offsets[stream.begin[example]]  # sub-tokens that there are
    at_right = stream.offsets[stream.stop[example]] - stream.offsets[end]
    spare = room - (stream.offsets[end] - stream.offsets[first])
    take_left = np.minimum(at_left, np.maximum(spare // 2, spare - at_right))
    left = np.searchsorted(stream.offsets, stream.offsets[first] - take_left, side="left")  # whole words only
    take_right = np.minimum(at_right, spare - (stream.offsets[first] - stream.offsets[left]))
    right = np.searchsorted(stream.offsets, stream.offsets[end] + take_right, side="right") - 1
    return left, right


def _tags(examples: Sequence[TaggingExample]) -> Int64s | None:
    """(W,) the tags, -1 where they are not known; None where none is."""
    if all(example.tags is None for example in examples):
        return None
    return np.array([tag for example in examples for tag in (example.tags or [-1] * len(example.words))], np.int64)
