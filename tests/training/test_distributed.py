"""One run on several processes: the same numbers as on one, to rounding, however they share the work."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import free_port, start, start_ranks, train
from safetensors.torch import load_file
from small_runs import MakeConfig

from bertlab.config import PretrainConfig

# float32 rounds by 6e-8, and steps carry that on. Over 8 of them losses and norms differ by less than LOSSES, relatively, and weights by
# less than WEIGHTS, where they begin with a deviation of 0.02 and a step moves them by up to 1e-3: a sequence that is left out, or counts
# twice, is far beyond.
LOSSES, WEIGHTS = 2e-5, 2e-6

STEPS = {"budget.steps": 8, "trainer.log_every": 1, "optimizer.clip": 0.05}
NO_DROPOUT = {"model.dropout": 0.0, "model.attention_dropout": 0.0}

Run = Callable[..., PretrainConfig]


def only_run(config: PretrainConfig) -> Path:
    (folder,) = Path(config.paths.runs).iterdir()
    return folder


def rows_of(config: PretrainConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (only_run(config) / "metrics.jsonl").read_text().splitlines()]


def weights_of(config: PretrainConfig) -> dict[str, torch.Tensor]:
    return load_file(only_run(config) / "model.safetensors")


def logs(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("rank*")))


def train_to_the_end(config: PretrainConfig, folder: Path) -> None:
    """With as many processes as it asks for."""
    folder.mkdir(exist_ok=True)
    if config.trainer.world == 1:
        assert train(config, folder / "log") == 0, (folder / "log").read_text()
        return
    ranks = start_ranks(config, folder, world=config.trainer.world, port=free_port())
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * len(ranks), logs(folder)


def furthest(ours: PretrainConfig, theirs: PretrainConfig) -> float:
    """How far a final weight is from the other run's."""
    our, their = weights_of(ours), weights_of(theirs)
    assert our.keys() == their.keys()
    return max(float((our[name].double() - their[name].double()).abs().max()) for name in our)


def assert_same(ours: PretrainConfig, theirs: PretrainConfig) -> None:
    assert only_run(ours).name == only_run(theirs).name
    for our, their in zip(rows_of(ours), rows_of(theirs), strict=True):
        assert our.keys() == their.keys()
        for key, value in our.items():
            same = value == their[key] if isinstance(value, str) else math.isclose(value, their[key], rel_tol=LOSSES)
            assert same, (our["step"], key, value, their[key])
    assert len(rows_of(ours)) > 8
    assert furthest(ours, theirs) < WEIGHTS


@pytest.fixture
def run(make_config: MakeConfig, tmp_path: Path) -> Run:
    """Trains what is asked for: ``run(2, "fsdp", **{"batch.micro": 3})``. Each of them has runs of its own."""
    count = 0

    def of(world: int, strategy: str = "auto", **changes: object) -> PretrainConfig:
        nonlocal count
        count += 1
        folder = tmp_path / f"{count}"
        places = {"trainer.devices": world, "trainer.strategy": strategy, "paths.runs": str(folder / "runs")}
        config = make_config(**{**STEPS, **changes, **places})
        train_to_the_end(config, folder)
        return config

    return of


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_any_number_of_processes_gives_the_numbers_of_one(norm: str, run: Run) -> None:
    """Ten sequences a batch, which four processes cannot share evenly; two of them accumulate."""
    changes = {**NO_DROPOUT, "batch.sequences": 10, "norm.kind": norm}
    accumulated = {"batch.micro": 3} if norm == "layer" else {}  # under batch normalisation each micro-batch has its own statistics
    one = run(1, **changes)
    for world, strategy, more in ((2, "ddp", accumulated), (2, "fsdp", {}), (4, "ddp", {}), (4, "fsdp", {})):
        assert_same(run(world, strategy, **changes, **more), one)


@pytest.mark.slow
def test_accumulation_stands_in_for_missing_devices_with_dropout_too(run: Run) -> None:
    """Noise is drawn by the place in the global batch, so that what matters is how it is cut, not by whom."""
    four = run(4, "ddp", **{"batch.sequences": 10})
    one = run(1, **{"batch.sequences": 10, "batch.micro": 3})  # in four pieces, too
    for world, strategy in ((1, "auto"), (2, "ddp"), (2, "fsdp")):
        assert_same(run(world, strategy, **{"batch.sequences": 10, "batch.micro": 3}), four)
    assert furthest(run(1, **{"batch.sequences": 10}), one) > 10 * WEIGHTS  # in one piece the noise is another one


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"backbone.kind": "bilstm", "objective.kind": "ltr"},
        # In two segments: the embedding of a single one is a constant, which batch norm takes away, so that its gradient is rounding alone.
        {"backbone.kind": "bilstm", "objective.kind": "ltr", "objective.segments": "pair", "norm.kind": "batch"},
        {"backbone.kind": "bilstm", "norm.placement": "pre", "model.layers": 2},
        {"backbone.kind": "cbow"},
        {"masking.mask": 0.4, "masking.noise": 0.4, "batch.micro": 4},
    ],
    ids=["pair of LSTMs", "pair of LSTMs, batch norm", "BiLSTM", "bag of words", "noise"],
)
def test_other_models_are_parted_as_well(changes: dict[str, object], run: Run) -> None:
    assert_same(run(2, "fsdp", **NO_DROPOUT, **changes), run(1, **NO_DROPOUT, **changes))


@pytest.mark.slow
def test_in_half_precision_parts_give_what_whole_weights_give(run: Run) -> None:
    """The same sums of the same products: that weights are gathered, and their copies in bf16 made anew each time, changes nothing."""
    changes = {"trainer.precision": "bf16", "batch.micro": 2, "trainer.checkpoint_activations": True}
    assert_same(run(2, "fsdp", **changes), run(2, "ddp", **changes))


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "norm"), [("ddp", "layer"), ("fsdp", "layer"), ("ddp", "batch")])
def test_layers_that_are_computed_twice_give_the_same_numbers_with_dropout(strategy: str, norm: str, run: Run) -> None:
    changes = {"model.layers": 2, "norm.kind": norm}
    kept, again = run(2, strategy, **changes), run(2, strategy, **changes, **{"trainer.checkpoint_activations": True})
    assert rows_of(kept) == rows_of(again)
    assert furthest(kept, again) == 0


@pytest.mark.kill
@pytest.mark.slow
def test_a_parted_state_is_gone_on_from_with_other_numbers_of_processes(make_config: MakeConfig, tmp_path: Path, run: Run) -> None:
    """Killed with two processes, killed with three (whose shares are uneven) after the newest state was damaged, finished by one."""
    # Logged every eighth step: saved states hold sums that were begun by another number of processes.
    changes = {**NO_DROPOUT, "budget.steps": 64, "trainer.log_every": 8, "checkpointing.every": 5, "checkpointing.keep_at": [10]}
    expected = run(1, **changes)
    config = make_config(**{**STEPS, **changes, "trainer.strategy": "fsdp"})
    for world in (2, 3):
        config.trainer.devices = world
        before = set(Path(config.paths.runs).glob("*/checkpoints/last-*.ckpt"))
        folder = tmp_path / f"world{world}"
        folder.mkdir()
        ranks = start_ranks(config, folder, world=world, port=free_port())
        while len(set(Path(config.paths.runs).glob("*/checkpoints/last-*.ckpt")) - before) < 2:
            time.sleep(0.001)
            assert all(rank.exitcode is None for rank in ranks), logs(folder)
        for rank in ranks:
            rank.kill()  # unless it has noticed the other's death before
            rank.join()
        if world == 2:
            newest = max((only_run(config) / "checkpoints").glob("part-*-of-*"))
            content = bytearray(newest.read_bytes())
            content[-1] ^= 1
            newest.write_bytes(content)
    assert logs(tmp_path / "world3").count("damaged; the one before it is used") == 1
    assert "resumed after step" in logs(tmp_path / "world3")
    config.trainer.devices, config.trainer.strategy = 1, "auto"
    train_to_the_end(config, tmp_path)
    assert "resumed after step" in (tmp_path / "log").read_text()
    for our, their in zip(rows_of(config), rows_of(expected), strict=True):
        assert our["step"] == their["step"]
        assert math.isclose(our["loss"], their["loss"], rel_tol=1e-4)
        assert math.isclose(our.get("gradient_norm", 0.0), their.get("gradient_norm", 0.0), rel_tol=1e-3)
    assert furthest(config, expected) < 1e-4
    checkpoints = only_run(config) / "checkpoints"
    assert not list(checkpoints.glob("part-*"))
    kept = load_file(checkpoints / "step-000000010.safetensors")
    assert kept.keys() == weights_of(config).keys()
    assert all(kept[name].shape == tensor.shape for name, tensor in weights_of(config).items())


@pytest.mark.kill
@pytest.mark.slow
def test_a_state_of_whole_weights_is_gone_on_from_in_parts(make_config: MakeConfig, tmp_path: Path, run: Run) -> None:
    changes = {**NO_DROPOUT, "budget.steps": 64, "checkpointing.every": 10}
    expected = run(1, **changes)
    config = make_config(**{**STEPS, **changes})
    process = start(config, tmp_path / "log")
    while not list(Path(config.paths.runs).glob("*/checkpoints/last-*.ckpt")):
        time.sleep(0.001)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    config.trainer.devices, config.trainer.strategy = 2, "fsdp"
    train_to_the_end(config, tmp_path / "two")
    assert "resumed after step" in logs(tmp_path / "two")
    assert furthest(config, expected) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_only_the_first_process_writes(strategy: str, make_config: MakeConfig, tmp_path: Path) -> None:
    """Of the run's folder and of everything else; of parted weights each process writes its own rows."""
    changes = {"trainer.devices": 2, "trainer.strategy": strategy, "checkpointing.every": 2, "checkpointing.keep_every": 4}
    config = make_config(**STEPS, **changes)
    assert train(make_config(**STEPS, **{"paths.runs": str(tmp_path / "first")}), tmp_path / "log") == 0  # the corpus is prepared
    ranks = start_ranks(config, tmp_path, world=2, port=free_port(), audited=True)
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0], logs(tmp_path)
    changed = (tmp_path / "changed1").read_text().splitlines() if (tmp_path / "changed1").exists() else []
    parts = [line for line in changed if "/part-" in line or "/.part-" in line]
    assert [line for line in changed if line not in parts and not line.startswith("mkdir")] == []
    assert bool(parts) == (strategy == "fsdp")
    assert "metrics.jsonl" in (tmp_path / "changed0").read_text()
