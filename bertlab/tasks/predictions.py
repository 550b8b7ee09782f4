"""predictions.jsonl: a line an example, as JSON, with what was predicted and what is right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertlab.errors import UserError
from bertlab.files import written_atomically
from bertlab.tasks.examples import ChoiceExample, Example, Prediction, SpanExample, TaggingExample, TextExample
from bertlab.tasks.rows import parse_json, read_text, text_lines


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions to ``path``, atomically, in their order."""
    with written_atomically(path) as file:
        for prediction in predictions:
            values = asdict(prediction)
            if prediction.answer is None:
                del values["answer"]
            file.write(json.dumps(values, ensure_ascii=False).encode() + b"\n")


def read_predictions(path: Path) -> list[Prediction]:
    """The predictions of a file that ``write_predictions`` wrote, or one like it (``id`` and ``prediction`` suffice).

    Raises:
        UserError: a line is none, or an id stands there twice.
    """
    found: dict[str, Prediction] = {}
    for number, line in enumerate(text_lines(read_text(path)), 1):
        if not line.strip():
            continue
        prediction = _prediction(f"{path}:{number}", line)
        if prediction.id in found:
            raise UserError(f"{path}:{number}: the id {prediction.id!r} occurs a second time.")
        found[prediction.id] = prediction
    if not found:
        raise UserError(f"{path} holds no prediction.")
    return list(found.values())


def gold_of(example: Example, labels: list[str]) -> Any:
    """What is right of an example, in the form in which predictions have it; None where it is not known."""
    if isinstance(example, SpanExample):
        return None if example.answers is None else [answer.text for answer in example.answers]
    if isinstance(example, TaggingExample):
        return None if example.tags is None else [labels[tag] for tag in example.tags]
    if isinstance(example, ChoiceExample):
        return example.label
    if isinstance(example, TextExample) and isinstance(example.label, int) and labels:
        return labels[example.label]
    return example.label


def evaluated_fingerprint(examples: Iterable[Example], labels: list[str]) -> str:
    """A hash of the ``examples`` that something is evaluated on: their ids, what they ask and what is right.

    Neither what is trained on is in it, nor other splits, nor the words around a sentence that a model may read or not.
    """
    digest = hashlib.sha256()
    for example in examples:
        asked = [getattr(example, name) for name in example.__slots__ if name not in ("label", "tags", "answers", "before", "after")]
        digest.update(repr((asked, gold_of(example, labels))).encode(errors="surrogatepass"))
    return digest.hexdigest()


def _prediction(where: str, line: str) -> Prediction:
    try:
        values = parse_json(line)
    except ValueError as error:
        raise UserError(f"{where} is not JSON ({error}): expected a prediction a line.") from error
    if not isinstance(values, dict) or "id" not in values or "prediction" not in values:
        raise UserError(f"{where} is no prediction: expected an object with id and prediction.")
    return Prediction(str(values["id"]), values["prediction"], values.get("gold"), values.get("scores"), values.get("answer"))
