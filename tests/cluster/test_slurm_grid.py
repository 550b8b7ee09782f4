"""``bertlab ablate --launcher slurm`` from the plan to the table, with real trainings on a real SLURM."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster

TABLE = """
title: Two objectives
rows: {one: {pretrain: [objective=mlm]}, two: {pretrain: [objective=ltr]}}
columns: {order: {task: sentence_order, metric: accuracy}}
baseline: one
random: false
"""


def write_text(folder: Path) -> None:
    folder.mkdir()
    draw = random.Random(5)
    words = ["".join(draw.choice("bdklmnrst") + draw.choice("aeiou") for _ in range(draw.randint(1, 3))) for _ in range(120)]
    for number in range(40):
        sentences = [" ".join(draw.choice(words) for _ in range(9)).capitalize() + "." for _ in range(40)]
        (folder / f"{number:02d}.txt").write_text("\n".join(sentences) + "\n")


@pytest.mark.slurm
@pytest.mark.slow
def test_from_the_plan_to_the_table(slurm: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(TABLE)
    write_text(tmp_path / "text")
    words = [
        "--grid", "mine.yaml", "--scale", "smoke", "--launcher", "slurm", "launcher.concurrency=2", "finetune.launcher.time=30",
        "trainer=cpu", "trainer.threads=1", "logger=none", "corpus=text", "corpus.path=text", "corpus.held_out=0.3",
        "corpus.sentence_splitting=line", "model.hidden=32", "model.heads=2", "lengths=constant", "tokenizer.vocab_size=200",
        "batch.sequences=8", "batch.length=24", "validation.sequences=16", f"paths.cache={tmp_path / 'cache'}",
    ]  # fmt: skip
    command = [sys.executable, "-m", "bertlab", "ablate", *words]

    def called(*more: str) -> tuple[str, str]:
        ended = subprocess.run([*command, *more], capture_output=True, text=True, cwd=tmp_path, env=slurm.environment, timeout=500)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}\n{slurm.logs()}"
        return ended.stdout, ended.stderr

    planned, _ = called("--dry-run")
    assert "Array 1: 2 pre-trainings; partition of the cluster, no GPU, the partition's time limit, at most 2 at a time." in planned
    assert "Array 2: 2 fine-tunings, each after the run that it starts from; partition of the cluster, no GPU, limit 30" in planned

    caller = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=slurm.environment)
    tables = tmp_path / "runs" / "reports"
    slurm.wait_until(lambda: any(tables.glob("*/*.md")), seconds=400)
    caller.send_signal(signal.SIGHUP)
    _, said = caller.communicate(timeout=60)
    assert caller.returncode == 128 + signal.SIGHUP
    assert "Queued jobs go on." in said
    jobs = re.findall(r"queued as job (\d+)", said)
    assert len(jobs) == 2
    noted = [json.loads(path.read_text())["job"] for path in (tmp_path / "runs" / "slurm").glob("*/job.json")]
    assert sorted(noted) == sorted(jobs)

    shown, said = called()
    assert "queued as job" not in said
    assert "Two objectives" in shown
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == 4
    shown, said = called("--dry-run")
    assert "4 done, 0 to do" in shown
    assert "Array" not in shown
