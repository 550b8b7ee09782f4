"""Who a fine-tuning is: everything that can change one of its numbers, and nothing else. See ``bertlab.training.identity``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bertlab.finetune_config import FeaturesConfig, FinetuneConfig
from bertlab.models.architecture import Architecture
from bertlab.run_files.folder import RunFolder
from bertlab.task_config import TaskConfig
from bertlab.training.identity import Identity, begun_or_new, cut_of_statistics, described_architecture

if TYPE_CHECKING:
    from pathlib import Path

    from bertlab.interop.pretrained import Pretrained

# To be raised when a change of the code changes what a configuration computes, other than by rounding and by another draw of its noise.
FORMAT = 1

# What of a task decides its numbers besides the content of its examples; those of one kind count for that kind alone.
_OF_EVERY_TASK = ("kind", "metrics", "evaluate", "max_length")
_OF_A_KIND = {
    "tagging": ("scheme", "document_context"),
    "span": ("stride", "max_query_length", "max_answer_length", "no_answer"),
}


def finetuning_identity(config: FinetuneConfig, pretrained: Pretrained, architecture: Architecture, data_fingerprint: str) -> Identity:
    """All that the numbers of a fine-tuning depend on, as plain values.

    The pre-trained model counts by its weights, the task by its examples: neither by where they lie. ``architecture`` is with the dropout
    of this training. With random weights only the architecture and the vocabulary of the checkpoint count.
    """
    return {
        "format": FORMAT,
        "kind": "finetune",
        "pretrained": pretrained.fingerprint if config.weights == "pretrained" else None,
        "architecture": described_architecture(architecture),
        "vocabulary": pretrained.vocabulary.fingerprint,
        "data": data_fingerprint,
        "task": _task(config.task),
        "head": _head(config),
        "features": _features(config.features),
        "tuning": _tuning(config, architecture),
        "optimizer": asdict(config.optimizer),
        "precision": config.trainer.precision,
        "seed": config.seed,
    }


def _task(task: TaskConfig) -> dict[str, Any]:
    """The task without its examples. Tags that stand for themselves are counted otherwise where the task does not name them."""
    values = {key: getattr(task, key) for key in (*_OF_EVERY_TASK, *_OF_A_KIND.get(task.kind, ()))}
    learned = task.kind == "tagging" and task.scheme == "none" and not task.labels
    return values | ({"tags": "learned"} if learned else {})


def _head(config: FinetuneConfig) -> dict[str, Any]:
    """The head without the values that say nothing about it."""
    head = asdict(config.head)
    unused = [] if config.head.bilstm else ["bilstm_hidden", "bilstm_layers"]
    unused += [] if config.head.convolution is not None else ["filters"]
    unused += ["pooling", "pooler"] if config.task.kind in ("tagging", "span") else []
    unused += ["crf"] if config.task.kind != "tagging" else []
    return {key: value for key, value in head.items() if key not in unused}


def _features(features: FeaturesConfig) -> dict[str, Any] | None:
    """Frozen features, if they are read; a format stands beside those of which a change of the code has changed the numbers."""
    if features.kind == "none":
        return None
    changed = features.kind.startswith("weighted_sum")  # the sum's weights have a rate of their own
    return asdict(features) | ({"format": 2} if changed else {})


def _tuning(config: FinetuneConfig, architecture: Architecture) -> dict[str, Any]:
    """How the weights are trained, without what only parts the work."""
    tuning = asdict(config.tuning)
    micro = tuning.pop("micro")
    if architecture.norm != "batch":
        return tuning
    return {**tuning, "micro": cut_of_statistics(micro, config.trainer.world, config.tuning.batch)}


def readable_name(task: TaskConfig, pretrained_name: str, weights: str) -> str:
    """What a person sees of the identity: ``finetune-mrpc-tiny-mlm_nsp-d03e8e26``."""
    source = pretrained_name.removeprefix("pretrain-")
    return f"finetune-{task.name}-{source}{'-random' if weights == 'random' else ''}"


def finetune_folder_of(runs: Path, config: FinetuneConfig, pretrained: Pretrained, identity: Identity) -> RunFolder:
    """Where this identity's run is, or will be."""
    return begun_or_new(runs, readable_name(config.task, pretrained.name, config.weights), identity)
