"""Continuation: which of four sentences follows the given one (the form of SWAG, Zellers et al. 2018)?

All four come from the same part of the same document, else telling topics apart would do, as in next-sentence prediction. They are chosen
as a group, before it is drawn which of them is the right one: a part's sentences are sorted by length and grouped from neighbours in that
order, so the four are of similar length; none opens its paragraph; none stands next to another one or to its context. Each sentence of a
group is the right one of one example and a wrong one of the three others: a system that looks at the choices alone is right once in four.
Words that stand in the context too do point to the right one: text coheres by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bertlab.tasks.examples import ChoiceExample
from bertlab.tasks.probes.probe import Probe, draw, shuffled
from bertlab.tasks.probes.stretches import Source

CHOICES = 4
PART = 32  # sentences that can be choices
APART = 3  # least distance of two choices in the document: then no wrong one stands beside the context or the right one


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that can be a choice, and the one before it."""

    number: int  # in the document
    text: str
    before: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A right sentence and three wrong ones."""

    right: Sentence
    wrong: tuple[Sentence, ...]


def candidates(source: Source, key: int) -> Sequence[tuple[int, Choice]]:
    """One choice of each group, in random order, then the second one of each, and so on."""
    found = []
    sentences = _sentences(source)
    parts = [sentences[start : start + PART] for start in range(0, len(sentences), PART)]
    for group in (group for part in parts for group in grouped(part)):
        for turn, right in enumerate(shuffled(group, key, "turn", group[0].number)):
            wrong = tuple(one for one in group if one is not right)
            found.append((turn, draw(1 << 64, key, "order", right.number), right.number, Choice(right, wrong)))
    return [(number, choice) for _, _, number, choice in sorted(found, key=lambda item: item[:2])]


def _sentences(source: Source) -> list[Sentence]:
    return [
        Sentence(stretch.first + place, stretch.sentences[place], stretch.sentences[place - 1])
        for stretch in source.stretches
        for place in range(1, len(stretch.sentences))
    ]


def grouped(sentences: Sequence[Sentence]) -> list[list[Sentence]]:
    """Groups of four sentences of similar length, none near another one of its group; those that fit in nowhere are left out."""
    full: list[list[Sentence]] = []
    growing: list[list[Sentence]] = []
    for sentence in sorted(sentences, key=lambda one: (len(one.text), one.number)):
        for group in growing:
            if all(abs(sentence.number - other.number) >= APART for other in group):
                group.append(sentence)
                if len(group) == CHOICES:
                    full.append(group)
                    growing.remove(group)
                break
        else:
            growing.append([sentence])
    return full


def example(id: str, choice: Choice, outcome: int, key: int) -> ChoiceExample:
    """The right sentence at the place ``outcome`` among the wrong ones."""
    choices = [one.text for one in shuffled(choice.wrong, key, "wrong", id)]
    choices.insert(outcome, choice.right.text)
    return ChoiceExample(id, choice.right.before, tuple(choices), outcome)


PROBE = Probe("choice", (), CHOICES, candidates, example)
