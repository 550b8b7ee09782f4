"""Whole runs in this process: what they leave in their folder, and how they end."""

from __future__ import annotations

import errno
import json
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from changing import Killed, stop_at, weights_held_after_a_stop
from omegaconf import OmegaConf
from pytorch_lightning.utilities.exceptions import SIGTERMException
from safetensors.torch import load_file
from small_runs import MakeConfig

from bertlab.config import PretrainConfig, StageConfig
from bertlab.data.assembly import PretrainingData
from bertlab.data.batches import Batch
from bertlab.data.prepare import prepare
from bertlab.data.schedule import plan_training
from bertlab.errors import Interrupted, RunFailed, UserError
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.models.dropout import seed_dropout
from bertlab.objectives import objective_of
from bertlab.run_files import weight_files
from bertlab.run_files.folder import RunFolder, find_checkpoint, find_run
from bertlab.training import wandb_mirror
from bertlab.training.bookkeeping import Bookkeeping
from bertlab.training.evaluate import evaluate, load_model
from bertlab.training.health import MARGIN, PATIENCE, STRETCH
from bertlab.training.loader import StageLoader
from bertlab.training.metrics import Row, read_rows
from bertlab.training.pretrain import _build_model, prepare_ingredients, pretrain


def held_out_batches(config: PretrainConfig, length: int) -> list[Batch]:
    store, objective = prepare(config.corpus, config.tokenizer, config.paths, progress=False), objective_of(config)
    data = PretrainingData(store, config, plan_training(config), predict=objective.predict, pair=objective.pair)
    return data.validation_batches(length)


def perplexity_by_hand(model: Bert, batches: list[Batch]) -> tuple[float, float]:
    """From the full vocabulary's log-probabilities of each predicted position: (perplexity, accuracy)."""
    losses, right = [], []
    with torch.no_grad():
        for batch in batches:
            logits = model.language_logits(model(batch)[batch.predicted]).double()
            losses += (-logits.log_softmax(-1)[torch.arange(len(batch.targets)), batch.targets]).tolist()
            right += (logits.argmax(-1) == batch.targets).tolist()
    return math.exp(np.mean(losses)), float(np.mean(right))


@pytest.mark.parametrize("objective", ["mlm_nsp", "ltr"])
def test_a_run_s_folder(objective: str, make_config: MakeConfig, capsys: pytest.CaptureFixture[str]) -> None:
    config = make_config(**{"objective.kind": objective, "model.dropout": 0.3, "batch.micro": 5})
    folder = RunFolder(pretrain(config))
    result = json.loads(folder.result.read_text())
    rows = read_rows(folder.metrics)
    training = [row for row in rows if row["split"] == "train"]
    assert [row["step"] for row in training] == [4, 8, 12, 16, 20, 24, 28, 30]
    assert [row["positions"] for row in training] == [8 * 24 * row["step"] for row in training]
    # The update of row s is the (s - 1)th counted from 0: 3 of 30 steps are warm-up.
    assert [row["lr"] for row in training] == pytest.approx([1e-3 * (1 - (row["step"] - 1) / 30) for row in training])
    assert result["steps"] == 30
    assert result["cut"] == {"devices": 1, "sequences": [5]}
    assert result["positions"] == 30 * 8 * 24
    expected, accuracy = perplexity_by_hand(load_model(folder), held_out_batches(config, 24))
    last = rows[-1]
    assert (last["split"], last["step"], last["length"]) == ("held_out", 30, 24)
    assert last["perplexity"] == pytest.approx(expected, rel=1e-5)
    assert last["accuracy"] == pytest.approx(accuracy)
    assert result["held_out"]["24"]["perplexity"] == last["perplexity"]
    assert ("nsp_accuracy" in last) == (objective == "mlm_nsp")
    assert {"seconds", "tokens_per_second", "data_wait", "mfu", "memory_bytes"} <= read_rows(folder.throughput)[-1].keys()
    assert not any("second" in key or "memory" in key for row in rows for key in row)
    assert evaluate(folder.path, config)[24]["perplexity"] == pytest.approx(expected, rel=1e-5)
    assert f"{expected:,.1f}" in capsys.readouterr().out
    assert folder.read_config().budget.steps == 30


def test_two_runs_of_one_configuration_are_identical_and_seeds_differ(make_config: MakeConfig, tmp_path: Path) -> None:
    def numbers(**changes: object) -> tuple[bytes, list[Row]]:
        folder = RunFolder(pretrain(make_config(**changes)))
        return folder.weights.read_bytes(), read_rows(folder.metrics)

    first = numbers()
    # How often a run logs, evaluates and saves, and whether its numbers are random in between, changes nothing.
    again = numbers(**{"paths.runs": str(tmp_path / "again"), "validation.every": 5, "checkpointing.every": None, "trainer.log_every": 1})
    assert again[0] == first[0]
    assert again[1][-1] == first[1][-1]
    each, means = ([row for row in rows if row["split"] == "train"] for _, rows in (again, first))
    for before, row in zip([0, *(row["step"] for row in means)], means, strict=False):
        assert row["gradient_norm"] == pytest.approx(np.mean([other["gradient_norm"] for other in each[before : row["step"]]]))
    assert numbers(**{"paths.runs": str(tmp_path / "workers"), "trainer.workers": 2}) == first
    assert numbers(**{"paths.runs": str(tmp_path / "other"), "seed": 2})[0] != first[0]


def trained_by_hand(config: PretrainConfig) -> tuple[dict[str, torch.Tensor], list[tuple[float, float]]]:
    """Weights, and of every step its loss and gradient norm, from a plain loop with PyTorch's own Adam and clipping."""
    store, objective = prepare(config.corpus, config.tokenizer, config.paths, progress=False), objective_of(config)
    data = PretrainingData(store, config, plan_training(config), predict=objective.predict, pair=objective.pair)
    torch.manual_seed(config.seed)
    model = Bert(Architecture.of(config, store.vocabulary.size)).train()
    free = [parameter for name, parameter in model.named_parameters() if "bias" in name or "norm" in name]
    decayed = [parameter for name, parameter in model.named_parameters() if not ("bias" in name or "norm" in name)]
    groups = [{"params": decayed, "weight_decay": config.optimizer.weight_decay}, {"params": free, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, eps=config.optimizer.epsilon, fused=False)
    found = []
    for step, rate in enumerate([0.0, 1 / 2, 4 / 6, 3 / 6, 2 / 6, 1 / 6]):  # of 6 steps 2 are warm-up
        for group in adam.param_groups:
            group["lr"] = rate * config.optimizer.lr
        adam.zero_grad()
        loss = 0.0
        for micro in data[step].micro_batches:
            seed_dropout(config.seed, step, micro.place)
            share = objective.loss(model, micro).loss
            share.backward()
            loss += float(share.detach())
        assert config.optimizer.clip is not None
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.clip)
        adam.step()
        found.append((loss, float(norm)))
    return model.state_dict(), found


def test_a_run_is_a_plain_loop_over_its_steps(make_config: MakeConfig) -> None:
    """Micro-batches with noise of their own, clipped, at the scheduled rate, with an evaluation after every step."""
    batch = {"batch.micro": 3, "budget.steps": 6, "validation.every": 1, "trainer.log_every": 1, "seed": 5}
    optimizer = {"kind": "adamw", "clip": 0.3, "warmup": 1 / 3, "weight_decay": 0.5, "epsilon": 1e-3}  # so that the gradient's size counts
    config = make_config(**batch, **{f"optimizer.{name}": value for name, value in optimizer.items()})
    weights, expected = trained_by_hand(config)
    folder = RunFolder(pretrain(config))
    rows = [row for row in read_rows(folder.metrics) if row["split"] == "train"]
    for row, (loss, norm) in zip(rows, expected, strict=True):
        assert (row["loss"], row["gradient_norm"]) == (pytest.approx(loss, rel=1e-5), pytest.approx(norm, rel=1e-5))
        assert norm > 0.4
    for name, value in load_file(folder.weights).items():
        torch.testing.assert_close(value, weights[name], atol=1e-6, rtol=1e-5)


def test_kept_weights_are_those_of_their_step(make_config: MakeConfig, tmp_path: Path) -> None:
    folder = RunFolder(pretrain(make_config(**{"checkpointing.keep_every": 10})))
    kept = sorted(path.name for path in folder.checkpoints.glob("step-*"))
    assert kept == ["step-000000010.safetensors", "step-000000020.safetensors", "step-000000030.safetensors"]
    final, last = load_file(folder.weights), load_file(folder.checkpoints / kept[-1])
    assert all(torch.equal(final[name], last[name]) for name in final)
    assert any(not torch.equal(final[name], load_file(folder.checkpoints / kept[0])[name]) for name in final)


def test_numbers_that_are_none_stop_the_run(make_config: MakeConfig) -> None:
    changes = {"optimizer.lr": 1e30, "optimizer.clip": None, "optimizer.warmup": 0.0, "checkpointing.every": 1}
    config = make_config(**changes)
    with pytest.raises(RunFailed, match=r"at step \d+: the (gradient norm|loss)"):
        pretrain(config)
    (path,) = Path(config.paths.runs).iterdir()
    folder = RunFolder(path)
    assert not folder.done
    for saved in folder.checkpoints.glob("last-*.ckpt"):
        state = torch.load(saved, weights_only=True)
        assert all(tensor.isfinite().all() for tensor in state["weights"].values())
    with pytest.raises(RunFailed, match="failed before"):
        pretrain(config)


def test_a_diverging_loss_stops_the_run_however_often_it_logs(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whether it has been resumed in the meantime."""
    reasons = set()
    for log_every in (1, 20, 300):
        runs = tmp_path / f"{log_every}"
        changes = {"optimizer.lr": 30.0, "optimizer.warmup": 0.0, "budget.steps": 300, "validation.every": 300, "checkpointing.every": 60}
        config = make_config(**changes, **{"trainer.log_every": log_every, "paths.runs": str(runs)})
        with monkeypatch.context() as patch:
            stop_at(130, Killed(), patch)  # between two of the updates after which the loss is judged, and between two rows
            with pytest.raises(Killed):
                pretrain(config)
        with pytest.raises(RunFailed, match="diverged"):
            pretrain(config)
        (folder,) = map(RunFolder, runs.iterdir())
        reasons.add(folder.failure_reason())
    assert len(reasons) == 1
    assert "at step 150," in reasons.pop()


def test_a_loss_that_begins_high_and_falls_goes_on(make_config: MakeConfig) -> None:
    """Large initial weights begin far above what guessing evenly gives; at this rate the loss is there for longer than any would stay."""
    changes = {"model.initializer_range": 0.5, "model.hidden": 64, "objective.kind": "mlm", "optimizer.lr": 5e-5, "budget.steps": 200}
    folder = RunFolder(pretrain(make_config(**changes, **{"trainer.log_every": 10, "validation.every": 200, "checkpointing.every": 100})))
    losses = [row["language_loss"] for row in read_rows(folder.metrics) if row["split"] == "train"]
    assert min(losses[: PATIENCE * STRETCH // 10]) > math.log(200) + MARGIN
    assert losses[-1] < losses[0] - 1


def test_a_budget_of_time_and_its_stages(make_config: MakeConfig) -> None:
    changes = {"budget.steps": None, "budget.minutes": 2.0 / 60, "trainer.log_every": 1}
    config = make_config(**changes, **{"lengths.stages": [StageConfig(0.5, 16), StageConfig(0.5, 32)]})
    folder = RunFolder(pretrain(config))
    training = [row for row in read_rows(folder.metrics) if row["split"] == "train"]
    seconds = [row["seconds"] for row in read_rows(folder.throughput)]
    assert 2.0 <= seconds[-1] < 10.0
    assert [row["length"] for row in training] == sorted(row["length"] for row in training)
    assert {row["length"] for row in training} == {16, 32}
    # The rate follows the time: an update's rate is that of the time before it.
    for before, row in zip(seconds, training[1:], strict=False):
        share = before / 2.0
        assert row["lr"] == pytest.approx(1e-3 * (share / 0.1 if share < 0.1 else max(0.0, 1 - share)), abs=1e-9)
    positions = [0] + [row["positions"] for row in training]
    assert all(later - earlier == 8 * row["length"] for earlier, later, row in zip(positions, positions[1:], training, strict=False))


def test_bf16_follows_fp32(make_config: MakeConfig, tmp_path: Path) -> None:
    full = RunFolder(pretrain(make_config(**{"model.dropout": 0.0})))
    half = RunFolder(pretrain(make_config(**{"model.dropout": 0.0, "trainer.precision": "bf16", "paths.runs": str(tmp_path / "half")})))
    for ours, theirs in zip(read_rows(half.metrics), read_rows(full.metrics), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=0.01)
        assert ours["loss"] != theirs["loss"]
    assert {tensor.dtype for tensor in load_file(half.weights).values() if tensor.is_floating_point()} == {torch.float32}


CHOICES: dict[str, dict[str, object]] = {
    "batch norm in bf16": {"norm.kind": "batch", "trainer.precision": "bf16"},
    "a pair of language models": {"objective.kind": "ltr", "backbone.kind": "bilstm"},
    "noise": {"objective.kind": "mlm", "backbone.kind": "cbow", "masking.mask": 0.0, "masking.noise": 0.8},
    "pre-norm, corrected Adam": {"objective.kind": "rtl", "optimizer.kind": "adamw", "norm.placement": "pre"},
    "micro-batches, stages, workers": {
        "batch.micro": 3,
        "lengths.stages": [StageConfig(0.5, 16), StageConfig(0.5, 24)],
        "trainer.workers": 2,
    },
}


@pytest.mark.parametrize("changes", CHOICES.values(), ids=CHOICES)
def test_other_choices_resume_to_the_same_bytes(
    changes: dict[str, object], make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {**changes, "budget.steps": 9, "trainer.log_every": 4, "checkpointing.every": 6, "validation.every": 4}
    whole = RunFolder(pretrain(make_config(**changes, **{"paths.runs": str(tmp_path / "whole")})))
    config = make_config(**changes)
    with monkeypatch.context() as patch:
        stop_at(7, Killed(), patch)  # the last state is that of step 6, within what the row of step 8 is of
        with pytest.raises(Killed):
            pretrain(config)
    resumed = RunFolder(pretrain(config))
    assert resumed.metrics.read_bytes() == whole.metrics.read_bytes()
    assert resumed.weights.read_bytes() == whole.weights.read_bytes()
    assert read_rows(resumed.metrics)[-1]["perplexity"] > 1


def test_weights_that_are_gone_on_from_are_in_memory_once(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    first = RunFolder(pretrain(make_config(**{"budget.steps": 1})))
    config = make_config(**{"init": str(first.path), "tokenizer.path": str(first.tokenizer), "trainer.log_every": 1})
    ingredients = prepare_ingredients(config)
    _build_model(ingredients, "cpu")
    assert ingredients.pretrained is not None
    assert all(parameter.is_meta for parameter in ingredients.pretrained.bert.parameters())
    held = weights_held_after_a_stop(3, lambda: pretrain(config), monkeypatch)
    assert held == [0] * 27


class Mirror:
    """Stands for W&B's; it remembers how its run ended."""

    def __init__(self) -> None:
        self.ended: list[int] = []

    def log(self, row: Row) -> None:
        pass

    def finish(self, exit_code: int, summary: Row | None = None) -> None:
        self.ended.append(exit_code)


@pytest.fixture
def mirrors(monkeypatch: pytest.MonkeyPatch) -> list[Mirror]:
    """The mirrors that runs begin."""
    begun: list[Mirror] = []

    def make(*_: object) -> Mirror:
        begun.append(Mirror())
        return begun[-1]

    monkeypatch.setattr(wandb_mirror, "make_mirror", make)
    return begun


def test_a_run_that_was_stopped_before_its_result_is_finished_everywhere(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, mirrors: list[Mirror]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    config = make_config(**{"budget.steps": 2})
    with monkeypatch.context() as patch:
        patch.setattr(weight_files, "write_weights", full)
        with pytest.raises(OSError, match="No space"):
            pretrain(config)
    (folder,) = map(RunFolder, Path(config.paths.runs).iterdir())
    assert not folder.done
    leftover = [folder.path / ".model.safetensors.1.part", folder.checkpoints / ".last.part"]
    for path in leftover:
        path.write_bytes(b"half")
    pretrain(config)
    assert folder.done
    assert [mirror.ended for mirror in mirrors] == [[1], [0]]
    assert not any(path.exists() for path in leftover)


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (SIGTERMException(), 143)])
def test_a_signal_before_the_first_step(
    error: BaseException, code: int, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise error

    monkeypatch.setattr(Bookkeeping, "on_fit_start", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted) as stop:
        pretrain(make_config())
    assert stop.value.code == code
    assert signal.getsignal(signal.SIGINT) is before is not signal.SIG_IGN  # whoever has called us can still be interrupted
    assert "the same command resumes" in capsys.readouterr().err


def test_an_end_before_the_budget_s_is_no_end(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, mirrors: list[Mirror]) -> None:
    monkeypatch.setattr(StageLoader, "keys", lambda self: iter(()))
    with pytest.raises(RuntimeError, match="before its budget"):
        pretrain(make_config())
    assert [mirror.ended for mirror in mirrors] == [[1]]


def test_a_run_that_another_process_has_just_finished(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = RunFolder.locked

    @contextmanager
    def overtaken(self: RunFolder) -> Iterator[None]:
        with locked(self):
            self.result.write_text("{}")
            yield

    monkeypatch.setattr(RunFolder, "locked", overtaken)
    folder = RunFolder(pretrain(make_config()))
    assert "finished" in capsys.readouterr().err
    assert not folder.metrics.exists()


@pytest.mark.parametrize(
    ("documents", "objective", "said"),
    [
        (3, "mlm_nsp", r"has 3 documents, but objective=mlm_nsp needs at least 4, .*, or choose objective=mlm\."),
        (1, "mlm", r"has 1 document, but objective=mlm needs at least 2, one to train on"),
        (1, "ltr", r"has 1 document, but objective=ltr needs at least 2"),
    ],
)
def test_too_few_documents_are_told_before_a_vocabulary_is_trained(
    documents: int, objective: str, said: str, make_config: MakeConfig, tmp_path: Path
) -> None:
    (tmp_path / "few").mkdir()
    for number in range(documents):
        (tmp_path / "few" / f"{number}.txt").write_text("It is a long text. It has sentences.\n" * (number + 2))
    cache = tmp_path / "own cache"
    changes = {"corpus.path": str(tmp_path / "few"), "objective.kind": objective, "paths.cache": str(cache), "budget.steps": 2}
    with pytest.raises(UserError, match=said):
        pretrain(make_config(**changes))
    assert not list(cache.rglob("*.json"))
    (tmp_path / "few" / "more.txt").write_text("It is another text. It has sentences.\n" * 9)
    pretrain(make_config(**changes))


def test_missing_gpus_are_told_before_anything_is_prepared(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = make_config(**{"trainer.accelerator": "gpu", "corpus.path": "/nowhere"})
    with pytest.raises(UserError, match=r"trainer\.accelerator=cpu"):
        pretrain(config)


def test_evaluating_kept_weights_and_a_gpu_s_run(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = make_config(**{"budget.steps": 4, "checkpointing.keep_every": 2, "validation.every": 2})
    folder = RunFolder(pretrain(config))
    rows = {row["step"]: row for row in read_rows(folder.metrics) if row["split"] == "held_out"}
    found, weights = find_checkpoint(str(folder.checkpoints / "step-000000002.safetensors"), Path(config.paths.runs))
    assert found.path == folder.path
    config.trainer.accelerator, config.trainer.devices = "gpu", 4
    assert evaluate(folder.path, config, weights)[24]["perplexity"] == pytest.approx(rows[2]["perplexity"])
    assert "evaluating on the CPU" in capsys.readouterr().err
    assert rows[4]["perplexity"] != pytest.approx(rows[2]["perplexity"])
    with pytest.raises(UserError, match="no file of weights"):
        find_checkpoint(str(folder.checkpoints / "step-000000003.safetensors"), Path(config.paths.runs))


@pytest.mark.parametrize("backbone", ["transformer", "bilstm"])
def test_only_blocks_are_compiled(backbone: str, make_config: MakeConfig, capsys: pytest.CaptureFixture[str]) -> None:
    config = make_config(**{"trainer.compile": True, "backbone.kind": backbone})
    model = _build_model(prepare_ingredients(config), "gpu")
    compiled = [name for name, module in model.named_modules() if module._compiled_call_impl is not None]
    assert compiled == (["backbone.layers.0"] if backbone == "transformer" else [])
    assert ("left out" in capsys.readouterr().err) == (backbone == "bilstm")


def test_finding_runs(make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    path = runs / "pretrain-tiny-mlm-0123abcd"
    path.mkdir(parents=True)
    RunFolder(path).write_config(make_config())
    for name in (str(path), path.name, "0123abcd"):
        assert find_run(name, runs).path == path
    exported = path / "exported"
    exported.mkdir()
    for file in (path / "model.safetensors", exported / "model.safetensors", exported / "architecture.json"):
        file.touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_run(f"~/runs/{path.name}", runs).path == path
    weights = f"~/runs/{path.name}/model.safetensors"
    assert find_checkpoint(weights, runs) == (RunFolder(path), path / "model.safetensors")
    with pytest.raises(UserError, match="no file of weights in a run's folder"):  # it is of the folder that it lies in
        find_checkpoint(str(exported / "model.safetensors"), runs)
    with pytest.raises(UserError, match="0123abcd"):
        find_run("nothing", runs)


def test_a_configuration_survives_its_file(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(**{"lengths.stages": [StageConfig(0.9, 8), StageConfig(0.1, 16, 4)], "logger.tags": ["a"], "optimizer.clip": None})
    config.corpus.sources = {"one": make_config().corpus, "two": make_config(**{"corpus.weight": 0.5}).corpus}
    folder = RunFolder(tmp_path)
    folder.write_config(config)
    assert folder.read_config() == config


@pytest.mark.parametrize("text", ["0123e456", "1_0e3", "1.5e3", "1e400", "12:00:00", "true", "null", "007", ".nan", "- a", "# b"])
def test_text_that_looks_like_something_else_survives_the_file(text: str, make_config: MakeConfig, tmp_path: Path) -> None:
    """Hydra reads YAML by rules of its own, by which more is a number."""
    config = make_config(**{"init": text, "logger.tags": [text], "logger.group": text})
    RunFolder(tmp_path).write_config(config)
    read = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(PretrainConfig), OmegaConf.load(RunFolder(tmp_path).config)))
    assert read == RunFolder(tmp_path).read_config() == config
    assert OmegaConf.load(RunFolder(tmp_path).config)["logger"]["tags"] == [text]
