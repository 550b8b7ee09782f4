"""The example of docs/models.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from written_runs import small_architecture, small_vocabulary, write_run


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    vocabulary = small_vocabulary()
    write_run(tmp_path / "runs" / "RUN", vocabulary, small_architecture(vocabulary))
    write_run(tmp_path / "runs" / "LTR_RUN", vocabulary, small_architecture(vocabulary, attention="causal", next_sentence=False))
    (tmp_path / "texts").mkdir()
    for number in range(4):
        (tmp_path / "texts" / f"{number}.txt").write_text("he was tired. paris is the capital of france. " * (20 + number))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTLAB_CACHE", str(tmp_path / "cache"))
    names: dict[str, object] = {}
    exec(compile(example, "docs/models.md", "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+\.\d% \S+", lines[0])
    assert lines[3].startswith("Once upon")
    assert 0 < names["follows"] < 1
    assert names["vectors"].shape == (2, 16)
    assert names["states"].shape[1] == 16
    assert names["figures"]["perplexity"] > 1
