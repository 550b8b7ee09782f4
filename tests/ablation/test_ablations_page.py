"""The table of one's own in docs/ablations.md is one that can be planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bertlab.commands.ablate import run


def test_the_example_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "ablations.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(# bertlab ablate --grid mine\.yaml\n.*?)```", page, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(example, encoding="utf-8")
    (tmp_path / "text").mkdir()
    for number in range(40):
        (tmp_path / "text" / f"{number}.txt").write_text(f"He sat down at table {number}. She was tired of it. " * 5)
    monkeypatch.chdir(tmp_path)
    assert run(["--grid", "mine.yaml", "--scale", "smoke", "--dry-run", "corpus=text", "corpus.path=text", "trainer=cpu"]) == 0
    printed = capsys.readouterr().out
    for row in ("rate_15", "rate_40", "rate_40_mean", "random"):
        assert re.search(rf"mine: {row} × ", printed), row
