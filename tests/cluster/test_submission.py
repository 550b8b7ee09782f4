"""What was queued is found again, whatever became of the files that tell of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bertlab.cluster import submission
from bertlab.cluster.queue import JobState
from bertlab.cluster.submission import COMMANDS, End, find, read_end, write_end


def queued(runs: Path, name: str, *keys: str, job: str | None = "7", at: int = 0) -> Path:
    """A submission of commands with these keys, as a call leaves it; returns the list of its commands."""
    folder = runs / "slurm" / name
    folder.mkdir(parents=True)
    listed = folder / COMMANDS
    listed.write_text(json.dumps({"requeues": 1, "warning": 1, "commands": [{"key": key, "title": "t", "words": ["w"]} for key in keys]}))
    os.utime(listed, (at, at))
    if job is not None:
        (folder / "job.json").write_text(json.dumps({"job": job}))
    return listed


def jobs(runs: Path, queue: dict[str, JobState] | None = None) -> dict[str, str | None]:
    return {key: element.job for key, element in find(runs, queue or {}).items()}


def test_the_newest_job_of_each_command_is_found(tmp_path: Path) -> None:
    queued(tmp_path, "b", "one", "two", job="8", at=2)
    queued(tmp_path, "a", "two", "three", job="9", at=1)
    queued(tmp_path, "c", "four", job=None)  # its caller was killed before it noted the id, and before it was queued
    queued(tmp_path, "d", "five", job=None)
    assert jobs(tmp_path, {"11": JobState("PENDING", "", "d")}) == {"one": "8_0", "two": "8_1", "three": "9_1", "five": "11"}


@pytest.mark.parametrize(
    "content", ["", '{"commands": [{"ke', "[]", "5", "{}", '{"commands": 5}', '{"commands": [5]}', '{"commands": [{"key": []}]}']
)
def test_a_damaged_list_of_commands_hides_itself_alone_and_is_told_of_once(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queued(tmp_path, "whole", "one")
    damaged = queued(tmp_path, "torn", "two", job="8")
    damaged.write_text(content)
    for _ in range(2):
        assert jobs(tmp_path) == {"one": "7"}
    assert capsys.readouterr().err.count("\n") == 1
    assert jobs(tmp_path) == {"one": "7"}
    damaged.write_bytes(b"\xff")
    assert jobs(tmp_path) == {"one": "7"}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"job": 5}', '{"job": null}'])
def test_where_the_id_cannot_be_read_the_queue_knows_it(content: str, tmp_path: Path) -> None:
    folder = queued(tmp_path, "torn", "one").parent
    (folder / "job.json").write_text(content)
    assert jobs(tmp_path) == {}
    assert jobs(tmp_path, {"8": JobState("RUNNING", "", "torn")}) == {"one": "8"}


@pytest.mark.parametrize("content", ["", "5", "{}", '{"code": null, "printed": ""}', '{"code": "x", "printed": ""}', '{"code": Infinity}'])
def test_a_damaged_note_of_an_end_is_none(content: str, tmp_path: Path) -> None:
    write_end(tmp_path, 0, End(3, "said"))
    assert read_end(tmp_path, 0) == End(3, "said")
    (tmp_path / "0.end").write_text(content)
    assert read_end(tmp_path, 0) is None


@pytest.mark.parametrize("moment", ["sorted", "read"])
def test_a_submission_that_slurm_refuses_meanwhile_is_none(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its caller deletes it: just after this one has seen it, or just before it reads it."""
    queued(tmp_path, "whole", "one")
    refused = queued(tmp_path, "refused", "two", job=None)
    name = {"sorted": "_written_at", "read": "_keys"}[moment]
    honest = getattr(submission, name)

    def late(path: Path) -> Any:
        shutil.rmtree(refused.parent, ignore_errors=True)
        return honest(path)

    monkeypatch.setattr(submission, name, late)
    assert jobs(tmp_path) == {"one": "7"}
    assert capsys.readouterr().err == ""
