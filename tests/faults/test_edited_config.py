"""A run's config.yaml that someone edits: what is trained is what the command says, and what was edited is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from run_numbers import killed_after, numbers
from small_runs import MakeConfig

from bertlab.commands.evaluate import run as evaluate_command
from bertlab.run_files.folder import RunFolder
from bertlab.training.bookkeeping import Bookkeeping
from bertlab.training.pretrain import pretrain


def edit(folder: Path, **values: object) -> None:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))


@pytest.mark.parametrize("content", [None, "", "seed: [", "nothing: here"], ids=["another seed", "empty", "no YAML", "unknown key"])
def test_edited_while_the_run_lies_unfinished(content: str | None, make_config: MakeConfig, tmp_path: Path) -> None:
    whole = pretrain(make_config(**{"paths.runs": str(tmp_path / "whole")}))
    folder = killed_after(11, lambda: pretrain(make_config()), make_config().paths.runs)
    as_written = (folder / "config.yaml").read_bytes()
    if content is None:
        edit(folder, seed=99)
    else:
        (folder / "config.yaml").write_text(content)
    assert pretrain(make_config()) == folder
    assert numbers(folder) == numbers(whole)
    assert (folder / "config.yaml").read_bytes() == as_written


def test_edited_while_the_run_goes_on(make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, after_step = pretrain(make_config(**{"paths.runs": str(tmp_path / "whole")})), Bookkeeping.on_train_batch_end

    def editing(self: Bookkeeping, *arguments: object) -> None:
        after_step(self, *arguments)
        edit(self.run.path, seed=self.step, optimizer={"lr": 7.0})

    monkeypatch.setattr(Bookkeeping, "on_train_batch_end", editing)
    folder = pretrain(make_config())
    assert numbers(folder) == numbers(whole)
    assert RunFolder(folder).read_config() == make_config()
    assert not RunFolder(folder).config_was_changed


def test_begun_again_from_an_edited_one_it_is_a_run_of_its_own(make_config: MakeConfig) -> None:
    first = pretrain(make_config())
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    edit(first, seed=5)
    second = pretrain(RunFolder(first).read_config())
    assert second != first
    assert numbers(second) == numbers(pretrain(make_config(seed=5, **{"paths.runs": f"{make_config().paths.runs}-other"})))
    after = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert [path.name for path in before if after[path] != before[path]] == ["config.yaml"]


def test_edited_after_the_run_it_is_said(make_config: MakeConfig, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pretrain(make_config())
    assert evaluate_command([f"checkpoint={folder}"]) == 0
    assert "was changed" not in capsys.readouterr().err
    edit(folder, seed=5)
    assert evaluate_command([f"checkpoint={folder}"]) == 0
    assert f"warning: {folder}/config.yaml was changed after the run was finished" in capsys.readouterr().err
