"""Questions about a text as inputs: windows that slide over the text, and where in them the answer lies."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertlab.arrays import Int64s
from bertlab.data.progress import progress_bar
from bertlab.data.ragged import offsets_of, ranges
from bertlab.tasks.examples import SpanExample
from bertlab.tasks.inputs import Inputs
from bertlab.tasks.sequences import WORTH_A_BAR, Rows, Say, TextTokenizer, assemble, encodable

CONTEXTS_AT_ONCE = 256  # the tokenizer's own objects take some hundred bytes a token


@dataclass(frozen=True)
class SpanOptions:
    """How a context is parted into windows; all in tokens."""

    max_length: int
    stride: int  # between the starts of two windows
    max_query_length: int


def span_inputs(examples: Sequence[SpanExample], tokenizer: TextTokenizer, options: SpanOptions, progress: bool, say: Say) -> Inputs:
    """A sequence [CLS] question [SEP] window [SEP] a window.

    The windows are those of the released BERT (run_squad.py): one starts every ``stride`` tokens until one reaches the context's end.
    A context without a token has one window that shows nothing of it.
    """
    numbers: dict[str, int] = {}  # many questions are asked of one context
    context_of = np.array([numbers.setdefault(example.context, len(numbers)) for example in examples], np.int64)
    contexts = tokenise_contexts(list(numbers), tokenizer, progress, say)
    questions = tokenizer([example.question for example in examples]).cut(options.max_query_length)
    windows = place_windows(questions.lengths, contexts.rows.lengths[context_of], options)
    example, size = windows.example, windows.lengths
    in_contexts = contexts.rows.starts[context_of[example]] + windows.starts  # (S,) where each window begins in the contexts' tokens
    sequences = assemble(tokenizer.vocabulary, questions.at(example), Rows(contexts.rows.ids, in_contexts, size))
    context_begins = sequences.boundaries.astype(np.int64)
    here = ranges(sequences.offsets[:-1] + context_begins, size)  # (n,) the windows' tokens among all
    characters = np.zeros((sequences.tokens.size, 2), np.int32)
    characters[here] = contexts.characters[ranges(in_contexts, size)]
    max_context = np.zeros(sequences.tokens.size, np.bool_)
    max_context[here] = most_context(windows, contexts.rows.lengths[context_of])
    starts, ends = _answers(examples, contexts, context_of, windows, context_begins)
    return Inputs(
        tokens=sequences.tokens,
        offsets=sequences.offsets,
        boundaries=sequences.boundaries,
        first_sequence=windows.first_window,
        starts=starts,
        ends=ends,
        context_begins=context_begins,
        characters=characters,
        max_context=max_context,
    )


@dataclass(frozen=True)
class Contexts:
    """n texts of N tokens in all."""

    rows: Rows
    characters: NDArray[np.int32]  # (N, 2) where each token begins and ends in its text's characters


def tokenise_contexts(texts: Sequence[str], tokenizer: TextTokenizer, progress: bool, say: Say) -> Contexts:
    """The ids of the texts, as the tokeniser of ordinary text gives them, and where each token stands."""
    encoder: Tokenizer = tokenizer.vocabulary.plain_encoder()
    ids: list[NDArray[np.int32]] = []
    characters: list[NDArray[np.int32]] = []
    total = sum(map(len, texts))
    with progress_bar("tokenising contexts", total, progress and total >= WORTH_A_BAR, say) as bar:
        for first in range(0, len(texts), CONTEXTS_AT_ONCE):
            part = texts[first : first + CONTEXTS_AT_ONCE]
            for text, encoding in zip(part, encoder.encode_batch(list(map(encodable, part)), add_special_tokens=False), strict=True):
                ids.append(np.array(encoding.ids, tokenizer.dtype))
                characters.append(_with_marks(text, np.array(encoding.offsets, np.int32).reshape(-1, 2)))
            bar.advance(sum(map(len, part)))
    lengths = np.array([len(row) for row in ids], np.int64)
    flat = np.concatenate([np.zeros(0, tokenizer.dtype), *ids])
    return Contexts(Rows(flat, offsets_of(lengths)[:-1], lengths), np.concatenate([np.zeros((0, 2), np.int32), *characters]))


def _with_marks(text: str, characters: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same places, but that an accent after a token belongs to it where it was stripped: "e" + U+0301 is one letter."""
    marks = {character for character in set(text) if character > "\x7f" and unicodedata.category(character) == "Mn"}
    if not marks or not len(characters):
        return characters
    ends = characters[:, 1].tolist()
    following = [*characters[1:, 0].tolist(), len(text)]
    for token, (end, limit) in enumerate(zip(ends, following, strict=True)):
        while end < limit and text[end] in marks:
            end += 1
        ends[token] = end
    return np.stack([characters[:, 0], np.array(ends, np.int32)], axis=1)


@dataclass(frozen=True)
class Windows:
    """The S windows of E examples, in order."""

    first_window: Int64s  # (E + 1,) of each example
    example: Int64s  # (S,)
    starts: Int64s  # (S,) in the tokens of the context
    lengths: Int64s  # (S,)


def place_windows(question_lengths: Int64s, context_lengths: Int64s, options: SpanOptions) -> Windows:
    """The windows of contexts beside questions of these lengths, (E,) each."""
    rooms = options.max_length - 3 - question_lengths
    steps = np.minimum(options.stride, rooms)  # a longer stride, which no configuration may have, would pass tokens over
    counts = 1 + np.maximum(0, -((rooms - context_lengths) // steps))  # 1 + ceil((context - room) / step)
    example = np.repeat(np.arange(counts.size), counts)
    starts = ranges(np.zeros_like(counts), counts) * steps[example]
    return Windows(offsets_of(counts), example, starts, np.minimum(rooms[example], context_lengths[example] - starts))


def most_context(windows: Windows, context_lengths: Int64s) -> NDArray[np.bool_]:
    """Whether each token of each window has more context there than in any other window: (n,) for the windows' tokens, laid flat.

    The score is the released BERT's: the lesser of the tokens on its left and on its right, plus a hundredth of the window's length;
    of equal ones the first window has it.
    """
    size = windows.lengths
    place = ranges(np.zeros_like(size), size)  # in the window
    score = np.minimum(place, np.repeat(size, size) - 1 - place) + 0.01 * np.repeat(size, size)
    token = ranges(offsets_of(context_lengths)[windows.example] + windows.starts, size)  # counted over the contexts of all examples
    best = np.full(int(context_lengths.sum()), -1.0)
    np.maximum.at(best, token, score)
    candidates = np.flatnonzero(score == best[token])
    owner = np.full(best.size, token.size)
    np.minimum.at(owner, token[candidates], candidates)
    result = np.zeros(token.size, np.bool_)
    result[owner] = True  # every token of a context is in a window, so all have an owner
    return result


def _answers(
    examples: Sequence[SpanExample], contexts: Contexts, context_of: Int64s, windows: Windows, context_begins: Int64s
) -> tuple[Int64s | None, Int64s | None]:
    """Where the first answer that stands there begins and ends in each window, (S,) each: 0: not wholly inside, -1: not known."""
    if all(example.answers is None for example in examples):
        return None, None
    first = np.full(len(examples), -1, np.int64)
    last = np.full(len(examples), -1, np.int64)
    for number, example in enumerate(examples):
        if (answer := example.learnable) is not None:
            begin = contexts.rows.starts[context_of[number]]
            places = contexts.characters[begin : begin + contexts.rows.lengths[context_of[number]]]
            first[number], last[number] = covering(places, answer.start, answer.start + len(answer.text))
    first, last = first[windows.example], last[windows.example]
    inside = (first >= windows.starts) & (last < windows.starts + windows.lengths) & (first <= last)
    shift = context_begins - windows.starts
    absent = np.array([-1 if example.answers is None else 0 for example in examples], np.int64)[windows.example]
    return np.where(inside, first + shift, absent), np.where(inside, last + shift, absent)


def covering(characters: NDArray[np.int32], start: int, end: int) -> tuple[int, int]:
    """The first and last of a text's tokens that have a character in [start, end); (-1, -2) where none has."""
    first = int(np.searchsorted(characters[:, 1], start, side="right"))
    last = int(np.searchsorted(characters[:, 0], end, side="left")) - 1
    return (first, last) if first <= last and start < end else (-1, -2)
