"""Reader of SQuAD's JSON, v1.1 and v2.0: articles, their paragraphs, questions with every accepted answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertlab.errors import UserError
from bertlab.tasks.convert import may_lack_labels, placed_answers
from bertlab.tasks.examples import SpanExample
from bertlab.tasks.rows import Reading, parse_json, read_text


def read_squad(path: Path, split: str, no_answer: bool, reading: Reading) -> list[SpanExample]:
    """The questions of a file, in its order.

    ``is_impossible`` of v2.0 means that a question has no answer, whatever ``plausible_answers`` lists.

    Raises:
        UserError: the file is not SQuAD's JSON; a question has no answer and ``no_answer`` is not set; two have one id.
    """
    examples: dict[str, SpanExample] = {}
    for place, context, question in _questions(path):
        example = _example(f"{path}: {place}", context, question, split, no_answer, reading)
        if example.id in examples:
            raise UserError(f"{path}: {place}: the id {example.id!r} occurs a second time.")
        if example.answers or not question.get("answers") or question.get("is_impossible"):
            examples[example.id] = example
    if not examples:
        raise UserError(f"{path} holds no question.")
    return list(examples.values())


def _questions(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Place, context and question of everything that is asked."""
    try:
        content = parse_json(read_text(path))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}.") from error
    for article, entry in enumerate(_list(content, "data", str(path))):
        for paragraph, texts in enumerate(_list(entry, "paragraphs", f"{path}: data[{article}]")):
            place = f"data[{article}].paragraphs[{paragraph}]"
            context = _text(texts, "context", f"{path}: {place}")
            for number, question in enumerate(_list(texts, "qas", f"{path}: {place}")):
                yield f"{place}.qas[{number}]", context, question


def _example(where: str, context: str, question: dict[str, Any], split: str, no_answer: bool, reading: Reading) -> SpanExample:
    name, asked = _text(question, "id", where), _text(question, "question", where)
    impossible = question.get("is_impossible", False)
    if "answers" not in question and not impossible:
        if not may_lack_labels(split):
            raise UserError(f"{where} has no 'answers', which a question of {split} needs.")
        return SpanExample(name, asked, context)
    written = [] if impossible else [_answer(where, answer) for answer in _list(question, "answers", where)]
    if not written and not no_answer:
        raise UserError(f"{where} has no answer: that is SQuAD v2.0's form; use task=squad20, or set task.no_answer=true.")
    return SpanExample(name, asked, context, placed_answers(written, context, split, reading))


def _answer(where: str, answer: Any) -> tuple[str, int | None]:
    start = answer.get("answer_start") if isinstance(answer, dict) else None
    if start is not None and not isinstance(start, int):
        raise UserError(f"{where}: answer_start is {start!r}: expected a whole number, in characters of the context.")
    return _text(answer, "text", where), start


def _list(value: Any, key: str, where: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise UserError(f"{where} has no list {key!r}: expected SQuAD's JSON, data → paragraphs → qas → answers.")
    return found


def _text(value: Any, key: str, where: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise UserError(f"{where} has no text {key!r}: expected SQuAD's JSON, a context, and for each question id, question and answers.")
    return found
