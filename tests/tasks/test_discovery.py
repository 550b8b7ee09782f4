from __future__ import annotations

from pathlib import Path

import pytest
from task_files import configured, load, write_rows

from bertlab.config import PathsConfig
from bertlab.errors import UserError
from bertlab.tasks.discovery import find_files
from bertlab.tasks.load import available_splits

HEADER = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")


def write_mrpc(path: Path, label: str = "1") -> None:
    write_rows(path, HEADER, (label, "1", "2", "One.", "Two."))


@pytest.mark.parametrize(
    "file",
    [
        "train.tsv",
        "MRPC/train.tsv",
        "mrpc/train.tsv",
        "glue/MRPC/train.tsv",
        "glue_data/mrpc/train.tsv",
        "mrpc_train.tsv",
        "MRPC-train.tsv",
    ],
)
def test_files_are_found_where_people_have_them(tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mrpc(tmp_path / file)
    assert find_files(configured("mrpc", path=str(tmp_path))) == {"train": tmp_path / file}
    monkeypatch.setenv("BERTLAB_TASKS", str(tmp_path))
    assert find_files(configured("mrpc")) == {"train": tmp_path / file}


def test_the_folder_of_the_task_comes_before_files_that_may_be_of_another(tmp_path: Path) -> None:
    write_mrpc(tmp_path / "train.tsv", "0")
    write_mrpc(tmp_path / "MRPC" / "train.tsv")
    write_mrpc(tmp_path / "dev.tsv")
    task = configured("mrpc", path=str(tmp_path))
    assert find_files(task) == {"train": tmp_path / "MRPC" / "train.tsv"}
    with pytest.raises(UserError, match=r"MRPC has no file for dev: expected dev\.tsv or msr_paraphrase_test\.txt \(or task\.held_out"):
        load(task)
    assert available_splits(task, PathsConfig()) == ["train"]


@pytest.mark.parametrize("path", [".", "MNLI"])
def test_a_file_beside_the_tasks_folder_does_not_tell_where_the_others_are(tmp_path: Path, path: str) -> None:
    """GLUE's download has MNLI's diagnostic set in a folder of its own."""
    header = ("index", "sentence1", "sentence2", "gold_label")
    for file in ("MNLI/train.tsv", "MNLI/dev_matched.tsv", "diagnostic/diagnostic.tsv"):
        write_rows(tmp_path / file, header, ("0", "a", "b", "neutral"))
    found = find_files(configured("mnli", path=str(tmp_path / path)))
    assert {split: file.resolve() for split, file in found.items()} == {
        "train": tmp_path / "MNLI" / "train.tsv",
        "dev": tmp_path / "MNLI" / "dev_matched.tsv",
        "ax": tmp_path / "diagnostic" / "diagnostic.tsv",
    }


def test_the_corpus_of_mrpc_itself_is_read(tmp_path: Path) -> None:
    write_mrpc(tmp_path / "msr_paraphrase_train.txt")
    write_mrpc(tmp_path / "msr_paraphrase_test.txt", "0")
    data = load(configured("mrpc", path=str(tmp_path)), "train", "dev", "test")
    assert {split: examples[0].label for split, examples in data.splits.items()} == {"train": 1, "dev": 0, "test": 0}


def test_the_users_own_names_count(tmp_path: Path) -> None:
    write_rows(tmp_path / "mine" / "a.tsv", ("text", "label"), ("One.", "x"))
    other = write_rows(tmp_path / "b.tsv", ("text", "label"), ("Two.", "x"))
    task = configured("classification", path=str(tmp_path / "mine"), files={"train": ["a.tsv"], "dev": [str(other)]})
    assert find_files(task) == {"train": tmp_path / "mine" / "a.tsv", "dev": other}


class TestMistakes:
    def test_no_place_is_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("BERTLAB_TASKS", raising=False)
        with pytest.raises(UserError, match=r"task=mrpc needs task\.path=DIR, a folder that holds MRPC/train\.tsv or train\.tsv"):
            find_files(configured("mrpc"))

    def test_the_place_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="there is no such folder"):
            find_files(configured("mrpc", path=str(tmp_path / "nothing")))

    def test_the_place_is_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(
            UserError, match=r"is a file: name the folder, and the file in task\.files, as in 'task\.files\.dev=\[a\.tsv\]'"
        ):
            find_files(configured("mrpc", path=str(write_rows(tmp_path / "a.tsv", ("a",)))))

    def test_the_place_holds_other_files_and_the_like_ones_are_named(self, tmp_path: Path) -> None:
        write_rows(tmp_path / "trian.tsv", ("a",))
        with pytest.raises(UserError, match=r"holds none of its files: train\.tsv or .* It holds trian\.tsv"):
            find_files(configured("sst2", path=str(tmp_path)))

    def test_the_place_is_empty(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="It is empty"):
            find_files(configured("sst2", path=str(tmp_path)))

    def test_an_unknown_split(self, tmp_path: Path) -> None:
        write_mrpc(tmp_path / "train.tsv")
        with pytest.raises(UserError, match="task=mrpc has no split 'dev_matched': it has train, dev, test"):
            load(configured("mrpc", path=str(tmp_path)), "dev_matched")
