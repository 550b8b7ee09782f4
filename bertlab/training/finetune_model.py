"""A task model from a pre-trained one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from bertlab.data.randomness import derive
from bertlab.finetune_config import FinetuneConfig
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.models.freezing import reinitialise, set_trained
from bertlab.models.initialisation import initialise
from bertlab.models.task_model import TaskModel

if TYPE_CHECKING:
    from bertlab.interop.pretrained import Pretrained


def architecture_of(config: FinetuneConfig, pretrained: Architecture) -> Architecture:
    """The pre-trained architecture with the dropout that fine-tuning asks for."""
    return replace(
        pretrained,
        dropout=pretrained.dropout if config.dropout is None else config.dropout,
        attention_dropout=pretrained.attention_dropout if config.attention_dropout is None else config.attention_dropout,
    )


def build_task_model(config: FinetuneConfig, pretrained: Pretrained, labels: Sequence[str]) -> TaskModel:
    """The model that is trained: on the CPU, everything that will ever be trained being so.

    What is fresh (the head, a pooler that nobody has trained, layers that start anew, under ``weights=random`` all) follows from the
    seed; the head is the same whether or not the weights below it are pre-trained.
    """
    bert = _bert(config, pretrained)
    _seed(config, "layers that start anew")
    reinitialise(bert, config.tuning.reinit_layers)
    _seed(config, "head")
    model = TaskModel(bert, config.task.kind, len(labels), config.head, config.features)
    # A task has trained none. Random weights have a new one anyway, which must not depend on the checkpoint.
    untrained = config.weights == "pretrained" and "pooler" in pretrained.fresh
    if untrained and model.head.takes_pretrained_pooler and bert.pooler is not None:
        _seed(config, "pooler")
        bert.pooler.apply(partial(initialise, deviation=bert.architecture.initializer_range))
    set_trained(model, config.tuning, 1.0)
    if config.trainer.checkpoint_activations:
        bert.checkpoint_activations()
    return model


def _bert(config: FinetuneConfig, pretrained: Pretrained) -> Bert:
    architecture = architecture_of(config, pretrained.architecture)
    if config.weights == "random":
        _seed(config, "weights")
        return Bert(architecture)
    if architecture == pretrained.architecture:
        return pretrained.bert
    with torch.device("meta"):
        bert = Bert(architecture)
    bert.to_empty(device="cpu")
    bert.load_state_dict(pretrained.bert.state_dict())
    return bert


def _seed(config: FinetuneConfig, purpose: str) -> None:
    torch.manual_seed(int(derive(config.seed, purpose) >> 1))
