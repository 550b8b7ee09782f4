"""Rows as examples: the columns that a task names, checked value by value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bertlab.errors import UserError, nearest
from bertlab.task_config import ColumnsConfig, TaskConfig
from bertlab.tasks.documents import with_context
from bertlab.tasks.entities import as_bio, is_entity_tag
from bertlab.tasks.examples import Answer, ChoiceExample, Example, SpanExample, TaggingExample, TextExample
from bertlab.tasks.rows import Reading, Row, Table

_NEEDED = {
    "classification": ("text",),
    "regression": ("text",),
    "choice": ("text",),
    "tagging": ("words",),
    "span": ("question", "context"),
}
_TARGET = {"classification": "label", "regression": "label", "choice": "label", "tagging": "tags", "span": "answer"}
_OPTIONAL = ("pair", "id", "choice_start")
_NOTHING = (None, "")


@dataclass
class Source:
    """A split's rows, and how they are laid out."""

    split: str
    table: Table
    columns: ColumnsConfig
    labelled: bool  # whether the rows have a column that says what is right


def source_of(task: TaskConfig, split: str, table: Table, columns: ColumnsConfig) -> Source:
    """Check that the columns are there. Only splits other than train and dev may lack what is right.

    Raises:
        UserError: a column is not named, or not there.
    """
    target = _TARGET[task.kind]
    for key in (*_NEEDED[task.kind], *(() if may_lack_labels(split) else (target,))):
        if getattr(columns, key) is None:
            raise UserError(f"task={task.name} is of kind {task.kind}: name the column of its {key} with task.columns.{key}=….")
    if task.kind == "choice" and not columns.choices:
        raise UserError(f"task={task.name} is of kind choice: name in task.columns.choices a column each, or one that holds a list.")
    named = getattr(columns, target)
    labelled = (
        named is not None and (table.has(named) or not may_lack_labels(split)) and not _is_kept_by_a_server(task, split, table, named)
    )
    for key in (*_NEEDED[task.kind], *_OPTIONAL, *((target, "answer_start") if labelled else ())):
        if (column := getattr(columns, key)) is not None:
            table.check_column(column, f"task.columns.{key}")
    for column in columns.choices if task.kind == "choice" else ():
        table.check_column(column, "task.columns.choices")
    return Source(split, table, columns, labelled)


def _is_kept_by_a_server(task: TaskConfig, split: str, table: Table, column: str) -> bool:
    """Whether the hub has -1 in place of what is right, a number like others in a column that is not of classes."""
    return task.format == "huggingface" and may_lack_labels(split) and all(table.value(row, column) == -1 for row in table.rows)


def may_lack_labels(split: str) -> bool:
    """Whether a split is for a server that keeps the labels: every one that is not called train or dev."""
    return not split.startswith(("train", "dev"))


def discovered_labels(task: TaskConfig, sources: Iterable[Source]) -> list[str]:
    """The classes or tags that the rows have: sorted, whole numbers by their size, and ``O`` of tagging first.

    Raises:
        UserError: no row has a label, or one has an empty label.
    """
    found: set[str] = set()
    for source in sources:
        if not source.labelled:
            continue
        for row in source.table.rows:
            if task.kind == "tagging":
                found.update(_tags(task, source, row, Reading()) or ())
            elif (label := _label_text(source, row)) is not None and label not in task.leave_out:
                if not label.strip():
                    raise UserError(
                        f"{source.table.where(row)}: {source.columns.label!r} is empty: label the row, or leave such rows out"
                        " with 'task.leave_out=[\"\"]'."
                    )
                found.add(label)
    if not found:
        raise UserError(f"task={task.name} has no labelled row to learn its labels from: name them in task.labels.")
    return in_order(task, found)


def in_order(task: TaskConfig, labels: Iterable[str]) -> list[str]:
    """Labels that nobody has named, in their order: whole numbers by their size, then words, and ``O`` of tagging before all."""

    def place(label: str) -> tuple[bool, bool, int, str]:
        is_number = label.removeprefix("-").isdecimal()
        return label != "O" or task.kind != "tagging", not is_number, int(label) if is_number else 0, label

    return sorted(labels, key=place)


def examples_of(task: TaskConfig, source: Source, labels: Sequence[str], reading: Reading) -> list[Example]:
    """The examples of a split in the order of its rows; what is left out is counted in ``reading``.

    Raises:
        UserError: a value that cannot be meant, with its line; two rows with one id.
    """
    convert = _CONVERTERS[task.kind]
    index = {label: number for number, label in enumerate(labels)}
    made = [example for row in source.table.rows if (example := convert(task, source, row, index, reading)) is not None]
    reading.leave_out(f"{source.split}: too few or too many columns", source.table.malformed)
    if source.columns.id is not None:
        _refuse_doubled_ids(source.table.path, made)
    if task.kind == "tagging" and task.document_context:
        documents = [row.document for row in source.table.rows]
        if len(documents) > 1 and len(set(documents)) == 1:
            reading.note(f"{source.split}: sentences of a file that marks no documents: the whole file is taken as one", len(documents))
        return list(with_context([example for example in made if isinstance(example, TaggingExample)], documents, task.max_length))
    return made


def _text_example(task: TaskConfig, source: Source, row: Row, index: dict[str, int], reading: Reading) -> TextExample | None:
    label: int | float | None = None
    if (written := _label_text(source, row)) is not None:
        if written in task.leave_out:
            reading.leave_out(f"{source.split}: label {written!r}")
            return None
        label = _number(source, row, written) if task.kind == "regression" else _class(source, row, written, index)
    columns = source.columns
    text = _string(source, row, columns.text)
    pair = _string(source, row, columns.pair) if columns.pair is not None else None
    return TextExample(_id(source, row), text, pair, label)


def _choice_example(task: TaskConfig, source: Source, row: Row, index: dict[str, int], reading: Reading) -> ChoiceExample | None:
    columns = source.columns
    choices = _choices(source, row)
    if columns.choice_start is not None:
        opening = _string(source, row, columns.choice_start)
        choices = [f"{opening} {choice}" for choice in choices]
    label = None
    if (written := _label_text(source, row)) is not None:
        if written in task.leave_out:
            reading.leave_out(f"{source.split}: label {written!r}")
            return None
        label = _class(source, row, written, index) if index else _choice_number(source, row, written)
        if not 0 <= label < len(choices):
            raise UserError(f"{source.table.where(row)}: the right choice is {written!r}, but there are {len(choices)}, counted from 0.")
    return ChoiceExample(_id(source, row), _string(source, row, columns.text), tuple(choices), label)


def _choices(source: Source, row: Row) -> list[str]:
    names = source.columns.choices
    values = [source.table.value(row, name) for name in names]
    if len(names) == 1:
        if not isinstance(values[0], list):
            raise UserError(f"{source.table.where(row)}: {names[0]!r} holds {_shown(values[0])}: expected a list of choices.")
        values = values[0]
    if len(values) < 2 or not all(isinstance(value, str) for value in values):
        raise UserError(f"{source.table.where(row)}: the choices are {_shown(values)}: expected two texts or more.")
    return values


def _tagging_example(task: TaskConfig, source: Source, row: Row, index: dict[str, int], reading: Reading) -> TaggingExample:
    words = _words(source, row, source.columns.words)
    tags = _tags(task, source, row, reading)
    if tags is None:
        return TaggingExample(_id(source, row), tuple(words))
    if len(tags) != len(words):
        raise UserError(f"{source.table.where(row)} has {len(words)} words and {len(tags)} tags.")
    for place, tag in enumerate(tags):
        if tag not in index:
            raise _unknown_label(source.table.where(row, place), "tag", tag, index)
    return TaggingExample(_id(source, row), tuple(words), tuple(index[tag] for tag in tags))


def _tags(task: TaskConfig, source: Source, row: Row, reading: Reading) -> list[str] | None:
    """The tags of a row as text, of several annotators' the first, and entities each beginning with B-."""
    if not source.labelled or source.table.value(row, str(source.columns.tags)) in _NOTHING:
        return None
    tags = _words(source, row, source.columns.tags)
    if task.alternatives and (several := sum(task.alternatives in tag for tag in tags)):
        reading.note(f"{source.split}: words with several tags: the first is taken", several)
    tags = first_tags(task, tags)
    if task.scheme == "none":
        return tags
    for place, tag in enumerate(tags):
        if not is_entity_tag(tag):
            where = source.table.where(row, place)
            raise UserError(f"{where}: tag {tag!r} is not O, B-… or I-…: task.scheme=none takes tags that stand for themselves.")
    return as_bio(tags)


def first_tags(task: TaskConfig, tags: Sequence[str]) -> list[str]:
    """The first of the tags that a word has, where annotators disagree."""
    return [tag.split(task.alternatives)[0] for tag in tags] if task.alternatives else list(tags)


def _words(source: Source, row: Row, column: str | None) -> list[str]:
    """A list of words; a text is split at its spaces."""
    value = source.table.value(row, str(column))
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
        raise UserError(f"{source.table.where(row)}: {column!r} holds {_shown(value)}: expected a list of words, or words between spaces.")
    return words


def _span_example(task: TaskConfig, source: Source, row: Row, index: dict[str, int], reading: Reading) -> SpanExample | None:
    columns = source.columns
    question, context = _string(source, row, columns.question), _string(source, row, columns.context)
    if not source.labelled:
        return SpanExample(_id(source, row), question, context)
    texts = [_as_text(source, row, columns.answer, text) for text in _listed(source.table.value(row, str(columns.answer)))]
    starts = _starts(source, row, len(texts))
    if not texts and not task.no_answer:
        raise UserError(f"{source.table.where(row)} has no answer: if questions may have none, set task.no_answer=true.")
    answers = placed_answers(list(zip(texts, starts, strict=True)), context, source.split, reading)
    return SpanExample(_id(source, row), question, context, answers) if answers or not texts else None


def _starts(source: Source, row: Row, answers: int) -> list[int | None]:
    if source.columns.answer_start is None:
        return [None] * answers
    starts = _listed(source.table.value(row, source.columns.answer_start)) if answers else []
    if len(starts) != answers:
        raise UserError(f"{source.table.where(row)} has {answers} answers and {len(starts)} places where they start.")
    return [_whole(source, row, start) for start in starts]


def placed_answers(written: Sequence[tuple[str, int | None]], context: str, split: str, reading: Reading) -> tuple[Answer, ...]:
    """Answers, texts with the place that the file gives them, where they stand in their context.

    One that stands elsewhere than the file says is moved to the nearest occurrence. One that does not stand in the context at all cannot
    be learned from, and is left out of a training split; elsewhere it is kept, for it can still be scored. Both are counted.
    """
    answers: list[Answer] = []
    for text, start in written:
        answer = _placed(text, start, context)
        if answer is None:
            reading.note(f"{split}: answers that do not stand in their context", 1)
            if split.startswith("train"):
                continue
        elif start is not None and answer.start != start:
            reading.note(f"{split}: answers moved from where the file has them to where they stand in the context", 1)
        answers.append(answer or Answer(text, 0))
    if written and not answers:
        reading.leave_out(f"{split}: no answer stands in the context")
    return tuple(answers)


def _placed(text: str, start: int | None, context: str) -> Answer | None:
    expected = start or 0
    if expected >= 0 and context[expected : expected + len(text)] == text:
        return Answer(text, expected)
    after, before = context.find(text, max(expected, 0)), context.rfind(text, 0, max(expected, 0) + len(text))
    near = [place for place in (before, after) if place >= 0]
    return Answer(text, min(near, key=lambda place: abs(place - expected))) if near else None


def _listed(value: Any) -> list[Any]:
    return [entry for entry in (value if isinstance(value, list) else [value]) if entry not in _NOTHING]


def _id(source: Source, row: Row) -> str:
    if source.columns.id is None:
        return str(row.number)
    return _string(source, row, source.columns.id)


def _string(source: Source, row: Row, column: str | None) -> str:
    return _as_text(source, row, column, source.table.value(row, str(column)))


def _as_text(source: Source, row: Row, column: str | None, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise UserError(f"{source.table.where(row)}: {column!r} holds {_shown(value)}: expected a text.")


def _label_text(source: Source, row: Row) -> str | None:
    """What is right, as text; None where the row does not tell, which only splits without labels may do."""
    if not source.labelled:
        return None
    value = source.table.value(row, str(source.columns.label))
    if value in _NOTHING and may_lack_labels(source.split):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise UserError(f"{source.table.where(row)}: {source.columns.label!r} holds {_shown(value)}: expected a label.")


def _class(source: Source, row: Row, written: str, index: dict[str, int]) -> int:
    if written not in index:
        raise _unknown_label(source.table.where(row), "label", written, index)
    return index[written]


def _unknown_label(where: str, what: str, written: str, index: Iterable[str]) -> UserError:
    known = list(index)
    alike = nearest(written, known)
    shown = ", ".join(map(repr, known[:12])) + (", …" if len(known) > 12 else "")
    hint = f"; did you mean {' or '.join(map(repr, alike))}?" if alike else "."
    return UserError(f"{where}: unknown {what} {written!r}: expected one of {shown}{hint}")


def _number(source: Source, row: Row, written: str) -> float:
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{source.table.where(row)}: {source.columns.label!r} holds {written!r}: expected a number.")
    return number


def _choice_number(source: Source, row: Row, written: str) -> int:
    try:
        return int(written)
    except ValueError:
        expected = "the right choice's number, from 0 (or name what stands for each in task.labels)"
        raise UserError(f"{source.table.where(row)}: {source.columns.label!r} holds {written!r}: expected {expected}.") from None


def _whole(source: Source, row: Row, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        message = f"{source.columns.answer_start!r} holds {_shown(value)}: expected a whole number, in characters of the context."
        raise UserError(f"{source.table.where(row)}: {message}") from None


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    written = repr(value)
    return written if len(written) <= 60 else written[:57] + "…"


def _refuse_doubled_ids(path: str, examples: Sequence[Example]) -> None:
    seen: set[str] = set()
    for example in examples:
        if example.id in seen:
            raise UserError(f"{path}: two rows have the id {example.id!r}; leave out task.columns.id to number the rows instead.")
        seen.add(example.id)


_Converter = Callable[[TaskConfig, Source, Row, dict[str, int], Reading], Example | None]
_CONVERTERS: dict[str, _Converter] = {
    "classification": _text_example,
    "regression": _text_example,
    "choice": _choice_example,
    "tagging": _tagging_example,
    "span": _span_example,
}
