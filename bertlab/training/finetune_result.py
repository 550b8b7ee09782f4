"""The final figures of a fine-tuning, what they are worth, and what they came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bertlab.tasks.baseline import constant_metrics
from bertlab.tasks.metrics import nothing_learned
from bertlab.tasks.predictions import evaluated_fingerprint
from bertlab.training.devices import examples_at_once
from bertlab.training.predicting import Judged, figures
from bertlab.training.progress import duration
from bertlab.training.throughput import facts

if TYPE_CHECKING:
    from bertlab.finetune_config import FinetuneConfig
    from bertlab.models.task_model import TaskModel
    from bertlab.run_files.folder import RunFolder
    from bertlab.training.finetune import Ingredients
    from bertlab.training.finetune_bookkeeping import FinetuneBookkeeping


def make_result(
    ingredients: Ingredients, run: RunFolder, model: TaskModel, judged: Mapping[str, Judged], bookkeeping: FinetuneBookkeeping
) -> dict[str, Any]:
    """The content of result.json. ``judged``: what came out for every split, the first of which is the one that judges."""
    config, data = ingredients.config, ingredients.task.data
    metrics = {name: figures(config.task, data.labels, each) for name, each in judged.items()}
    baselines = {name: _baseline(ingredients, each) for name, each in judged.items() if metrics[name]}
    split, metric = config.task.evaluate[0], config.task.metrics[0]
    return {
        "id": run.name,
        "identity": ingredients.identity,
        "task": config.task.name,
        "kind": config.task.kind,
        "split": split,
        "metric": metric,
        "value": metrics[split][metric],
        "metrics": metrics,
        "baseline": baselines,
        "degenerate": nothing_learned(config.task, judged[split].predictions, metric, metrics[split][metric], baselines[split][metric]),
        "threshold": judged[split].threshold,
        "seed": config.seed,
        "recipe": _recipe(config, bookkeeping),
        "pretrained": {
            "name": ingredients.pretrained.name,
            "origin": ingredients.pretrained.origin,
            "fingerprint": ingredients.pretrained.fingerprint,
            "weights": config.weights,
        },
        "data": {
            "fingerprint": data.fingerprint,
            "evaluated": {name: evaluated_fingerprint(data.splits[name], data.labels) for name in judged},
            "examples": ingredients.task.examples,
            "left_out": ingredients.task.left_out,
            "notes": data.notes,
        },
        "cut": {"devices": config.trainer.world, "examples": examples_at_once(config)},  # the noise of dropout follows it
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tokens": bookkeeping.speed.total.tokens,
        **facts(bookkeeping.speed),
    }


def _baseline(ingredients: Ingredients, judged: Judged) -> dict[str, float]:
    """The metrics of giving every example the same answer."""
    return constant_metrics(ingredients.config.task, judged.predictions, ingredients.task.data.labels)


def _recipe(config: FinetuneConfig, bookkeeping: FinetuneBookkeeping) -> dict[str, Any]:
    """How it was trained, in the words that studies of fine-tuning use."""
    return {
        "name": config.recipe,
        "optimizer": config.optimizer.kind,
        "lr": config.optimizer.lr,
        "warmup": config.optimizer.warmup,
        "batch": config.tuning.batch,
        "epochs": config.tuning.epochs,
        "steps": bookkeeping.step,
        "ended_early": bookkeeping.ended_early,
        "select": config.tuning.select,
        "best_step": bookkeeping.step if bookkeeping.kept_weights is None else bookkeeping.best_step,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
    }


def summary(result: Mapping[str, Any]) -> list[str]:
    """What a person wants to know of a finished run, as lines."""
    lines = []
    for split, found in result["metrics"].items():
        shown = ", ".join(f"{name} {value:.4f}" for name, value in found.items() if name != "loss" and "threshold" not in name)
        lines.append(f"{split}: {shown or 'predicted; the right answers are not known'}")
    baseline = result["baseline"][result["split"]][result["metric"]]
    lines.append(f"one answer to every example: {result['metric']} {baseline:.4f}")
    if result["degenerate"]:
        lines.append(f"this run has failed to learn: {result['degenerate']}")
    lines.append(f"{result['tokens']:,} tokens in {duration(result['seconds'])}: {result['tokens_per_second']:,.0f} tokens/s")
    return lines
