"""What a task consists of once its files are read: examples of five kinds, their splits, and what a system predicts for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text, or a pair of them, with a class or a number: classification and regression."""

    id: str
    text: str
    pair: str | None = None
    label: int | float | None = None  # index into the task's labels, or the number; None where the file does not tell


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context and its possible continuations, one of which is right: each becomes a sequence [CLS] context [SEP] choice [SEP]."""

    id: str
    text: str
    choices: tuple[str, ...]
    label: int | None = None  # index into ``choices``


@dataclass(frozen=True, slots=True)
class TaggingExample:
    """The words of a sentence, each with a tag. Words before and after it, in its document, may be read as context."""

    id: str
    words: tuple[str, ...]
    tags: tuple[int, ...] | None = None  # indices into the task's labels, one a word
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A stretch of the context."""

    text: str
    start: int  # in characters of the context


@dataclass(frozen=True, slots=True)
class SpanExample:
    """A question whose answer is a stretch of the context, or which has none there (SQuAD)."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None  # every accepted one; () where there is none; None where the file does not tell

    @property
    def learnable(self) -> Answer | None:
        """The first answer that stands where it says: one that stands nowhere can be scored, but not pointed at."""
        return next((one for one in self.answers or () if self.context[one.start : one.start + len(one.text)] == one.text), None)


Example = TextExample | ChoiceExample | TaggingExample | SpanExample


@dataclass
class TaskData:
    """A task that is read: examples by split, in the order of the files. Every example of a task is of one kind."""

    kind: str  # one of ``bertlab.task_config.KINDS``
    splits: dict[str, list[Any]]  # "train", "dev", "test", "dev_mismatched", …: lists of one of the Example types
    labels: list[str]  # the classes or tags by index; empty for regression, choice and span
    fingerprint: str  # a hash of the content of everything that was read
    left_out: dict[str, int] = field(default_factory=dict)  # why → how many rows were not taken
    notes: list[str] = field(default_factory=list)  # sentences about the reading that a run's output should carry


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a system says of one example, beside what is right: one row of predictions.jsonl."""

    id: str
    # classification: the label's name; regression: a number; choice: an index; tagging: the tags' names, one a word; span: the text,
    # "" for no answer.
    prediction: str | float | int | list[str]
    gold: Any  # in the same form; for a span the list of accepted texts, [] where there is none; None where it is not known
    scores: list[float] | None = None  # classification, choice: log-probabilities; span: [best score − null score]
    answer: str | None = None  # of a span whose question may have none: the best answer, also where ``prediction`` says that there is none
