from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bertlab.cli import app
from bertlab.completion import join_split_words


def bash(*words: str, **environment: str) -> list[str]:
    """What bash is answered when the last of ``words`` is being typed."""
    given = {"_BERTLAB_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1), **environment}
    join_split_words(given)
    return CliRunner().invoke(app, [], prog_name="bertlab", env=given).output.split()


@pytest.fixture(autouse=True)
def one_word_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTLAB_COMPLETION_SPLIT", raising=False)


def test_verbs() -> None:
    assert sorted(bash("bertlab", "pre")) == ["prepare", "pretrain"]


def test_the_choices_of_a_group_where_bash_splits_at_the_equals_sign_and_where_not() -> None:
    assert "large" in bash("bertlab", "pretrain", "model", "=", "la")
    assert set(bash("bertlab", "pretrain", "norm", "=")) == {"layer", "batch"}
    assert bash("bertlab", "pretrain", "-m", "seed", "=", "1,2", "norm", "=", "l") == ["layer"]
    assert bash("bertlab", "pretrain", "norm=l") == ["norm=layer"]
    assert bash("bertlab", "pretrain", "+norm=l") == ["+norm=layer"]


def test_a_sweep_completes_its_last_value() -> None:
    assert bash("bertlab", "pretrain", "-m", "norm=batch,l") == ["norm=batch,layer"]


def test_keys_and_the_words_they_hold() -> None:
    assert set(bash("bertlab", "pretrain", "budget.")) == {"budget.steps=", "budget.tokens=", "budget.minutes="}
    assert bash("bertlab", "pretrain", "norm.placement=pr") == ["norm.placement=pre"]
    assert bash("bertlab", "pretrain", "trainer.compile=") == ["trainer.compile=true", "trainer.compile=false"]
    assert bash("bertlab", "pretrain", "budget.steps=") == []
    assert "norm=layer" in bash("bertlab", "pretrain", "nor")  # one group left: its choices at once
    assert bash("bertlab", "pretrain", "~nor") == ["~norm"]
    assert bash("bertlab", "pretrain", "nothing=x") == []


def test_tables_and_both_stages_of_a_grid() -> None:
    assert bash("bertlab", "ablate", "--grid", "figure") == ["figure5"]
    assert bash("bertlab", "ablate", "tas") == ["tasks="]
    assert bash("bertlab", "ablate", "norm=l") == ["norm=layer"]
    assert bash("bertlab", "ablate", "finetune.head=cr") == ["finetune.head=crf"]
    assert bash("bertlab", "ablate", "pretrain.norm.placement=pr") == ["pretrain.norm.placement=pre"]
    assert bash("bertlab", "ablate", "--scale", "lap") == ["laptop"]
    assert bash("bertlab", "ablate", "--budget", "") == ["tokens", "flops", "minutes"]


def test_choices_of_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "zebra.yaml").write_text("layers: 3")
    assert bash("bertlab", "pretrain", "--config-dir", str(tmp_path), "model=z") == ["model=zebra"]
    assert bash("bertlab", "pretrain", f"--config-dir={tmp_path}", "model=z") == ["model=zebra"]
    assert bash("bertlab", "pretrain", "model=z") == []


def test_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no runs/
    (tmp_path / "pretrain-tiny-0123abcd").mkdir()
    (tmp_path / "pretrain-tiny-0123abcd" / "config.yaml").touch()
    (tmp_path / "unfinished").mkdir()
    assert bash("bertlab", "evaluate", f"paths.runs={tmp_path}", "checkpoint=") == ["checkpoint=pretrain-tiny-0123abcd"]
    assert bash("bertlab", "evaluate", "che") == ["checkpoint="]
    assert bash("bertlab", "pretrain", "check") == ["checkpointing.every=", "checkpointing.keep_every=", "checkpointing.keep_at="]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str) -> None:
    words = {
        "_BERTLAB_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "bertlab pretrain norm=l",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    answer = CliRunner().invoke(app, [], prog_name="bertlab", env=words).output
    assert "norm=layer" in answer
    assert "batch" not in answer


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_that_a_shell_is_given_works_in_it(tmp_path: Path) -> None:
    """Bash itself sources the script and calls its function, with ``=`` splitting words as by default."""
    program = tmp_path / "bertlab"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bertlab "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(bertlab --show-completion bash)"
        COMP_WORDS=(bertlab pretrain -m model = tiny norm = la); COMP_CWORD=8
        _bertlab_completion bertlab
        echo "${COMPREPLY[@]}"
    """
    finished = subprocess.run(
        ["bash", "--norc", "-c", script], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True, timeout=60
    )
    assert finished.stdout.split() == ["layer"], finished.stderr
