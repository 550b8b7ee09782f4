"""Predictions as files: ours, and those that official servers take."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_files import configured, write

from bertlab.errors import UserError
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Answer, ChoiceExample, Prediction, SpanExample, TaggingExample, TextExample
from bertlab.tasks.predictions import evaluated_fingerprint, gold_of, read_predictions, write_predictions
from bertlab.tasks.submission import write_submission

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=10)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.one_of(TEXT, NUMBER, st.integers(-9, 9), st.lists(TEXT, max_size=3))
SCORES = st.one_of(st.none(), st.lists(NUMBER, min_size=1, max_size=3))
PREDICTION = st.builds(Prediction, TEXT, VALUE, st.one_of(st.none(), VALUE), SCORES, st.one_of(st.none(), TEXT))


@settings(max_examples=50)
@given(st.lists(PREDICTION, min_size=1, max_size=5, unique_by=lambda p: p.id))
def test_predictions_come_back_as_they_were_written(predictions: list[Prediction]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.jsonl"
        write_predictions(path, predictions)
        assert read_predictions(path) == predictions
        assert len(path.read_bytes().split(b"\n")) == len(predictions) + 1  # a line each
        assert os.listdir(folder) == [path.name]


def test_nothing_is_written_where_making_predictions_fails(tmp_path: Path) -> None:
    def failing() -> Any:
        yield Prediction("0", "a", None)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_predictions(tmp_path / "predictions.jsonl", failing())
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", r"p\.jsonl:2 is not JSON"),
        ('{"id": 1}', r"p\.jsonl:2 is no prediction: expected an object with id and prediction"),
        ('{"id": 0, "prediction": "a"}', r"p\.jsonl:2: the id '0' occurs a second time"),
    ],
    ids=["json", "keys", "twice"],
)
def test_what_is_no_prediction_is_said_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_predictions(write(tmp_path / "p.jsonl", '{"id": "0", "prediction": "a"}', line))
    with pytest.raises(UserError, match="holds no prediction"):
        read_predictions(write(tmp_path / "empty.jsonl"))


@pytest.mark.parametrize(
    ("example", "labels", "gold"),
    [
        (TextExample("0", "a", None, 1), ["no", "yes"], "yes"),
        (TextExample("0", "a", None, 2.5), [], 2.5),
        (TextExample("0", "a", None, None), ["no", "yes"], None),
        (ChoiceExample("0", "a", ("b", "c"), 0), [], 0),
        (TaggingExample("0", ("a", "b"), (1, 0)), ["O", "B-X"], ["B-X", "O"]),
        (TaggingExample("0", ("a",)), ["O"], None),
        (SpanExample("0", "q", "c", (Answer("c", 0), Answer("", 0))), [], ["c", ""]),
        (SpanExample("0", "q", "c", ()), [], []),
        (SpanExample("0", "q", "c"), [], None),
    ],
    ids=str,
)
def test_what_is_right_in_the_form_of_predictions(example: Any, labels: list[str], gold: Any) -> None:
    assert gold_of(example, labels) == gold


class TestSubmission:
    @pytest.mark.parametrize(
        ("name", "split", "file"),
        [
            ("cola", "test", "CoLA.tsv"),
            ("sst2", "test", "SST-2.tsv"),
            ("mrpc", "test", "MRPC.tsv"),
            ("stsb", "test", "STS-B.tsv"),
            ("qqp", "test", "QQP.tsv"),
            ("mnli", "test_matched", "MNLI-m.tsv"),
            ("mnli", "test_mismatched", "MNLI-mm.tsv"),
            ("mnli", "ax", "AX.tsv"),
            ("qnli", "test", "QNLI.tsv"),
            ("rte", "test", "RTE.tsv"),
            ("wnli", "test", "WNLI.tsv"),
        ],
    )
    def test_every_file_of_glue_has_its_official_name_and_form(self, tmp_path: Path, name: str, split: str, file: str) -> None:
        task = configured(name)
        values: list[Any] = [3.14159, 5.0] if task.kind == "regression" else [task.labels[0], task.labels[-1]]
        path = write_submission(tmp_path, task, split, [Prediction(str(number), value, None) for number, value in enumerate(values)])
        shown = ["3.142", "5.000"] if task.kind == "regression" else values
        assert path == tmp_path / file
        assert path.read_text(encoding="utf-8") == f"index\tprediction\n0\t{shown[0]}\n1\t{shown[1]}\n"

    def test_squad_has_an_object(self, tmp_path: Path) -> None:
        path = write_submission(tmp_path, configured("squad20"), "test", [Prediction("a", "Zürich", None), Prediction("b", "", None)])
        assert json.loads(path.read_text(encoding="utf-8")) == {"a": "Zürich", "b": ""}

    def test_a_task_without_a_server(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"task=mine has no form for submitting test \(task\.submission has none\)"):
            write_submission(tmp_path, TaskConfig(name="mine"), "test", [])


def test_what_is_evaluated_on_is_known_by_what_is_asked_and_what_is_right() -> None:
    one = TaggingExample("0", ("in", "Rome"), (0, 1), before=("He", "is"))
    of_one = evaluated_fingerprint([one], ["O", "LOC"])
    # What may be read around a sentence, and how the tags are numbered, which may hang on the training examples, change nothing.
    assert evaluated_fingerprint([TaggingExample("0", ("in", "Rome"), (1, 0))], ["LOC", "O"]) == of_one
    others = [
        [TaggingExample("1", one.words, one.tags)],
        [TaggingExample("0", ("at", "Rome"), one.tags)],
        [TaggingExample("0", one.words, (1, 1))],
        [TaggingExample("0", one.words, None)],
        [one, one],
    ]
    assert len({of_one, *(evaluated_fingerprint(examples, ["O", "LOC"]) for examples in others)}) == 6
    span = SpanExample("0", "where", "in Rome", (Answer("Rome", 3),))
    assert evaluated_fingerprint([span], []) != evaluated_fingerprint([SpanExample("0", "where", "in Rome", ())], [])
    pair = TextExample("0", "a", "b", 1)
    assert evaluated_fingerprint([pair], ["no", "yes"]) == evaluated_fingerprint([pair], ["maybe", "yes"])
    assert evaluated_fingerprint([pair], ["no", "yes"]) != evaluated_fingerprint([TextExample("0", "a", "c", 1)], ["no", "yes"])
