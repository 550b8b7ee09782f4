"""Start and end scores of windows → answers, sliced from the text that the question was asked of.

The rules are those of the released BERT (run_squad.py): an answer begins at a context token that has its most context in this window,
ends in the same window at or after its beginning, and has at most ``max_answer_length`` tokens; "no answer" scores as [CLS] does as
start and end, the lowest of the example's windows. Where the released code pairs the 20 best starts with the 20 best ends of a window,
here every allowed span is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertlab.arrays import Floats, Int64s
from bertlab.data.ragged import offsets_of, ranges
from bertlab.tasks.batching import token_indices
from bertlab.tasks.examples import Prediction, SpanExample
from bertlab.tasks.inputs import Inputs

UNREACHABLE = -1e9  # the score of an answer where the context has no token that could be one


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stretch of the context."""

    text: str
    start: int  # in characters of the context
    score: float  # the sum of the start's and the end's
    probability: float  # among the candidates of its example


@dataclass(frozen=True, slots=True)
class Found:
    """What the model says of one question."""

    example: int  # in the split
    candidates: list[Candidate]  # of different texts, the best first; none where the context has no token
    null_score: float

    @property
    def text(self) -> str:
        """The best answer."""
        return self.candidates[0].text if self.candidates else ""

    @property
    def margin(self) -> float:
        """By how much the best answer scores above there being none: the released BERT's score_diff with its sign turned."""
        return (self.candidates[0].score if self.candidates else UNREACHABLE) - self.null_score


def find_answers(
    inputs: Inputs,
    examples: Int64s | Sequence[int],
    start: NDArray[Any],
    end: NDArray[Any],
    sources: Sequence[SpanExample],
    max_answer_length: int,
    count: int = 20,
) -> list[Found]:
    """The ``count`` best spans of each of ``examples``, in their order; of those with the same text only the best.

    ``start`` and ``end``: (T,) scores of the examples' tokens, as ``collate`` lays them out; ``sources``: the whole split. Equal scores
    go to the span that begins first, then to the shorter one.
    """
    chosen = np.asarray(examples, np.int64)
    spans = _Spans(inputs, chosen, np.asarray(start, np.float64), np.asarray(end, np.float64), max_answer_length)
    return [
        Found(int(example), spans.candidates(place, sources[example].context, count), float(spans.null_scores[place]))
        for place, example in enumerate(chosen)
    ]


class _Spans:
    """All spans of some examples. The context tokens of their windows lie flat, each window followed by D - 1 gaps that score -inf.

    So the spans of one width, however they lie in the windows, are two slices of the same arrays. D is the greatest width.
    """

    def __init__(self, inputs: Inputs, examples: Int64s, start: Floats, end: Floats, max_answer_length: int) -> None:
        assert inputs.context_begins is not None
        assert inputs.characters is not None
        assert inputs.max_context is not None
        self._widths = max_answer_length
        windows = inputs.first_sequence[examples + 1] - inputs.first_sequence[examples]
        sequences = ranges(inputs.first_sequence[examples], windows)
        first_window = offsets_of(windows)  # (E + 1,)
        lengths = inputs.lengths[sequences]
        sequence_offsets = offsets_of(lengths)  # (S + 1,) in ``start`` and ``end``
        if start.shape != end.shape or start.size != sequence_offsets[-1]:
            raise ValueError(f"scores of shapes {start.shape} and {end.shape} for {sequence_offsets[-1]} tokens")
        context_begins = inputs.context_begins[sequences]
        context_lengths = lengths - context_begins - 1
        given = ranges(sequence_offsets[:-1] + context_begins, context_lengths)  # of the context's tokens in ``start`` and ``end``
        gapped = offsets_of(context_lengths + self._widths - 1)  # (S + 1,)
        here = ranges(gapped[:-1], context_lengths)
        source = token_indices(inputs, examples)[given]  # in the tokens of ``inputs``
        self._offsets = gapped[first_window]  # (E + 1,)
        self._start, self._end = np.full(gapped[-1], -np.inf), np.full(gapped[-1] + self._widths - 1, -np.inf)
        self._start[here] = np.where(inputs.max_context[source], start[given], -np.inf)
        self._end[here] = end[given]
        self._characters = np.zeros((gapped[-1], 2), np.int64)
        self._characters[here] = inputs.characters[source]
        self._best = self._start + self._best_ends()
        cls = sequence_offsets[:-1]
        nulls = start[cls] + end[cls]
        self.null_scores = np.minimum.reduceat(nulls, first_window[:-1]) if examples.size else np.zeros(0)

    def _best_ends(self) -> Floats:
        """The best end of the spans that begin at each place."""
        best = self._end[: self._start.size].copy()
        for width in range(1, self._widths):
            np.maximum(best, self._end[width : width + best.size], out=best)
        return best

    def candidates(self, place: int, context: str, count: int) -> list[Candidate]:
        """The best ones of an example, by its place among the examples.

        The best ``count`` spans begin at no other places than the ``count`` where the best spans begin: from elsewhere there are already
        ``count`` better ones.
        """
        first, end = int(self._offsets[place]), int(self._offsets[place + 1])
        begins = first + np.sort(_largest(self._best[first:end], count))  # in order, so that of equal spans the first comes first
        scores = (self._start[begins, None] + self._end[begins[:, None] + np.arange(self._widths)]).reshape(-1)  # (count * D,)
        order = _largest(scores, count)
        starts, ends = begins[order // self._widths], begins[order // self._widths] + order % self._widths
        found: dict[str, tuple[int, float]] = {}
        for begin, stop, score in zip(self._characters[starts, 0], self._characters[ends, 1], scores[order], strict=True):
            found.setdefault(context[begin:stop], (int(begin), float(score)))
        if not found:
            return []
        weights = np.exp(np.array([score for _, score in found.values()]) - scores[order[0]])
        shares = weights / weights.sum()
        return [Candidate(text, *at, float(share)) for (text, at), share in zip(found.items(), shares, strict=True)]


def _largest(values: Floats, count: int) -> Int64s:
    """Where the ``count`` largest of the finite ``values`` are, the largest first; of equal ones the first."""
    if values.size > count:
        least = np.partition(values, values.size - count)[values.size - count]
        kept = np.flatnonzero(values >= least)
    else:
        kept = np.arange(values.size)
    kept = kept[values[kept] > -np.inf]
    order: Int64s = kept[np.argsort(-values[kept], kind="stable")][:count]
    return order


def predictions(found: Sequence[Found], sources: Sequence[SpanExample], threshold: float | None = None) -> list[Prediction]:
    """Rows of predictions.jsonl; an answer whose margin is below ``threshold`` becomes "" (None: every question is answered)."""
    return [
        Prediction(
            id=sources[one.example].id,
            prediction="" if threshold is not None and one.margin < threshold else one.text,
            gold=_gold(sources[one.example]),
            scores=[one.margin],
            answer=None if threshold is None else one.text,
        )
        for one in found
    ]


def _gold(source: SpanExample) -> list[str] | None:
    """The accepted texts, [] where there is no answer; None where it is not known."""
    return None if source.answers is None else [answer.text for answer in source.answers]


def tune_threshold(
    margins: Sequence[float] | Floats, qualities: Sequence[float] | Floats, has_answer: Sequence[bool]
) -> tuple[float, float]:
    """The least margin at which to answer, and the mean quality that this reaches: (threshold, quality).

    ``qualities``: (E,) the exact match or F1 of each best answer, were it given. Not answering scores 1 where there is no answer, else 0.
    This is what the official script of SQuAD v2.0 finds (``find_best_thresh``), but only among thresholds that can be told apart: equal
    margins are answered together. Among equally good ones it is the highest, so the one that answers least.
    """
    margin = np.asarray(margins, np.float64)
    answerable = np.asarray(has_answer, np.bool_)
    gain = np.where(answerable, np.asarray(qualities, np.float64), -1.0)
    if not margin.size:
        return 0.0, 0.0
    order = np.argsort(-margin, kind="stable")
    descending = margin[order]
    last = np.flatnonzero(np.append(descending[1:] < descending[:-1], True))  # of each group of equal margins
    totals = np.append(0.0, np.cumsum(gain[order])[last]) + np.count_nonzero(~answerable)
    best = int(np.argmax(totals))
    threshold = descending[0] + 1.0 if best == 0 else descending[last[best - 1]]  # the first: nothing is answered
    return float(threshold), float(totals[best]) / margin.size
