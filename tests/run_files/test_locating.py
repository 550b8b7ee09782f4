from __future__ import annotations

import os
from pathlib import Path

import pytest

from bertlab.errors import UserError
from bertlab.run_files.locating import located


def make_runs(runs: Path, *names: str) -> None:
    """Folders as runs have them, the first the oldest."""
    for age, name in enumerate(names):
        (runs / name).mkdir(parents=True)
        (runs / name / "config.yaml").touch()
        os.utime(runs / name / "config.yaml", (age, age))


def refusal(checkpoint: str, runs: Path) -> str:
    with pytest.raises(UserError) as caught:
        located(checkpoint, runs)
    return str(caught.value)


def test_every_kind_of_name(tmp_path: Path) -> None:
    make_runs(tmp_path, "pretrain-a-0123abcd")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").touch()
    run = tmp_path / "pretrain-a-0123abcd"
    for name in (str(run), run.name, "0123abcd"):
        assert located(name, tmp_path) == run
    assert located("bert", tmp_path) == located(str(tmp_path / "bert"), tmp_path / "runs") == tmp_path / "bert"


def test_a_name_of_nothing_gets_the_newest_pretrainings_offered(tmp_path: Path) -> None:
    make_runs(tmp_path, *(f"pretrain-{letter}" for letter in "dbacgfe"), *(f"finetune-{letter}" for letter in "xyz"))
    assert "(pretrain-e, pretrain-f, pretrain-g, pretrain-c, pretrain-a and 2 more)" in refusal("nothing", tmp_path)


def test_a_name_of_nothing_where_there_are_few_runs_or_none(tmp_path: Path) -> None:
    assert "(which has none yet)" in refusal("nothing", tmp_path)
    make_runs(tmp_path, "finetune-x", "finetune-y")
    assert "(finetune-y, finetune-x)" in refusal("nothing", tmp_path)


def test_a_path_of_nothing_is_called_one(tmp_path: Path) -> None:
    make_runs(tmp_path, "pretrain-a")
    for path in ("/no/such/folder", "./nowhere", "a/b/c", str(tmp_path / "step-000000001.safetensors")):
        assert refusal(path, tmp_path).startswith(f"There is no folder or file {path}")
    assert "hf download org/bert" in refusal("org/bert", tmp_path)
