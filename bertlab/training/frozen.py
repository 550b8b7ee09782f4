"""The feature-based approach in training: the frozen states of a split are made once, kept in the cache, and read from there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
import torch

from bertlab.data.cache import cache_folder
from bertlab.data.task_batch import TaskBatch
from bertlab.finetune_config import FinetuneConfig
from bertlab.models.task_model import TaskModel
from bertlab.tasks.batching import collate, evaluation_batches
from bertlab.tasks.inputs import Inputs
from bertlab.training.predicting import TOKENS_PER_BATCH, Split
from bertlab.training.progress import ProgressDisplay


def attach_features(split: Split, model: TaskModel, weights: str, config: FinetuneConfig, device_kind: str) -> Split:
    """The split with its frozen states, of which there is one file a model and split.

    Args:
        split: without them.
        model: a feature-based one, on the CPU; it is there again afterwards.
        weights: what decides the weights of its ``bert``.
        config: where the cache is, and whether progress is shown.
        device_kind: what makes the states: cpu | gpu.
    """
    device, inputs = torch.device("cuda" if device_kind == "gpu" else "cpu"), split.inputs
    first_rows = inputs.word_offsets if model.kind == "tagging" else inputs.offsets[inputs.first_sequence]
    assert first_rows is not None
    display = ProgressDisplay(config.trainer.progress, title=f"features of {split.name}")
    made = 0

    def batches() -> Iterator[TaskBatch]:
        for examples in evaluation_batches(inputs, TOKENS_PER_BATCH):
            yield collate(inputs, examples).to(device)

    def advance(rows: int) -> None:
        nonlocal made
        made += rows
        display.advance(made / int(first_rows[-1]))

    model.to(device)
    try:
        source = model.kept_features(
            cache_folder(config.paths) / "features", (weights, _fingerprint(inputs)), first_rows, batches, advance=advance
        )
    finally:
        display.close()
        model.to("cpu")
    return replace(split, attach=source.attach)


def _fingerprint(inputs: Inputs) -> str:
    """A hash of all that decides the states."""
    digest = hashlib.blake2b(digest_size=16)
    for field in fields(inputs):
        value = getattr(inputs, field.name)
        if field.name in ("tokens", "offsets", "boundaries", "first_sequence", "word_tokens") and value is not None:
            digest.update(f"{field.name} {value.dtype} ".encode())
            digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()
