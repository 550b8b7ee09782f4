"""Fine-tuning end to end on toy tasks that a tiny model learns in seconds."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from changing import Killed, stop_at, weights_held_after_a_stop
from finetune_toys import KINDS, make_finetuning, write_checkpoint, write_task
from safetensors.torch import load_file

from bertlab.arguments import parse_arguments
from bertlab.composition import compose
from bertlab.errors import Interrupted, RunFailed, UserError
from bertlab.finetune_config import FinetuneConfig
from bertlab.interop.finetuned import load_finetuned
from bertlab.models.dropout import seed_dropout
from bertlab.run_files.folder import RunFolder
from bertlab.schemas import FINETUNE
from bertlab.task_config import TaskConfig
from bertlab.tasks.answers import Candidate, Found
from bertlab.tasks.batching import collate
from bertlab.tasks.examples import Answer, SpanExample
from bertlab.tasks.predictions import evaluated_fingerprint, read_predictions
from bertlab.training import finetune_result, predicting
from bertlab.training.finetune import finetune, prepare_ingredients
from bertlab.training.finetune_data import TaskSteps, inputs_of, read_task
from bertlab.training.finetune_model import build_task_model
from bertlab.training.metrics import read_rows
from bertlab.training.predicting import Split, judge
from bertlab.training.ranks import Ranks


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "toy")


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TaskConfig]:
    folder = tmp_path_factory.mktemp("tasks")
    return {kind: write_task(folder / kind, kind) for kind in KINDS}


def result_of(run: RunFolder) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run.result.read_text())
    return result


def ids_of(config: FinetuneConfig, split: str) -> list[str]:
    return [example.id for example in read_task(config, [split]).data.splits[split]]


def test_a_task_is_learnt_and_everything_about_it_is_told(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.epochs": 15.0})
    run = RunFolder(finetune(config))
    result, predictions = result_of(run), read_predictions(run.predictions)
    assert [prediction.id for prediction in predictions] == ids_of(config, "dev")
    right = [prediction.prediction == prediction.gold for prediction in predictions]
    assert result["value"] == result["metrics"]["dev"]["accuracy"] == pytest.approx(np.mean(right))
    assert result["value"] > 0.9
    golds = Counter(prediction.gold for prediction in predictions)
    assert result["baseline"]["dev"]["accuracy"] == pytest.approx(golds["good"] / len(predictions))  # the more frequent one
    assert result["degenerate"] is None
    assert (result["task"], result["split"], result["metric"], result["seed"]) == ("toy_classification", "dev", "accuracy", 1)
    assert result["pretrained"]["name"] == "toy"
    assert result["data"]["examples"] == {"train": 45, "dev": 20}
    data = read_task(config, ["dev"]).data
    assert result["data"]["evaluated"] == {"dev": evaluated_fingerprint(data.splits["dev"], data.labels)}
    assert result["data"]["notes"] == data.notes
    assert result["recipe"]["steps"] == 90
    assert result["cut"] == {"devices": 1, "examples": 8}
    rows = [row for row in read_rows(run.metrics) if row["split"] == "dev"]
    assert [row["epoch"] for row in rows] == list(range(1, 16))
    assert result["value"] == max(row["accuracy"] for row in rows)
    assert result["recipe"]["best_step"] == next(row["step"] for row in rows if row["accuracy"] == result["value"])
    assert not run.checkpoints.exists()
    assert all(len(prediction.scores or []) == 2 for prediction in predictions)
    log_likelihoods = [np.logaddexp(*prediction.scores) for prediction in predictions]
    assert log_likelihoods == pytest.approx([0.0] * 20, abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, True),
        ({"tuning.frozen_layers": 1}, False),
        ({"tuning.freeze": "embeddings"}, False),
        ({"tuning.gradual": True}, False),
        ({"features.kind": "last"}, False),
    ],
)
def test_the_utilisation_is_that_of_training_everything(
    changes: dict[str, object], counted: bool, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
) -> None:
    """What is frozen takes part of the work only, so that of all of it would be no utilisation."""
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.epochs": 1.0, **changes})
    result = result_of(RunFolder(finetune(config)))
    assert (result["mfu"] is not None) == counted


def test_a_state_that_is_gone_on_from_is_in_memory_once(
    tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"trainer.log_every": 1, "checkpointing.every": 2})
    held = weights_held_after_a_stop(2, lambda: finetune(config), monkeypatch)
    assert held
    assert not any(held)


def test_it_can_be_started_again_from_its_folder_wherever_that_is_done(
    tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the checkpoint was named by a run's id, which means something under its paths.runs alone."""
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.epochs": 1.0, "paths.runs": str(checkpoint.parent)})
    folder = finetune(replace(config, checkpoint=checkpoint.name))
    monkeypatch.chdir(tmp_path)
    words = [f"--config-dir={folder}", "--config-name=config", f"paths.runs={tmp_path / 'elsewhere'}"]
    (job,) = compose(FINETUNE, parse_arguments(words))
    assert finetune(job.config) == tmp_path / "elsewhere" / folder.name


def test_a_finished_run_is_left_alone(
    tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.epochs": 1.0})
    folder = finetune(config)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    again = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.epochs": 1.0, "tuning.micro": 3, "recipe": "mine"})
    assert finetune(again) == folder
    assert "finished" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "classification"])
def test_every_kind_of_task(kind: str, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    config = make_finetuning(tmp_path, tasks[kind], checkpoint, **{"task.evaluate": ["dev", "test"], "tuning.epochs": 8.0})
    run = RunFolder(finetune(config))
    result = result_of(run)
    assert [prediction.id for prediction in read_predictions(run.predictions)] == ids_of(config, "dev")
    assert [prediction.id for prediction in read_predictions(run.predictions_of("test"))] == ids_of(config, "test")
    assert result["metrics"]["test"] == {}  # it is not known what is right
    assert result["value"] > result["baseline"]["dev"][result["metric"]]
    assert result["value"] == pytest.approx(max(row[result["metric"]] for row in read_rows(run.metrics) if row["split"] == "dev"))
    training = [row["loss"] for row in read_rows(run.metrics) if row["split"] == "train"]
    assert training[-1] < training[0]


def test_questions_without_answers(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    """The threshold is tuned on dev, used for every split, and kept with the model."""
    folder = tmp_path / "task"
    task = dataclasses.replace(write_task(folder, "span"), no_answer=True, evaluate=["dev", "test"])
    for split in ("train", "dev"):
        rows = [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]
        for number, row in enumerate(rows):
            if number % 3 == 0:
                row.update(context="the song was very so", answer=[])
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = RunFolder(finetune(make_finetuning(tmp_path, task, checkpoint)))
    result, predictions = result_of(run), read_predictions(run.predictions)
    assert result["threshold"] == load_finetuned(run).threshold
    for prediction in [*predictions, *read_predictions(run.predictions_of("test"))]:
        assert prediction.scores is not None
        assert (prediction.prediction == "") == (prediction.scores[0] < result["threshold"])
        assert prediction.answer  # which is kept where it is not given, so that other thresholds can be tried
        assert prediction.prediction in ("", prediction.answer)
    assert result["metrics"]["dev"]["f1"] == pytest.approx(result["metrics"]["dev"]["best_f1"])


def test_the_threshold_is_the_best_for_f1_and_not_for_exact_match() -> None:
    """Half an answer is worth giving by F1 alone, by which the other question is best left without one."""
    examples = [SpanExample("a", "where", "the red house", (Answer("red house", 4),)), SpanExample("b", "why", "the song", ())]
    said = [("house", 2.0), ("song", 1.0)]
    found = [Found(place, [Candidate(text, 0, margin, 1.0)], 0.0) for place, (text, margin) in enumerate(said)]
    assert predicting._tuned(found, examples) == 2.0


def test_the_fine_tuned_model_can_be_loaded_and_says_the_same(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    config = make_finetuning(tmp_path, tasks["tagging"], checkpoint, **{"head.crf": True, "tuning.epochs": 2.0})
    run = RunFolder(finetune(config))
    finetuned = load_finetuned(run)
    data = read_task(config, ["dev"]).data
    split = Split("dev", data.splits["dev"], inputs_of(config, data, "dev", finetuned.vocabulary))
    judged = judge(finetuned.model, finetuned.task, finetuned.labels, split, Ranks(0, 1), bf16=False)
    assert judged is not None
    assert judged.predictions == read_predictions(run.predictions)
    whole = collate(split.inputs, range(split.inputs.examples))  # the mean over words, as in training
    assert judged.loss == pytest.approx(finetuned.model.loss(whole).loss.item(), rel=1e-5)


def test_a_submission_is_written_when_asked_for_and_trains_nothing_anew(
    tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
) -> None:
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.epochs": 1.0})
    folder = finetune(config)
    finished = (folder / "result.json").stat().st_mtime_ns
    config.submission = True
    assert finetune(config) == folder
    lines = (folder / "submission" / "Toy.tsv").read_text().splitlines()
    assert len(lines) == 8
    assert {line.split("\t")[1] for line in lines[1:]} <= {"good", "bad"}
    assert (folder / "result.json").stat().st_mtime_ns == finished
    (folder / "submission" / "Toy.tsv").unlink()
    config.task.submission = {"ax": "AX.tsv", **config.task.submission}  # a split of which this folder has no file, as of MNLI
    assert finetune(config) == folder
    assert [path.name for path in (folder / "submission").iterdir()] == ["Toy.tsv"]
    config.task.submission = {"ax": "AX.tsv"}
    config.seed += 1
    with pytest.raises(UserError, match="has no file for ax here"):
        finetune(config)
    assert list(folder.parent.iterdir()) == [folder]  # said before anything trains


def test_a_submission_that_lacks_examples_is_not_written(tmp_path: Path, checkpoint: Path) -> None:
    task = write_task(tmp_path / "task", "classification")
    task.leave_out = ["unclear"]
    rows = [{"text": "the day was fine", "label": label} for label in ("good", "unclear", "good")]
    (tmp_path / "task" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = make_finetuning(tmp_path, task, checkpoint, submission=True, **{"tuning.epochs": 0.2})
    with pytest.raises(UserError, match=r"submission: examples of test are left out, 1 .*unclear.*: mend its file"):
        finetune(config)
    (folder,) = (tmp_path / "runs").glob("finetune-*")
    assert (folder / "result.json").is_file()  # the training is not lost
    assert not list(folder.glob("submission/*"))


def test_a_single_best_answer_judges_questions_by_their_best_threshold(
    tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
) -> None:
    task = dataclasses.replace(tasks["span"], no_answer=True, metrics=["best_f1", "f1"])
    result = result_of(RunFolder(finetune(make_finetuning(tmp_path, task, checkpoint, **{"tuning.epochs": 0.2}))))
    assert result["metric"] == "best_f1"
    assert result["baseline"]["dev"]["best_f1"] == result["baseline"]["dev"]["f1"]


CHOICES: dict[str, tuple[str, dict[str, object], dict[str, object]]] = {
    "the paper's": ("classification", {}, {}),
    "gradual, by layer, micro-batches": (
        "choice",
        {"tuning.gradual": True, "tuning.layer_decay": 0.5, "tuning.micro": 3, "optimizer.kind": "adamw"},
        {},
    ),
    "features of all layers": ("tagging", {"features.kind": "weighted_sum_all", "features.hidden": 8, "head.crf": True}, {}),
    "batch norm in bf16, started anew": (
        "regression",
        {"trainer.precision": "bf16", "tuning.reinit_layers": 1},
        {"norm": "batch"},
    ),
    "left to right under a BiLSTM, patience": (
        "span",
        {"head.bilstm": True, "tuning.patience": 2, "tuning.evaluate_every": 0.34, "optimizer.lr": 0.3},
        {"attention": "causal", "next_sentence": False},
    ),
    "a bag of words, its last weights": ("classification", {"tuning.select": "last"}, {"backbone": "cbow", "next_sentence": False}),
}


@pytest.mark.parametrize(("kind", "changes", "architecture"), CHOICES.values(), ids=CHOICES)
def test_a_run_that_is_stopped_resumes_to_the_same_bytes(
    kind: str,
    changes: dict[str, object],
    architecture: dict[str, object],
    tmp_path: Path,
    tasks: dict[str, TaskConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint = write_checkpoint(tmp_path / "model", **architecture)
    changes = {"tuning.epochs": 2.0, "trainer.log_every": 2, "checkpointing.every": 5, **changes}
    whole = RunFolder(finetune(make_finetuning(tmp_path / "whole", tasks[kind], checkpoint, **changes)))
    config = make_finetuning(tmp_path, tasks[kind], checkpoint, **changes)
    with monkeypatch.context() as patch:
        stop_at(8, Killed(), patch)  # the last state is that of step 5, an evaluation has come after it
        with pytest.raises(Killed):
            finetune(config)
    with monkeypatch.context() as patch:  # and again, when all is done but the result
        patch.setattr(finetune_result, "make_result", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            finetune(config)
    resumed = RunFolder(finetune(config))
    for name in ("metrics.jsonl", "model.safetensors", "predictions.jsonl"):
        assert (resumed.path / name).read_bytes() == (whole.path / name).read_bytes(), name
    ours, theirs = result_of(resumed), result_of(whole)
    assert {key: ours[key] for key in ("id", "value", "metrics", "recipe")} == {
        key: theirs[key] for key in ("id", "value", "metrics", "recipe")
    }
    if "tuning.patience" in changes:
        assert ours["recipe"]["ended_early"]


def test_patience_ends_a_run_whose_metric_no_longer_rises(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    changes = {"tuning.patience": 2, "optimizer.lr": 1e-9, "tuning.epochs": 10.0}
    run = RunFolder(finetune(make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes)))
    result = result_of(run)
    assert result["recipe"]["ended_early"]
    assert (result["recipe"]["best_step"], result["recipe"]["steps"]) == (6, 18)  # the first of three that are alike is the best


def test_where_no_step_had_a_metric_the_weights_are_those_of_the_last(
    tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertlab.training.finetune._figures", lambda *_: {})
    result = result_of(RunFolder(finetune(make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.epochs": 2.0}))))
    assert (result["recipe"]["select"], result["recipe"]["best_step"], result["recipe"]["steps"]) == ("best", 12, 12)


def test_patience_is_not_renewed_by_a_stop(
    tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"tuning.patience": 2, "optimizer.lr": 1e-9, "tuning.epochs": 10.0, "checkpointing.every": 13}
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes)
    with monkeypatch.context() as patch:
        stop_at(14, Killed(), patch)  # the first of the two epochs without improvement is over
        with pytest.raises(Killed):
            finetune(config)
    recipe = result_of(RunFolder(finetune(config)))["recipe"]
    assert (recipe["best_step"], recipe["steps"]) == (6, 18)


def test_patience_that_ends_with_the_last_step_ends_nothing_early(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    changes = {"tuning.patience": 1, "tuning.epochs": 2.0, "optimizer.lr": 1e-12}
    recipe = json.loads((finetune(make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes)) / "result.json").read_text())[
        "recipe"
    ]
    assert (recipe["steps"], recipe["ended_early"]) == (12, False)


def test_a_fine_tuning_is_a_plain_loop_over_its_steps(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    """Rates by layer, parts that join from the top, noise, micro-batches and clipping, with PyTorch's own Adam."""
    tuning = {"tuning.epochs": 1.0, "tuning.micro": 3, "tuning.layer_decay": 0.5, "tuning.gradual": True, "tuning.select": "last"}
    optimizer = {"kind": "adamw", "clip": 0.3, "warmup": 1 / 6, "weight_decay": 0.5, "epsilon": 1e-3}  # so that the gradient's size counts
    changes = {**tuning, **{f"optimizer.{name}": value for name, value in optimizer.items()}, "trainer.log_every": 1, "seed": 4}
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes)
    ingredients = prepare_ingredients(config)
    model = build_task_model(config, ingredients.pretrained, ["bad", "good"]).train()
    steps = TaskSteps(inputs_of(config, ingredients.task.data, "train", ingredients.pretrained.vocabulary), config, 0, 1, None)
    parts = [[model.bert.embeddings], [model.bert.backbone.layers[0]], [model.bert.backbone.layers[1]], [model.head, model.bert.pooler]]
    parameters = [[each for module in part if module is not None for each in module.parameters()] for part in parts]
    groups = [
        {"params": [each for each in part if (each.dim() > 1) == decays], "scale": 0.5 ** (3 - number), "weight_decay": 0.5 * decays}
        for number, part in enumerate(parameters)
        for decays in (True, False)
    ]
    adam = torch.optim.AdamW(groups, eps=1e-3, fused=False)
    expected = []
    # Of 6 steps one is warm-up; in four of them the three parts below the head join.
    for step, (rate, frozen) in enumerate([(0, 3), (5 / 6, 3), (4 / 6, 2), (3 / 6, 1), (2 / 6, 0), (1 / 6, 0)]):
        adam.zero_grad()
        loss = 0.0
        for micro in steps[step].micro_batches:
            seed_dropout(config.seed, step, micro.place)
            share = model.loss(micro).loss
            share.backward()
            loss += float(share.detach())
        for part in parameters[:frozen]:
            for parameter in part:
                parameter.grad = None
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        for group in adam.param_groups:
            group["lr"] = rate * config.optimizer.lr * group["scale"]
        adam.step()
        expected.append((loss, float(norm)))
    run = RunFolder(finetune(config))
    rows = [row for row in read_rows(run.metrics) if row["split"] == "train"]
    for row, (loss, norm) in zip(rows, expected, strict=True):
        assert (row["loss"], row["gradient_norm"]) == (pytest.approx(loss, rel=1e-5), pytest.approx(norm, rel=1e-5))
    trained = load_file(run.weights)
    assert trained.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(trained[name], value, atol=1e-6, rtol=1e-5)


def test_the_best_weights_are_kept_or_the_last(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    changes: dict[str, object] = {"tuning.evaluate_every": 0.5, "optimizer.lr": 0.1, "tuning.epochs": 3.0}
    best = RunFolder(finetune(make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes)))
    changes |= {"tuning.select": "last"}
    last = RunFolder(finetune(make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes)))
    rows = [row["accuracy"] for row in read_rows(best.metrics) if row["split"] == "dev"]
    assert result_of(best)["value"] == max(rows)
    assert result_of(last)["value"] == rows[-1]
    assert result_of(last)["recipe"]["best_step"] == result_of(last)["recipe"]["steps"] == 18


def test_a_run_that_learns_nothing_is_named(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    changes = {"tuning.epochs": 1.0, "optimizer.lr": 1e-9, "tuning.freeze": "encoder"}
    result = result_of(RunFolder(finetune(make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes))))
    assert result["value"] <= result["baseline"]["dev"]["accuracy"] or "all 20 predictions" in result["degenerate"]
    assert result["degenerate"]


def test_ctrl_c_while_the_result_is_made(
    tmp_path: Path,
    tasks: dict[str, TaskConfig],
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.epochs": 1.0})
    with monkeypatch.context() as patch:
        patch.setattr(finetune_result, "make_result", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(Interrupted) as stop:
            finetune(config)
    assert stop.value.code == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert (finetune(config) / "result.json").is_file()


def test_numbers_that_are_none_stop_the_run(tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
    changes = {"optimizer.lr": 1e30, "optimizer.clip": None, "optimizer.warmup": 0.0}
    config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes)
    with pytest.raises(RunFailed, match=r"at step \d+: the (gradient norm|loss)"):
        finetune(config)
    with pytest.raises(RunFailed, match="failed before"):
        finetune(config)


class TestModel:
    def test_random_weights_are_new_by_seed_and_the_head_is_the_same(
        self, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
    ) -> None:
        def built(**changes: object) -> dict[str, torch.Tensor]:
            ingredients = prepare_ingredients(make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes))
            return build_task_model(ingredients.config, ingredients.pretrained, ingredients.task.data.labels).state_dict()

        pretrained, random, again, other = built(), built(weights="random"), built(weights="random"), built(weights="random", seed=2)
        trained = load_file(checkpoint / "model.safetensors")
        name = "embeddings.words.weight"
        assert torch.equal(pretrained[f"bert.{name}"], trained[name])
        assert not torch.equal(random[f"bert.{name}"], trained[name])
        assert all(torch.equal(random[key], again[key]) for key in random)
        assert not torch.equal(random[f"bert.{name}"], other[f"bert.{name}"])
        heads = [key for key in pretrained if key.startswith("head.")]
        assert heads
        assert all(torch.equal(pretrained[key], random[key]) for key in heads)
        assert not all(torch.equal(random[key], other[key]) for key in heads)

    def test_a_pooler_that_nobody_has_trained_is_new_by_seed(self, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
        tagger = finetune(make_finetuning(tmp_path, tasks["tagging"], checkpoint, **{"tuning.epochs": 0.2}))

        def pooler(seed: int, source: Path) -> torch.Tensor:
            ingredients = prepare_ingredients(make_finetuning(tmp_path, tasks["classification"], source, seed=seed))
            return build_task_model(ingredients.config, ingredients.pretrained, ["bad", "good"]).state_dict()["bert.pooler.dense.weight"]

        assert torch.equal(pooler(1, tagger), pooler(1, tagger))
        assert not torch.equal(pooler(1, tagger), pooler(2, tagger))
        assert torch.equal(pooler(1, checkpoint), pooler(2, checkpoint))  # pre-training has trained this one

    def test_of_random_weights_it_does_not_count_what_the_checkpoint_was_trained_to_do(
        self, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
    ) -> None:
        """Not even whether its pooler was trained: runs of one identity have the same numbers."""
        tagger = finetune(make_finetuning(tmp_path, tasks["tagging"], checkpoint, **{"tuning.epochs": 0.2}))
        both = [
            prepare_ingredients(make_finetuning(tmp_path, tasks["classification"], source, weights="random"))
            for source in (checkpoint, tagger)
        ]
        assert [each.pretrained.fresh for each in both] == [[], ["language head", "next-sentence head", "pooler"]]
        assert both[0].identity == both[1].identity
        ours, theirs = (build_task_model(each.config, each.pretrained, ["bad", "good"]).state_dict() for each in both)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)

    def test_dropout_replaces_that_of_the_pre_training(self, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path) -> None:
        config = make_finetuning(tmp_path, tasks["classification"], checkpoint, dropout=0.25, attention_dropout=0.0)
        ingredients = prepare_ingredients(config)
        model = build_task_model(config, ingredients.pretrained, ["bad", "good"])
        assert (model.bert.architecture.dropout, model.bert.architecture.attention_dropout) == (0.25, 0.0)
        assert torch.equal(model.bert.embeddings.words.weight, ingredients.pretrained.bert.embeddings.words.weight)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"task.max_length": 33}, r"task.max_length=33 is longer than the position table of toy \(32 rows\)"),
            ({"head.layers": 3}, "head.layers=3"),
            ({"tuning.frozen_layers": 3}, "tuning.frozen_layers=3"),
            ({"checkpoint": "nothing"}, "No run 'nothing'"),
            ({"task.evaluate": ["test"]}, "The right answer of 7 examples of test is not known"),
            (
                {"task.labels": [], "task.metrics": ["f1"], "task.files": {"train": ["three.jsonl"], "dev": ["dev.jsonl"]}},
                "The examples of dev have no metric 'f1': choose task.metrics from accuracy, matthews, macro_f1",
            ),
            ({"tuning.min_words": 100}, "No training example has at least 100 words"),
            (
                {"task.files": {"train": ["one.jsonl"], "dev": ["dev.jsonl"]}},
                r"one.jsonl: all training examples are labelled 'good', so there is nothing to tell apart: give examples",
            ),
            (
                {"task.files": {"train": ["one.jsonl"], "dev": ["dev.jsonl"]}, "tuning.train_examples": 2},
                r"all training examples that are taken are labelled 'good', .*: raise tuning.train_examples=2",
            ),
            ({"trainer.accelerator": "gpu"}, "finds no GPU"),
        ],
        ids=str,
    )
    def test_what_does_not_fit_is_refused_before_training(
        self,
        changes: dict[str, object],
        said: str,
        tmp_path: Path,
        tasks: dict[str, TaskConfig],
        checkpoint: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        folder = Path(str(tasks["classification"].path))
        third = '{"text": "it was a meal", "label": "neither"}\n'
        (folder / "three.jsonl").write_text((folder / "train.jsonl").read_text() + third)
        rows = (folder / "train.jsonl").read_text().splitlines(keepends=True)
        (folder / "one.jsonl").write_text("".join(row for row in rows if '"good"' in row))
        with pytest.raises(UserError, match=said):
            finetune(make_finetuning(tmp_path, tasks["classification"], checkpoint, **changes))
        assert not (tmp_path / "runs").exists()

    def test_a_window_that_leaves_words_out_is_warned_of(
        self, tmp_path: Path, tasks: dict[str, TaskConfig], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The bag of words that is pooled holds a few of a sequence's words; a mean, or a BiLSTM, reads on."""
        checkpoint = write_checkpoint(tmp_path / "model", backbone="cbow", window=3, next_sentence=False)
        for kind, changes, warned in (
            ("classification", {}, True),
            ("choice", {"head.convolution": 3, "head.pooling": "ends"}, True),
            ("classification", {"head.pooling": "mean"}, False),
            ("regression", {"head.bilstm": True}, False),
            ("tagging", {}, False),
        ):
            prepare_ingredients(make_finetuning(tmp_path, tasks[kind], checkpoint, **changes))
            assert ("The model reads 3 words on either side" in capsys.readouterr().err) == warned, (kind, changes)

    def test_a_metric_of_questions_that_are_not_there_is_refused(
        self, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
    ) -> None:
        changes = {"task.no_answer": True, "task.metrics": ["no_answer_f1"]}
        with pytest.raises(UserError, match="The examples of dev have no metric 'no_answer_f1'"):
            finetune(make_finetuning(tmp_path, tasks["span"], checkpoint, **changes))

    def test_tags_that_are_all_alike_are_refused(self, tmp_path: Path, checkpoint: Path) -> None:
        task = write_task(tmp_path / "task", "tagging")
        rows = [json.loads(row) for row in (tmp_path / "task" / "train.jsonl").read_text().splitlines()]
        plain = "".join(json.dumps({**row, "tags": ["O"] * len(row["words"])}) + "\n" for row in rows)
        (tmp_path / "task" / "train.jsonl").write_text(plain)
        with pytest.raises(UserError, match=r"all training examples are labelled 'O'.*task.columns.tags"):
            finetune(make_finetuning(tmp_path, task, checkpoint))

    def test_pairs_need_a_second_segment(self, tmp_path: Path, tasks: dict[str, TaskConfig]) -> None:
        one = write_checkpoint(tmp_path / "one_segment", segments=1)
        with pytest.raises(UserError, match="one_segment knows one segment only"):
            finetune(make_finetuning(tmp_path, tasks["choice"], one))
        prepare_ingredients(make_finetuning(tmp_path, tasks["tagging"], one))


class TestExamples:
    def test_bounds_leave_out_training_examples_and_count_them(
        self, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
    ) -> None:
        whole = read_task(make_finetuning(tmp_path, tasks["classification"], checkpoint), ["train", "dev"])
        bounds = {"tuning.min_words": 6, "tuning.max_words": 8}
        chosen = read_task(make_finetuning(tmp_path, tasks["classification"], checkpoint, **bounds), ["train", "dev"])
        lengths = [len(example.text.split()) for example in whole.data.splits["train"]]
        assert chosen.left_out == {
            "train: fewer than 6 words": sum(length < 6 for length in lengths),
            "train: more than 8 words": sum(length > 8 for length in lengths),
        }
        assert [len(example.text.split()) for example in chosen.data.splits["train"]] == [each for each in lengths if 6 <= each <= 8]
        assert chosen.data.splits["dev"] == whole.data.splits["dev"]

    def test_fewer_examples_are_some_of_more_whatever_the_seed(
        self, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
    ) -> None:
        def taken(count: int, seed: int) -> list[str]:
            changes = {"tuning.train_examples": count, "tuning.eval_examples": 5}
            config = make_finetuning(tmp_path, tasks["classification"], checkpoint, seed=seed, **changes)
            chosen = read_task(config, ["train", "dev"])
            assert chosen.examples == {"train": count, "dev": 5}
            assert chosen.left_out == {
                "train: beyond the number asked for": 45 - count,
                "dev: beyond the number asked for": 15,
            }
            return [example.id for example in chosen.data.splits["train"]]

        assert taken(10, 1) == taken(10, 2)
        assert set(taken(10, 1)) < set(taken(20, 1))

    def test_every_rank_has_something_to_do_and_every_example_counts_once(
        self, tmp_path: Path, tasks: dict[str, TaskConfig], checkpoint: Path
    ) -> None:
        config = make_finetuning(tmp_path, tasks["classification"], checkpoint, **{"tuning.batch": 4, "tuning.train_examples": 10})
        ingredients = prepare_ingredients(config)
        inputs = inputs_of(config, ingredients.task.data, "train", ingredients.pretrained.vocabulary)
        ranks = [TaskSteps(inputs, config, rank, 4, None) for rank in range(4)]
        assert ranks[0].per_epoch == 3
        for step in range(6):
            shares = [steps[step] for steps in ranks]
            counted = [batch for share in shares if not share.stands_in for batch in share.micro_batches]
            examples = sorted(example for batch in counted for example in batch.examples.tolist())
            assert len(set(examples)) == len(examples) == (2 if step % 3 == 2 else 4) == shares[0].examples_in_step
            assert all(share.micro_batches for share in shares)
            assert {batch.count_in_step for batch in counted} == {len(examples)}
            assert sum(batch.inputs.tokens.numel() for batch in counted) == shares[0].tokens_in_step
