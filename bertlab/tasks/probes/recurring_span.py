"""Recurring span: find in a passage what is missing from one of its sentences (Ram et al. 2021, Splinter; the form of SQuAD).

A span is a run of words that stands in several sentences of a passage. One of them is taken out and becomes the question, with
a blank for the span; the rest is the context, and every other occurrence in it is an answer. The blank is an ordinary character and not
[MASK], which would be an advantage for models that were trained to fill masks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bertlab.tasks.examples import Answer, SpanExample
from bertlab.tasks.probes.probe import Probe, draw
from bertlab.tasks.probes.stretches import Source

BLANK = "_"
PASSAGE_WORDS = 80  # so that question and context fit into 128 tokens, or nearly
LONGEST_SPAN = 6  # words
SHORTEST_SPAN = 3  # characters
_WORDS = re.compile(r"\w+(?:[-'’]\w+)*")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A span in a passage."""

    sentence: int
    start: int  # in characters of the sentence
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """A passage, the occurrence that is taken out of it, and the others."""

    sentences: tuple[str, ...]
    asked: Occurrence
    others: tuple[Occurrence, ...]


def candidates(source: Source, key: int) -> Sequence[tuple[int, Question]]:
    """A question about every passage in which something recurs, in random order."""
    found = []
    for number, sentences in passages(source):
        spans = recurring(sentences, source.common)
        if spans:
            occurrences = spans[draw(len(spans), key, "span", number)]
            possible = [one for one in occurrences if sum(other.sentence == one.sentence for other in occurrences) == 1]
            if possible:
                asked = possible[draw(len(possible), key, "question", number)]
                others = tuple(one for one in occurrences if one is not asked)
                found.append((number, Question(sentences, asked, others)))
    return sorted(found, key=lambda candidate: draw(1 << 64, key, "order", candidate[0]))


def passages(source: Source) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The document's usable sentences parted into passages of about PASSAGE_WORDS words, each with the number of its first sentence."""
    passage: list[str] = []
    first = words = 0
    for number, sentence in source.sentences:
        length = sentence.count(" ") + 1
        if passage and words + length > PASSAGE_WORDS:
            yield first, tuple(passage)
            passage, words = [], 0
        if not passage:
            first = number
        passage.append(sentence)
        words += length
    if passage:
        yield first, tuple(passage)


def recurring(sentences: Sequence[str], common: frozenset[str]) -> list[list[Occurrence]]:
    """The spans that stand in several sentences, as lists of all their occurrences; none that is only part of a longer one.

    A span's words are parted by single spaces, and neither the first nor the last is a ``common`` one.
    """
    several_times = _in_several(sentences)
    places: dict[str, list[Occurrence]] = {}
    for number, sentence in enumerate(sentences):
        for start, end in spans(sentence, several_times, common):
            places.setdefault(sentence[start:end].casefold(), []).append(Occurrence(number, start, end))
    several = {text: found for text, found in places.items() if len({one.sentence for one in found}) > 1}
    return [found for text, found in several.items() if not _is_part(text, found, several)]


def _in_several(sentences: Sequence[str]) -> set[str]:
    """The words that stand in several sentences: only they can be parts of a span that does."""
    met: set[str] = set()
    several: set[str] = set()
    for sentence in sentences:
        here = set(_WORDS.findall(sentence.casefold()))
        several |= here & met
        met |= here
    return several


def spans(sentence: str, allowed: set[str], common: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where each span of ``allowed`` words that could be asked for starts and ends."""
    matches = list(_WORDS.finditer(sentence))
    texts = [match[0].casefold() for match in matches]
    for first, text in enumerate(texts):
        if text in common:
            continue
        for last in range(first, min(first + LONGEST_SPAN, len(matches))):
            if texts[last] not in allowed or (last > first and sentence[matches[last - 1].end() : matches[last].start()] != " "):
                break
            start, end = matches[first].start(), matches[last].end()
            if texts[last] not in common and end - start >= SHORTEST_SPAN:
                yield start, end


def _is_part(text: str, found: list[Occurrence], several: dict[str, list[Occurrence]]) -> bool:
    """Whether a longer recurring span holds ``text`` and occurs as often: then they always occur together."""
    return any(len(longer) > len(text) and text in longer and len(others) == len(found) for longer, others in several.items())


def example(id: str, question: Question, outcome: int, key: int) -> SpanExample:
    """The sentence with its blank, and the other sentences as context."""
    asked = question.asked
    sentence = question.sentences[asked.sentence]
    starts: dict[int, int] = {}
    position = 0
    for number, other in enumerate(question.sentences):
        if number != asked.sentence:
            starts[number] = position
            position += len(other) + 1
    context = " ".join(question.sentences[number] for number in starts)
    answers = [Answer(question.sentences[one.sentence][one.start : one.end], starts[one.sentence] + one.start) for one in question.others]
    return SpanExample(id, f"{sentence[: asked.start]}{BLANK}{sentence[asked.end :]}", context, tuple(answers))


PROBE = Probe("span", (), 1, candidates, example)
