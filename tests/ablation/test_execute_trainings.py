"""A grid of real trainings, forked from a template and killed in every way, gives the bytes of trainings started one by one."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from fake_grids import plan_of, processes_of, start_grid, wait_until

from bertlab.ablation.execute import Options, execute
from bertlab.ablation.graph import FINETUNING, PRETRAINING, Node, Plan
from bertlab.ablation.live_view import LogView
from bertlab.ablation.local_executor import LocalExecutor
from bertlab.ablation.template import MODULES
from bertlab.arguments import parse_arguments
from bertlab.composition import compose
from bertlab.schemas import FINETUNE, PRETRAIN

STEPS = 200


def some_text(folder: Path) -> Path:
    draw = random.Random(5)
    words = ["".join(draw.choice("bdklmnrst") + draw.choice("aeiou") for _ in range(draw.randint(1, 3))) for _ in range(120)]
    folder.mkdir()
    for number in range(40):
        sentences = [" ".join(draw.choice(words) for _ in range(9)).capitalize() + "." for _ in range(40)]
        (folder / f"{number:02d}.txt").write_text("\n".join(sentences) + "\n")
    return folder


def real_plan(corpus: Path) -> Plan:
    """Two pretrainings of some seconds, each with a fine-tuning of its final weights, and one of those in the middle."""
    text = ("held_out=0.3", f"path={corpus}", "sentence_splitting=line")
    pretrain = ("model=tiny", "model.hidden=32", "model.heads=2", "lengths=constant", "corpus=text", *(f"corpus.{word}" for word in text))
    pretrain += ("tokenizer.vocab_size=200", "batch.sequences=8", "batch.length=24", f"budget.steps={STEPS}", "trainer.log_every=5")
    pretrain += ("checkpointing.keep_every=100", "checkpointing.every=10", "validation.sequences=16")
    finetune = ("task=sentence_order", "recipe=smoke", "task.max_length=32", "task.probe.corpus.kind=text")
    finetune += (*(f"task.probe.corpus.{word}" for word in text), "tuning.train_examples=40", "tuning.eval_examples=40")
    nodes = [Node(kind, PRETRAINING, (f"objective={kind}", *pretrain), 1, flops=1e9) for kind in ("mlm", "ltr")]
    nodes += [Node(f"{kind}-last", FINETUNING, finetune, 1, kind, flops=1e8) for kind in ("mlm", "ltr")]
    nodes += [Node("mlm-middle", FINETUNING, (*finetune, "seed=2"), 2, "mlm", step=100, flops=1e8)]
    return plan_of(*nodes)


def numbers(runs: Path) -> dict[str, tuple[bytes, bytes]]:
    return {
        path.parent.name: (path.read_bytes(), (path.parent / "metrics.jsonl").read_bytes()) for path in runs.glob("*/model.safetensors")
    }


def steps_of(runs: Path) -> list[int]:
    """How many rows each pretraining has."""
    return sorted(path.read_bytes().count(b"\n") for path in runs.glob("pretrain-*/throughput.jsonl"))


def test_the_words_are_understood(tmp_path: Path) -> None:
    for node in real_plan(some_text(tmp_path / "corpus")).nodes.values():
        words = [*node.overrides, *(["checkpoint=some"] if node.kind == FINETUNING else [])]
        schema = PRETRAIN if node.kind == PRETRAINING else FINETUNE
        assert len(compose(schema, parse_arguments(words), None, lambda job: None)) == 1


def test_a_template_imports_what_there_is() -> None:
    import importlib.util

    assert [name for name in MODULES if importlib.util.find_spec(name) is None] == []


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.skipif(not os.path.exists("/proc"), reason="finds processes in /proc")
def test_killed_in_every_way(tmp_path: Path) -> None:
    plan, cache = real_plan(some_text(tmp_path / "corpus")), tmp_path / "cache"
    one_by_one, runs, log = tmp_path / "one_by_one", tmp_path / "runs", tmp_path / "log"
    outcome = execute(plan, one_by_one, LocalExecutor(2, threads=1), Options(overrides=("logger=none",), cache=str(cache)), LogView())
    assert outcome.done, [run.reason for run in outcome.runs]
    for number, (killed, code) in enumerate([("stopped", 143), ("grid", -signal.SIGKILL), ("template", 1), ("run", 1)]):
        grid = start_grid(plan, runs, log, cache=cache)
        wait_until(lambda enough=4 * (number + 1): len(steps_of(runs)) == 2 and steps_of(runs)[0] >= enough, 180.0)
        if killed == "stopped":
            grid.send_signal(signal.SIGTERM)
        elif killed == "grid":
            grid.kill()
        else:
            (template,) = children(grid.pid)
            looks_after = children(template)[0]
            os.kill(template if killed == "template" else children(looks_after)[0], signal.SIGKILL)
        assert grid.wait() == code, log.read_text()
        wait_until(lambda: not processes_of(runs), 60.0)
    assert "its memory runs out" in log.read_text()  # what is said of a run that was killed; the other one went on to its end
    grid = start_grid(plan, runs, log, cache=cache)
    assert grid.wait() == 0, log.read_text()
    assert not processes_of(runs)
    assert numbers(runs) == numbers(one_by_one)
    assert len(numbers(runs)) == 5


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
