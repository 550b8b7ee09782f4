"""The real files, with the counts that their publishers state."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_files import configured, load

from bertlab.tasks.entities import entities_of

# Rows of train and dev (and test), as the README of the development data has them.
COUNTS = {
    "sst2": (67349, 872),
    "cola": (8551, 1043),
    "mrpc": (3667, 408),
    "rte": (2490, 277),
    "stsb": (5749, 1500),
    "qnli": (8999, 5463),
    "mnli": (8999, 9815),
    "squad11": (11877, 10570),
    "squad20": (5795, 6078),
    "codah": (1665, 556, 555),
    "wnut17": (3394, 1009, 1287),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_row_is_read(shared_data: Path, name: str) -> None:
    splits = ("train", "dev", "test")[: len(COUNTS[name])]
    data = load(configured(name, path=str(shared_data)), *splits)
    assert tuple(len(data.splits[split]) for split in splits) == COUNTS[name]
    assert not data.left_out
    for split in splits:
        assert len({example.id for example in data.splits[split]}) == len(data.splits[split])


@pytest.mark.parametrize("name", ["sst2", "mrpc", "rte", "qnli", "mnli", "stsb"])
def test_a_column_cut_out_by_hand_says_the_same(shared_data: Path, name: str) -> None:
    task = configured(name, path=str(shared_data))
    lines = (shared_data / "glue" / task.folders[0] / "train.tsv").read_text(encoding="utf-8-sig").split("\n")
    place = {column: lines[0].split("\t").index(str(column)) for column in (task.columns.text, task.columns.label)}
    rows = [line.split("\t") for line in lines[1:] if line]
    data = load(task, "train")
    assert [example.text for example in data.splits["train"]] == [row[place[task.columns.text]] for row in rows]
    written = [row[place[task.columns.label]] for row in rows]
    if task.kind == "regression":
        assert [example.label for example in data.splits["train"]] == [float(value) for value in written]
    else:
        assert [data.labels[example.label] for example in data.splits["train"]] == written


@pytest.mark.parametrize("name", ["squad11", "squad20"])
def test_answers_stand_where_they_are_said_to(shared_data: Path, name: str) -> None:
    data = load(configured(name, path=str(shared_data)))
    assert not data.notes
    for example in [*data.splits["train"], *data.splits["dev"]]:
        assert all(example.context[answer.start :].startswith(answer.text) for answer in example.answers)
    without = sum(not example.answers for example in data.splits["dev"])
    assert without == {"squad11": 0, "squad20": 3168}[name]
    assert max(len(example.answers) for example in data.splits["dev"]) > 1


def test_swag_has_one_file_which_is_parted(shared_data: Path) -> None:
    data = load(configured("swag", path=str(shared_data)))
    assert (len(data.splits["train"]), len(data.splits["dev"])) == (350, 150)
    assert len(data.notes) == 1


def test_names_of_wnut17(shared_data: Path) -> None:
    data = load(configured("wnut17", path=str(shared_data)))
    lines = (shared_data / "wnut17" / "emerging.dev.conll").read_text(encoding="utf-8").split("\n")
    begun = sum(line.split("\t")[1].startswith("B-") for line in lines if line.strip())
    found = [entities_of([data.labels[tag] for tag in example.tags]) for example in data.splits["dev"]]
    assert sum(map(len, found)) == begun  # the file is clean BIO: every entity begins with B-
    assert [word for example in data.splits["dev"] for word in example.words] == [line.split("\t")[0] for line in lines if line.strip()]
