from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
import pytest

from bertlab.commands.jobs import Ended
from bertlab.commands.seeds import seed_table, settings_of, show_seeds
from bertlab.composition import Job
from bertlab.config import OptimizerConfig
from bertlab.finetune_config import FinetuneConfig


def job(folder: Path | None, seed: int, lr: float, value: float = 0.0, degenerate: str | None = None) -> Ended[FinetuneConfig]:
    config = FinetuneConfig(seed=seed, optimizer=OptimizerConfig(lr=lr))
    if folder is not None:
        folder.mkdir()
        result = {"task": "mrpc", "split": "dev", "metric": "accuracy", "value": value, "seed": seed, "degenerate": degenerate}
        (folder / "result.json").write_text(json.dumps(result))
    return Ended(Job(config, ["task=mrpc", f"optimizer.lr={lr}", f"seed={seed}"]), folder)


def test_a_row_for_each_setting_and_what_is_best(tmp_path: Path) -> None:
    values = {1e-3: [0.70, 0.72, 0.68], 1e-4: [0.81, 0.60, 0.82]}
    ended = [
        job(tmp_path / f"{lr}-{seed}", seed, lr, value, "all alike" if value == 0.60 else None)
        for lr, of_seeds in values.items()
        for seed, value in enumerate(of_seeds, 1)
    ]
    lines = list(seed_table(settings_of(ended)))
    assert lines[0].split() == ["setting", "measured", "n", "mean", "sd", "median", "best", "failed"]
    for line, (lr, of_seeds) in zip(lines[1:], values.items(), strict=False):
        words = line.split()
        assert words[:4] == [f"optimizer.lr={lr}", "mrpc", "dev", "accuracy"]
        expected = [np.mean(of_seeds), np.std(of_seeds, ddof=1), np.median(of_seeds), max(of_seeds)]
        assert words[4] == "3"
        assert [float(word) for word in words[5:9]] == pytest.approx([100 * each for each in expected], abs=0.005)
    assert [line.split()[-1] for line in lines[1:3]] == ["0", "1"]
    means = {lr: statistics.mean(of_seeds) for lr, of_seeds in values.items()}
    assert lines[3:] == [
        f"best on mrpc dev accuracy by its mean: optimizer.lr={max(means, key=lambda lr: means[lr])}",
        "failed: optimizer.lr=0.0001, seed 2: all alike",
    ]


def test_one_setting_and_a_job_that_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_seeds([job(tmp_path / "1", 1, 1e-3, 0.5), job(None, 2, 1e-3)])
    captured = capsys.readouterr()
    assert captured.out == ""  # the run's folder is the last line there
    assert [line.removeprefix("bertlab: ").split() for line in captured.err.splitlines()[1:]] == [
        ["as", "given", "mrpc", "dev", "accuracy", "1", "50.00", "50.00", "50.00", "1"],
        ["failed:", "as", "given,", "seed", "2:", "the", "job", "failed"],
    ]
