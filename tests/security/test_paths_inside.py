from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_runs import FakeTable

from bertlab.ablation.graph import Record
from bertlab.ablation.manifest import read_manifest
from bertlab.ablation.records import read_record, record_path, write_record
from bertlab.errors import UserError
from bertlab.files import is_plain_name
from bertlab.run_files import parted_rows
from bertlab.run_files.weight_files import read_folder_weights
from bertlab.task_config import TaskConfig
from bertlab.tasks.submission import write_submission

OUTSIDE = ["../evil", "/tmp/evil", "a/../../evil", "..", ".", "", "a\0b"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_no_plain_name(name: str) -> None:
    assert not is_plain_name(name)
    assert is_plain_name("pretrain-tiny-mlm-0123abcd")


@pytest.mark.parametrize("name", OUTSIDE[:4])
def test_a_task_file_writes_its_submission_into_the_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"task\.submission\.test"):
        write_submission(tmp_path / "run" / "submission", TaskConfig(name="t", submission={"test": name}), "test", [])
    assert list(tmp_path.iterdir()) == []
    assert write_submission(tmp_path, TaskConfig(name="t", submission={"test": "T.tsv"}), "test", []) == tmp_path / "T.tsv"


@pytest.mark.parametrize("name", [*OUTSIDE[:4], 5, None, ["a"]])
def test_an_index_of_weights_names_files_beside_it(name: object, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "evil").write_bytes(b"")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(UserError, match=r"index\.json (names|is no index)"):
        read_folder_weights(folder)


@pytest.mark.parametrize("name", [*OUTSIDE, "part-1-0-of-1-0123456789abcdef.safetensors/../../x"])
def test_a_state_names_parts_beside_it(name: str, tmp_path: Path) -> None:
    assert not parted_rows.are_whole(tmp_path, [name])


def test_a_record_leads_to_no_folder_outside_of_the_runs(tmp_path: Path) -> None:
    runs, outside = tmp_path / "runs", tmp_path / "elsewhere" / "run"
    for folder in (runs / "mine", outside):
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{}")
    for folder, found in (
        (runs / "mine", runs / "mine"),
        (tmp_path / "where it was" / "mine", runs / "mine"),  # moved with all of the runs
        (outside, None),
        (runs / ".." / "elsewhere" / "run", None),
        (runs / "..", None),
        (runs, None),
    ):
        write_record(runs, Record("k", "done", str(folder)))
        record = read_record(runs, "k")
        assert (record and Path(record.folder)) == found


@pytest.mark.parametrize("change", [{"folder": 5}, {"status": None}, {"status": "x"}, {"reason": []}, {"seconds": "1"}, {"more": 1}])
def test_a_record_of_another_kind_is_none(change: dict[str, object], tmp_path: Path) -> None:
    write_record(tmp_path, Record("k", "failed", "", "why"))
    assert read_record(tmp_path, "k") is not None
    path = record_path(tmp_path, "k")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert read_record(tmp_path, "k") is None


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("place", ["table", "scale", "key", "source", "cell"])
def test_a_tables_file_leads_nowhere_else(place: str, name: str, tmp_path: Path) -> None:
    FakeTable(tmp_path).write()
    (path,) = (tmp_path / "grid" / "tables").glob("*.json")
    values = json.loads(path.read_text())
    assert read_manifest(path)
    node = next(node for node in values["nodes"].values() if node["source"])
    if place in ("table", "scale"):
        values[place] = name
    elif place == "cell":
        values["cells"][0]["nodes"] = [name]
    else:
        node[place] = name
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match="is not a table's file"):
        read_manifest(path)
