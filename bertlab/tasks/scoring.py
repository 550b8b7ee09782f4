"""Anybody's predictions beside what is right: files of several forms, joined with a task's examples.

- predictions.jsonl, as our own runs write it
- a JSON object, id → prediction: SQuAD's form
- a table with a header whose first column is the example's index and whose last one the prediction: GLUE's form, or CSV
- columns of words whose last one is the predicted tag: the CoNLL tasks' form
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertlab.counting import counted
from bertlab.data.compression import inner_suffix
from bertlab.errors import UserError, nearest
from bertlab.task_config import TaskConfig
from bertlab.tasks.conll import read_conll
from bertlab.tasks.convert import first_tags, in_order
from bertlab.tasks.delimited import read_csv, read_tsv
from bertlab.tasks.entities import as_bio, is_entity_tag
from bertlab.tasks.examples import ChoiceExample, Example, Prediction, TaggingExample
from bertlab.tasks.metrics import example_scores, metrics_of, metrics_of_scores
from bertlab.tasks.predictions import gold_of, read_predictions
from bertlab.tasks.rows import Table, parse_json, read_text
from bertlab.tasks.squad_metrics import thresholded

_SHOWN = 3  # ids in a message
_MOST_CHOICES = 1 << 31
_LARGEST = 1e300  # of a score: beyond it sums are infinite


@dataclass(frozen=True)
class Given:
    """One prediction of a file."""

    where: str  # for messages
    value: Any
    scores: list[float] | None = None
    answer: str | None = None


def joined(task: TaskConfig, path: Path, examples: Sequence[Example], labels: list[str], partial: bool = False) -> list[Prediction]:
    """The predictions of a file for ``examples``, in their order, each beside what is right.

    Args:
        task: what is predicted.
        path: the file.
        examples: those that the predictions are of.
        labels: classes or tags by index.
        partial: take a file that lacks examples or has others, and leave those out. Of SQuAD v1.1, as its official script does it,
            questions without a prediction count as wrong.

    Raises:
        UserError: ids are missing or unknown, words do not agree, a prediction cannot be one of the task.
    """
    form = form_of(task, path)
    if form == "columns":
        if partial:
            raise UserError(f"{path}: partial=true goes by the examples' ids, which columns of words do not have.")
        return _joined_columns(task, path, examples, labels)
    given = _read(task, path, form, {example.id for example in examples})
    if partial:
        _count_missing_as_wrong(task, given, examples, path)
    else:
        _check_ids(path, given, examples)
    return [
        Prediction(example.id, _checked(task, said, labels, example), gold_of(example, labels), said.scores, said.answer)
        for example in examples
        if (said := given.get(example.id)) is not None
    ]


def form_of(task: TaskConfig, path: Path) -> str:
    """Which form a file has: ours, object, columns or table."""
    if inner_suffix(str(path)) in (".jsonl", ".ndjson"):
        return "ours"
    if inner_suffix(str(path)) == ".json" or task.kind == "span":
        return "object"
    return "columns" if task.kind == "tagging" else "table"


def predictions_with_gold(task: TaskConfig, path: Path) -> tuple[list[Prediction], list[str]]:
    """The predictions of a file that also says what is right, ours or columns of words (gold before predicted), and the labels.

    Raises:
        UserError: the file has no such form.
    """
    form = form_of(task, path)
    if form == "ours":
        predictions = [_with_checked_values(task, path, each) for each in read_predictions(path)]
    elif form == "columns":
        predictions = _with_gold_column(task, read_conll(path))
    else:
        raise UserError(
            f"{path} does not have the right answers: give the task's file or folder after it (bertlab score TASK PREDICTIONS DATA)."
        )
    return predictions, list(task.labels) or _labels_in(task, predictions)


def scored(
    task: TaskConfig,
    predictions: Sequence[Prediction],
    labels: Sequence[str],
    null: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """The metrics of predictions; with ``null`` (id → how much speaks for no answer) as SQuAD v2.0's official script computes them.

    Where ``null`` is above ``threshold`` the answer counts as "no answer"; the best thresholds are found on the answers as they are.

    Raises:
        UserError: ``null`` lacks an id.
    """
    if null is None:
        return metrics_of(task, predictions, labels)
    if missing := [prediction.id for prediction in predictions if prediction.id not in null]:
        raise UserError(f"na_prob lacks {_listed(missing)}.")
    place = {name: number for number, name in enumerate(null)}  # the script goes through equal ones in the order of their file
    predictions = sorted(predictions, key=lambda prediction: place[prediction.id])
    scores = example_scores(task, predictions, labels)
    scores["null"] = np.array([null[prediction.id] for prediction in predictions], dtype=np.float64)
    at_best = metrics_of_scores(task, scores, labels)
    for name in ("exact", "f1"):
        scores[name] = thresholded(scores[name], scores["has_answer"], scores["null"], threshold)
    at_threshold = metrics_of_scores(task, scores, labels)
    return at_threshold | {name: value for name, value in at_best.items() if name.startswith("best_")}


def read_null(path: Path) -> dict[str, float]:
    """SQuAD v2.0's file of no-answer probabilities, a JSON object id → number. Raises UserError where it is none."""
    given = _object(path)
    for name, value in given.items():
        if not _are_numbers([value]):
            raise UserError(f"{path}: {name!r} has {value!r}: expected a number.")
    return {name: float(value) for name, value in given.items()}


def _read(task: TaskConfig, path: Path, form: str, known: Set[str]) -> dict[str, Given]:
    if form == "ours":
        return {
            prediction.id: Given(_checked_extras(path, prediction), prediction.prediction, prediction.scores, prediction.answer)
            for prediction in read_predictions(path)
        }
    if form == "object":
        return {name: Given(f"{path}: {name!r}", value) for name, value in _object(path).items()}
    return _read_table(task, path, known)


def _read_table(task: TaskConfig, path: Path, known: Set[str]) -> dict[str, Given]:
    """The predictions of a table; ``known`` are the examples' ids."""
    csv, skip = inner_suffix(str(path)) == ".csv", task.skip_malformed_rows
    table = read_csv(path, False, task.delimiter, skip) if csv else read_tsv(path, False, skip)
    index, prediction = table.names[0], table.names[-1]
    if index == prediction:
        raise UserError(
            f"{path} has one column: expected two or more, the index of an example first and its prediction last, separated by "
            f"{f'{task.delimiter!r} (task.delimiter)' if csv else 'tabs (by commas in a file named .csv)'}."
        )
    header, *rows = table.rows
    if (name := str(header.values[index])) in known:
        raise UserError(f"{table.where(header)} is taken for the header, but begins with {name!r}, an example's index: add a header.")
    found: dict[str, Given] = {}
    for row in rows:
        if (name := str(row.values[index])) in found:
            raise UserError(f"{table.where(row)}: the index {name} occurs a second time.")
        found[name] = Given(table.where(row), row.values[prediction])
    return found


def _object(path: Path) -> dict[str, Any]:
    try:
        values = parse_json(read_text(path))
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}): expected an object, id → prediction.") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} is no JSON object: expected id → prediction.")
    return values


def _check_ids(path: Path, given: Mapping[str, object], examples: Sequence[Example]) -> None:
    known = {example.id for example in examples}
    missing = [example.id for example in examples if example.id not in given]
    extra = [name for name in given if name not in known]
    if missing:
        more = f", and has {len(extra):,} that are not among them ({_listed(extra)})" if extra else ""
        remedy = "partial=true scores it anyway"
        raise UserError(f"{path} lacks {len(missing):,} of {len(examples):,} examples ({_listed(missing)}){more}; {remedy}.")
    if extra:
        near = nearest(extra[0], known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        ids = "an id that is" if len(extra) == 1 else f"{len(extra):,} ids that are"
        raise UserError(f"{path} has {ids} not among the {len(examples):,} examples ({_listed(extra)}){hint}")


def _count_missing_as_wrong(task: TaskConfig, given: dict[str, Given], examples: Sequence[Example], path: Path) -> None:
    if not any(example.id in given for example in examples):
        raise UserError(f"{path} has a prediction for none of the {len(examples):,} examples, such as {examples[0].id!r}.")
    if task.kind == "span" and not task.no_answer:
        for example in examples:
            given.setdefault(example.id, Given(f"{path}: {example.id!r}", None))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _checked(task: TaskConfig, given: Given, labels: list[str], example: Example) -> Any:
    """A prediction in the form in which ``Prediction`` has it. Raises UserError where it cannot be one of the task."""
    value = given.value
    if task.kind == "span":
        if value is not None and not isinstance(value, str):
            raise UserError(f"{given.where} has {value!r}: expected a text.")
        return value  # None: no prediction, which is not the same as the empty one
    if task.kind == "tagging":
        return _checked_tags(task, given, value, labels, example)
    if task.kind == "classification":
        if str(value) not in labels:
            raise _unknown(given.where, "label", str(value), labels)
        return str(value)
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if isinstance(example, ChoiceExample):
        if number not in range(len(example.choices)):
            raise UserError(f"{given.where} has {value!r}: expected the number of a choice, 0 to {len(example.choices) - 1}.")
        return int(number)
    if not abs(number) <= _LARGEST:
        raise UserError(f"{given.where} has {value!r}: expected a number.")
    return number


def _with_checked_values(task: TaskConfig, path: Path, prediction: Prediction) -> Prediction:
    """A prediction that says itself what is right, both in the form that metrics take. Raises UserError."""
    where = _checked_extras(path, prediction)
    said: Any = prediction.prediction
    right: Any = prediction.gold
    wrong = UserError(f"{where} has the prediction {said!r} and the right answer {right!r}: both must be given, in the same form.")
    if task.kind == "span":
        if not (said is None or isinstance(said, str)) or not _are_texts(right):
            raise wrong
    elif task.kind == "tagging":
        if not _are_texts(said) or not _are_texts(right) or len(said) != len(right):
            raise wrong
        right, said = (_tags(task, tags, [where] * len(tags), task.labels) for tags in (right, said))
        return replace(prediction, prediction=said, gold=right)
    elif task.kind == "classification":
        if not all(isinstance(value, str | int) for value in (said, right)):
            raise wrong
    elif not _are_numbers([said, right]) or (
        task.kind == "choice" and not all(float(value).is_integer() and abs(value) <= _MOST_CHOICES for value in (said, right))
    ):
        raise wrong
    return prediction


def _checked_extras(path: Path, prediction: Prediction) -> str:
    """Where a prediction of ours stands, for messages. Raises UserError where its scores or its answer cannot be such."""
    where = f"{path}: {prediction.id!r}"
    answer: Any = prediction.answer
    if answer is not None and not isinstance(answer, str):
        raise UserError(f"{where} has the answer {answer!r}: expected a text.")
    if prediction.scores is not None and not _are_numbers(prediction.scores):
        raise UserError(f"{where} has the scores {prediction.scores!r}: expected a list of numbers.")
    return where


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_numbers(value: Any) -> bool:
    """Whether it is a list of numbers that a float can hold."""
    if not isinstance(value, list):
        return False
    return all(isinstance(each, int | float) and not isinstance(each, bool) and abs(each) <= _LARGEST for each in value)


def _checked_tags(task: TaskConfig, given: Given, value: Any, labels: list[str], example: Example) -> list[str]:
    words = example.words if isinstance(example, TaggingExample) else ()
    if not isinstance(value, list) or len(value) != len(words):
        raise UserError(f"{given.where} has {value!r}: expected a list of {len(words)} tags, one for each word.")
    return _tags(task, [str(tag) for tag in value], [given.where] * len(value), labels)


def _tags(task: TaskConfig, tags: list[str], places: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Tags as the task's own are read: the first where a word has several, and entities each beginning with B-."""
    tags = first_tags(task, tags)
    for tag, where in zip(tags, places, strict=True):
        if task.scheme != "none" and not is_entity_tag(tag):
            raise UserError(f"{where} has the tag {tag!r}: expected O, B-… or I-….")
        if task.scheme == "none" and labels and tag not in labels:
            raise _unknown(where, "tag", tag, labels)
    return tags if task.scheme == "none" else as_bio(tags)


def _unknown(where: str, what: str, written: str, labels: Iterable[str]) -> UserError:
    return UserError(f"{where} predicts the unknown {what} {written!r}: expected one of {', '.join(map(repr, labels))}.")


def _joined_columns(task: TaskConfig, path: Path, examples: Sequence[Example], labels: list[str]) -> list[Prediction]:
    table = read_conll(path)
    if len(table.rows) != len(examples):
        raise UserError(f"{path} holds a different number of sentences ({len(table.rows):,}) than the data ({len(examples):,}).")
    found = []
    for row, example in zip(table.rows, examples, strict=True):
        assert isinstance(example, TaggingExample)
        tags = list(row.values[table.names[-1]])
        _check_words(table, row.line, row.values[table.names[0]] if len(table.names) > 1 else None, len(tags), example)
        places = [table.where(row, place) for place in range(len(tags))]
        found.append(Prediction(example.id, _tags(task, tags, places, labels), gold_of(example, labels)))
    return found


def _check_words(table: Table, line: int, words: Sequence[str] | None, count: int, example: TaggingExample) -> None:
    for place, (word, wanted) in enumerate(zip(words or (), example.words, strict=False)):
        if word != wanted:
            raise UserError(f"{table.path}:{line + place} has the word {word!r} where the data has {wanted!r} (sentence {example.id}).")
    if count != len(example.words):
        raise UserError(f"{table.path}:{line}: the sentence has {counted(count, 'word')}, but {len(example.words)} in the data.")


def _with_gold_column(task: TaskConfig, table: Table) -> list[Prediction]:
    if len(table.names) < 3:
        raise UserError(
            f"{table.path} has {len(table.names)} columns: without the task's data it needs three or more: word, right tag, prediction."
        )
    gold, predicted = table.names[-2:]
    found = []
    for row in table.rows:
        places = [table.where(row, place) for place in range(len(row.values[gold]))]
        right, said = (_tags(task, list(row.values[column]), places, ()) for column in (gold, predicted))
        found.append(Prediction(str(row.number), said, right))
    return found


def _labels_in(task: TaskConfig, predictions: Sequence[Prediction]) -> list[str]:
    if task.kind == "classification":
        return in_order(task, {str(value) for prediction in predictions for value in (prediction.gold, prediction.prediction)})
    if task.kind == "tagging":
        return in_order(task, {str(tag) for prediction in predictions for tag in (*prediction.gold, *_as_list(prediction.prediction))})
    return []


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
