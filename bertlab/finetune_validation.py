"""What cannot be meant of a fine-tuning is refused here, before anything heavy is imported: the counterpart of ``bertlab.validation``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from bertlab import checks
from bertlab.checks import BOUNDS, Bounds, check_numbers, check_paths, check_trainer, check_words, devices_in_words, trainer_warnings
from bertlab.corpus_validation import CORPUS_KINDS, SENTENCE_SPLITTINGS, check_corpus
from bertlab.counting import counted
from bertlab.errors import UserError, unknown
from bertlab.finetune_config import FinetuneConfig, TuningConfig
from bertlab.launcher_validation import check_launcher
from bertlab.models.task_checks import FEATURES, FREEZES, POOLINGS, check_head, check_tuning
from bertlab.task_config import FORMATS, KINDS, SCHEMES, TaskConfig
from bertlab.tasks.lengths import check_lengths, room_of_windows
from bertlab.tasks.metric_names import known_metrics

# The words that a key of words can hold. Completion offers them as well.
WORDS: dict[str, tuple[str, ...]] = {
    "task.kind": KINDS,
    "task.format": FORMATS,
    "task.scheme": SCHEMES,
    "task.probe.kind": ("bigram_shift", "sentence_order", "continuation", "recurring_span", "truecasing"),
    "task.probe.documents": ("auto", "held_out", "any"),
    "weights": ("pretrained", "random"),
    "head.pooling": POOLINGS,
    "features.kind": FEATURES,
    "tuning.freeze": FREEZES,
    "tuning.select": ("best", "last"),
    "task.probe.corpus.kind": CORPUS_KINDS,
    "task.probe.corpus.sentence_splitting": SENTENCE_SPLITTINGS,
    **checks.WORDS,
}

_POSITIVE = (
    "task.max_length",
    "task.stride",
    "task.max_query_length",
    "task.max_answer_length",
    "task.probe.train",
    "task.probe.dev",
    "task.probe.test",
    "head.layers",
    "head.bilstm_hidden",
    "head.bilstm_layers",
    "head.convolution",
    "head.filters",
    "features.hidden",
    "features.layers",
    "tuning.epochs",
    "tuning.batch",
    "tuning.micro",
    "tuning.layer_decay",
    "tuning.evaluate_every",
    "tuning.patience",
    "tuning.train_examples",
    "tuning.eval_examples",
)
_BOUNDS = Bounds(
    positive=_POSITIVE + BOUNDS.positive,
    not_negative=("tuning.frozen_layers", "tuning.reinit_layers", "tuning.min_words", "tuning.max_words", *BOUNDS.not_negative),
    below_one=("dropout", "attention_dropout", "head.dropout", *BOUNDS.below_one),
    shares=("tuning.layer_decay", "task.held_out"),
)


def validate(config: FinetuneConfig) -> list[str]:
    """Refuse what cannot be meant.

    Returns:
        Warnings: sentences about what will run but may not be what was meant.

    Raises:
        UserError: the first thing found wrong.
    """
    check_words(config, WORDS)
    check_numbers(config, _BOUNDS)
    check_paths(config)
    check_trainer(config.trainer)
    if config.trainer.strategy == "fsdp":
        raise UserError(
            "trainer=fsdp divides the weights of a pre-training; fine-tuning holds them whole on every device: choose trainer=ddp."
        )
    check_launcher(config.launcher)
    _check_task(config.task)
    check_head(config.task.kind, config.head, config.features)
    check_tuning(config.tuning, config.features)
    _check_tuning(config.tuning)
    _check_batch(config)
    return list(_warnings(config))


def _check_task(task: TaskConfig) -> None:
    if not re.fullmatch(r"[\w.-]+", task.name):
        raise UserError(f"task.name={task.name!r} becomes part of a folder's name: use letters, digits, '_', '.' and '-' only.")
    if not task.evaluate:
        raise UserError(f"task.evaluate is empty: name the splits that task={task.name} is evaluated on, as in task.evaluate=[dev].")
    if "train" in task.evaluate:
        raise UserError("task.evaluate names train: a model is not measured on what it has learned from; name other splits, such as dev.")
    if len(set(task.evaluate)) < len(task.evaluate):
        raise UserError(f"task.evaluate={task.evaluate} names a split twice.")
    check_lengths(task)
    if task.kind == "span":
        _check_stride(task)
    if task.format == "probe":
        check_corpus(task.probe.corpus, "task.probe.corpus")
    elif task.format == "huggingface" and not task.dataset:
        raise UserError("task.format=huggingface needs task.dataset: an id on the Hub, or a folder that datasets can load.")
    elif task.path is not None and not os.path.exists(os.path.expanduser(task.path)):
        raise UserError(f"task.path={task.path}: there is no such folder (seen from {os.getcwd()}).")
    _check_metrics(task)


def _check_stride(task: TaskConfig) -> None:
    room = room_of_windows(task)
    if task.stride > room:
        raise UserError(
            f"task.stride={task.stride} would leave out tokens between two windows, which hold {room} at least: set task.stride={room}, or"
            " less."
        )


def _check_metrics(task: TaskConfig) -> None:
    if not task.metrics:
        raise UserError(f"task.metrics is empty: task={task.name} needs one that tells which weights are best.")
    known = known_metrics(task)
    for metric in task.metrics:
        if metric not in known:
            raise unknown(f"metric of task.kind={task.kind}", metric, known)


def _check_tuning(tuning: TuningConfig) -> None:
    if tuning.min_words is not None and tuning.max_words is not None and tuning.min_words > tuning.max_words:
        raise UserError(f"tuning.min_words={tuning.min_words} is more than tuning.max_words={tuning.max_words}: no example would be left.")


def _check_batch(config: FinetuneConfig) -> None:
    if config.tuning.batch < config.trainer.world:
        raise UserError(
            f"tuning.batch={config.tuning.batch} has fewer examples than {devices_in_words(config.trainer)}: give every device one."
        )


def _warnings(config: FinetuneConfig) -> Iterable[str]:
    yield from trainer_warnings(config.trainer)
    tuning = config.tuning
    if tuning.micro is not None and tuning.micro > tuning.batch:
        yield f"tuning.micro={tuning.micro} is more than a batch has ({counted(tuning.batch, 'example')}): nothing is accumulated."
    if config.weights == "random" and (tuning.freeze == "encoder" or config.features.kind != "none"):
        yield "weights=random leaves the encoder random for good, because it is frozen: only the layers on top of it learn."
    if config.weights == "random" and tuning.reinit_layers:
        yield f"tuning.reinit_layers={tuning.reinit_layers} has no effect under weights=random, which reinitialises every layer."
    if config.trainer.compile:
        yield "trainer.compile is left out: fine-tuning does not compile."
