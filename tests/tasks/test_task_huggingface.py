"""Tasks out of ``datasets``: folders that the library saved, with the columns and classes of the sets on the hub."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from task_files import configured, load

from bertlab.config import PathsConfig
from bertlab.errors import UserError
from bertlab.tasks.examples import Answer, ChoiceExample, SpanExample, TaggingExample, TextExample
from bertlab.tasks.load import available_splits


def saved(folder: Path, features: dict[str, Any], **splits: dict[str, list[Any]]) -> str:
    """The folder of a data set with these splits."""
    rows = {name: datasets.Dataset.from_dict(columns, features=datasets.Features(features)) for name, columns in splits.items()}
    datasets.DatasetDict(rows).save_to_disk(str(folder))
    return str(folder)


def from_hub(name: str, dataset: str, **changed: Any) -> Any:
    return configured(name, format="huggingface", dataset=dataset, subset=None, **changed)


TEXT = datasets.Value("string")
NUMBER = datasets.Value("int64")


def test_mnli_by_its_class_names_and_splits(tmp_path: Path) -> None:
    features = {"premise": TEXT, "hypothesis": TEXT, "label": datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])}
    rows = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [2, 0]}
    unlabelled = {"premise": ["e"], "hypothesis": ["f"], "label": [-1]}
    task = from_hub("mnli", saved(tmp_path / "mnli", features, train=rows, validation_matched=rows, test_matched=unlabelled))
    data = load(task, "train", "dev", "test_matched")
    assert data.splits["train"] == [TextExample("0", "a", "c", 0), TextExample("1", "b", "d", 1)]  # contradiction is our first class
    assert data.splits["dev"] == data.splits["train"]
    assert data.splits["test_matched"] == [TextExample("0", "e", "f", None)]
    assert available_splits(task, PathsConfig()) == ["train", "dev", "test_matched"]


def test_classes_by_number_where_the_tasks_labels_are_numbers(tmp_path: Path) -> None:
    features = {"sentence1": TEXT, "sentence2": TEXT, "label": datasets.ClassLabel(names=["not_equivalent", "equivalent"])}
    rows = {"sentence1": ["a"], "sentence2": ["b"], "label": [1]}
    data = load(from_hub("mrpc", saved(tmp_path / "mrpc", features, train=rows)), "train")
    assert (data.splits["train"], data.labels) == ([TextExample("0", "a", "b", 1)], ["0", "1"])


def test_numbers_that_a_server_keeps_are_not_known(tmp_path: Path) -> None:
    features = {"sentence1": TEXT, "sentence2": TEXT, "label": datasets.Value("float32")}
    rows = {"sentence1": ["a", "b"], "sentence2": ["c", "d"]}
    numbers = {"train": [-1.0, -1.0], "validation": [2.5, -1.0], "test": [-1.0, -1.0]}
    folder = saved(tmp_path / "stsb", features, **{split: rows | {"label": labels} for split, labels in numbers.items()})
    data = load(from_hub("stsb", folder), "train", "dev", "test")
    found = {split: [example.label for example in examples if isinstance(example, TextExample)] for split, examples in data.splits.items()}
    assert found == {"train": [-1.0, -1.0], "dev": [2.5, -1.0], "test": [None, None]}


def test_an_example_has_one_fingerprint_from_the_hub_and_from_a_file(tmp_path: Path) -> None:
    features = {"sentence": TEXT, "label": datasets.ClassLabel(names=["negative", "positive"])}
    hub = load(from_hub("sst2", saved(tmp_path / "hub", features, train={"sentence": ["good "], "label": [1]})), "train")
    (tmp_path / "train.tsv").write_text("sentence\tlabel\ngood \t1\n", encoding="utf-8")
    assert load(configured("sst2", path=str(tmp_path)), "train").fingerprint == hub.fingerprint


def test_squad_with_nested_answers(tmp_path: Path) -> None:
    answers = {"text": datasets.Sequence(TEXT), "answer_start": datasets.Sequence(NUMBER)}
    rows = {"id": ["a", "b"], "question": ["q", "r"], "context": ["x cat", "y"]}
    rows["answers"] = [{"text": ["cat"], "answer_start": [2]}, {"text": [], "answer_start": []}]
    folder = saved(tmp_path / "squad", {"id": TEXT, "question": TEXT, "context": TEXT, "answers": answers}, validation=rows, test=rows)
    data = load(from_hub("squad20", folder, files={"test": ["test"]}), "dev", "test")
    assert data.splits["test"] == data.splits["dev"]
    assert data.splits["dev"] == [SpanExample("a", "q", "x cat", (Answer("cat", 2),)), SpanExample("b", "r", "y", ())]


def test_words_with_classes_and_choices(tmp_path: Path) -> None:
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-P", "I-P"]))
    folder = saved(tmp_path / "ner", {"tokens": datasets.Sequence(TEXT), "ner": tags}, train={"tokens": [["Ann", "ran"]], "ner": [[1, 0]]})
    layouts = {"huggingface": {"columns": {"words": "tokens", "tags": "ner"}}}
    data = load(from_hub("tagging", folder, layouts=layouts), "train")
    assert (data.splits["train"], data.labels) == ([TaggingExample("0", ("Ann", "ran"), (1, 0))], ["O", "B-P"])
    endings = [f"ending{number}" for number in range(4)]
    rows = {"startphrase": ["s"], **{name: [name] for name in endings}, "label": [3]}
    features = {"startphrase": TEXT, **dict.fromkeys(endings, TEXT), "label": datasets.ClassLabel(names=["0", "1", "2", "3"])}
    swag = load(from_hub("swag", saved(tmp_path / "swag", features, train=rows, validation=rows)), "dev")
    assert swag.splits["dev"] == [ChoiceExample("0", "s", tuple(endings), 3)]


class TestMistakes:
    def test_a_split_that_is_not_there(self, tmp_path: Path) -> None:
        folder = saved(
            tmp_path / "a", {"text": TEXT, "label": NUMBER}, train={"text": ["a"], "label": [0]}, held={"text": ["a"], "label": [0]}
        )
        with pytest.raises(UserError, match=r"has no split for dev: it has train, held; name one with 'task\.files\.dev=\[NAME\]'"):
            load(from_hub("classification", folder), "train", "dev")
        assert load(from_hub("classification", folder, files={"dev": ["held"]}), "dev").splits["dev"] == [TextExample("0", "a", None, 0)]

    def test_a_column_that_is_not_there(self, tmp_path: Path) -> None:
        folder = saved(tmp_path / "a", {"texts": TEXT, "label": NUMBER}, train={"texts": ["a"], "label": [0]})
        with pytest.raises(UserError, match=r"/train has no column 'text': .*did you mean task\.columns\.text='texts'"):
            load(from_hub("classification", folder), "train")

    def test_a_set_that_cannot_be_had(self) -> None:
        with pytest.raises(UserError, match=r"task\.dataset=no/such: the data set cannot be loaded .* without internet, give a folder"):
            load(from_hub("classification", "no/such"), "train")

    def test_no_set_is_named(self) -> None:
        with pytest.raises(UserError, match=r"needs task\.dataset"):
            load(configured("classification", format="huggingface"), "train")

    def test_the_library_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = builtins.__import__

        def without(name: str, *rest: Any) -> Any:
            if name == "datasets":
                raise ImportError(name)
            return real(name, *rest)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(UserError, match=r"pip install 'bertlab\[huggingface\]'"):
            load(from_hub("mrpc", "nyu-mll/glue"), "train")


def test_reading_files_does_not_import_the_library() -> None:
    program = "import sys, bertlab.tasks.load; print([name for name in ('datasets', 'torch', 'pandas') if name in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert finished.stdout.strip() == "[]"
