"""``bertlab report``: what it prints, where it writes, what it refuses."""

import sys
from pathlib import Path

import pytest

from bertlab.commands.report import run
from bertlab.completion import _keys, _tables
from bertlab.errors import UserError

sys.path.insert(0, str(Path(__file__).parents[1] / "ablation"))
from fake_runs import FakeTable


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    FakeTable(tmp_path / "runs", seeds=1).write()
    return tmp_path / "runs"


def test_the_page_is_the_last_line_and_lies_with_the_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([f"paths.runs={runs}"]) == 0
    printed = capsys.readouterr().out.splitlines()
    page = Path(printed[-1])
    assert page.parent.parent == runs / "reports"
    assert page.is_file()
    assert printed[0].startswith("Effect of the pre-training tasks")


def test_reports_go_where_they_are_told_to(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["table5-smoke", "--to", str(tmp_path / "out"), f"paths.runs={runs}"]) == 0
    assert Path(capsys.readouterr().out.splitlines()[-1]).parent.parent == tmp_path / "out"
    assert not (runs / "reports").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tabel5"], "did you mean table5"),
        (["--artifacts"], "give --publish, too"),
        (["--pubish"], "Unknown flag '--pubish': did you mean --publish?"),
        (["--foo"], "choose from --artifacts, --help, --publish, --to"),
        (["logger.projekt=x"], "did you mean logger.project"),
    ],
)
def test_mistakes_are_sentences(runs: Path, words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run([*words, f"paths.runs={runs}"])


def test_a_folder_without_tables_says_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="bertlab ablate --grid makes one"):
        run([f"paths.runs={tmp_path}"])


def test_its_words_are_completed(runs: Path) -> None:
    (table,) = _tables(["report", f"paths.runs={runs}"], "tab")
    assert table.startswith("table5-smoke-")
    assert _keys(["report"], "logger.p", deletes=False) == ["logger.project="]
