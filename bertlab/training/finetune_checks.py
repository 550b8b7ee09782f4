"""What a fine-tuning refuses before it trains: examples that teach nothing, and a task, a model and devices that do not go together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bertlab.counting import counted
from bertlab.errors import UserError
from bertlab.finetune_config import FinetuneConfig

if TYPE_CHECKING:
    from bertlab.interop.pretrained import Pretrained
    from bertlab.models.architecture import Architecture
    from bertlab.training.finetune_data import ChosenTask


def check_examples(config: FinetuneConfig, task: ChosenTask) -> None:
    """Refuse examples that cannot be learned from or judged by, and metrics that they do not have. Raises ``UserError``."""
    _check_labels(config, task)
    _refuse_single_label(config, task)
    _check_metrics(config, task)


def _check_labels(config: FinetuneConfig, task: ChosenTask) -> None:
    """Refuse to learn from, or be judged by, examples of which it is not known what is right. Raises ``UserError``."""
    from bertlab.tasks.predictions import gold_of

    for split in ("train", config.task.evaluate[0]):
        unknown = sum(gold_of(example, task.data.labels) is None for example in task.data.splits[split])
        if unknown:
            hint = "task.columns.label (or answer, tags)" if split == "train" else "another split first in task.evaluate"
            raise UserError(f"The right answer of {counted(unknown, 'example')} of {split} is not known: name {hint}.")


def _refuse_single_label(config: FinetuneConfig, task: ChosenTask) -> None:
    """Who has met one label alone gives it to everything, and is always right where there is no other. Raises ``UserError``."""
    from bertlab.tasks.discovery import training_file
    from bertlab.tasks.predictions import gold_of

    if config.task.kind not in ("classification", "tagging"):
        return
    found = [gold_of(example, task.data.labels) for example in task.data.splits["train"]]
    used = set(found) if config.task.kind == "classification" else {tag for tags in found for tag in tags}
    if len(used) > 1:
        return
    column = "label" if config.task.kind == "classification" else "tags"
    taken = " that are taken" if any(why.startswith("train") for why in task.left_out) else ""
    fewer = f"raise tuning.train_examples={config.tuning.train_examples}, " if config.tuning.train_examples is not None else ""
    raise UserError(
        f"{training_file(config.task)}: all training examples{taken} are labelled {used.pop()!r}, so there is nothing to tell apart:"
        f" {fewer}give examples of another label, or name the right column in task.columns.{column}."
    )


def _check_metrics(config: FinetuneConfig, task: ChosenTask) -> None:
    """Refuse metrics that these examples do not have: labels may have been learned, and questions all be of one kind."""
    from bertlab.tasks.metric_names import known_metrics

    known, judging = known_metrics(replace(config.task, labels=task.data.labels)), config.task.evaluate[0]
    if config.task.kind == "span":
        answered = {bool(example.answers) for example in task.data.splits[judging]}
        absent = ("has_answer", "no_answer") if False not in answered else () if True in answered else ("has_answer",)
        known = [name for name in known if not name.startswith(absent)]
    for metric in config.task.metrics:
        if metric not in known:
            raise UserError(f"The examples of {judging} have no metric {metric!r}: choose task.metrics from {', '.join(known)}.")


def check_model(config: FinetuneConfig, pretrained: Pretrained, task: ChosenTask) -> None:
    """Refuse what this model cannot do. Raises ``UserError``."""
    from bertlab.models.task_checks import check_head, check_length, check_tuning

    architecture = pretrained.architecture
    check_head(config.task.kind, config.head, config.features, architecture)
    check_tuning(config.tuning, config.features, architecture)
    check_length(config.task.max_length, architecture, pretrained.name)
    if architecture.backbone != "cbow" and architecture.segments < 2 and _has_pairs(task):
        raise UserError(
            f"task={config.task.name} has sequences of two parts, but {pretrained.name} knows one segment only: choose another model."
        )


def warning_of_window(config: FinetuneConfig, architecture: Architecture) -> str | None:
    """What a bag of words that reads a few words around each leaves out of what a whole sequence is judged by; None where it is nothing."""
    from bertlab.models.task_checks import OF_A_SEQUENCE

    reads_on = config.features.kind != "none" or config.head.bilstm or config.head.pooling in ("mean", "max", "mean_max")
    if architecture.backbone != "cbow" or architecture.window is None or config.task.kind not in OF_A_SEQUENCE or reads_on:
        return None
    return (
        f"The model reads {counted(architecture.window, 'word')} on either side of each, and so does the state by which a sequence is"
        " judged: head.pooling=mean reads the whole of it."
    )


def _has_pairs(task: ChosenTask) -> bool:
    """Whether a sequence can have a second segment."""
    if task.data.kind in ("choice", "span"):
        return True
    return any(getattr(example, "pair", None) is not None for examples in task.data.splits.values() for example in examples)


def check_shares(config: FinetuneConfig, architecture: Architecture, examples: int) -> None:
    """Batch normalisation meets the other ranks in every micro-batch, so there each needs as many. Raises ``UserError``."""
    world = config.trainer.world
    if world == 1 or architecture.norm != "batch":
        return
    micro = config.tuning.micro or config.tuning.batch
    for size in {min(config.tuning.batch, examples), examples % config.tuning.batch} - {0}:
        largest = -(-size // world)
        if size // world < -(-largest // micro):
            raise UserError(
                f"A batch of {counted(size, 'example')} cannot be shared by {world} devices under batch normalisation: choose tuning.batch"
                f" so that the {counted(examples, 'example')} of training leave no small batch at the end of an epoch, or lower"
                " trainer.devices."
            )
