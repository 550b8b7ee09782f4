"""What a run will cost, as far as its configuration tells: tokens, and FLOPs by the closed form of ``bertlab.models.size``.

Of a pretraining both are exact but for padding that is never fed. Of a fine-tuning they are an estimate: the examples are not read for
it, so their number, where nothing bounds it, is taken from the size of the training file, and their length from what is usual. Every
state of the encoder counts as if the head read it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bertlab.ablation.fairness import flops_of, positions_of
from bertlab.config import PretrainConfig
from bertlab.errors import UserError
from bertlab.finetune_config import FinetuneConfig
from bertlab.models.architecture import Architecture
from bertlab.models.size import flops_per_token
from bertlab.models.task_checks import layers_of
from bertlab.task_config import TaskConfig

# Of an English example: tokens of all its sequences, and bytes of its row in a file.
_TOKENS = {"classification": 50, "regression": 35, "choice": 160, "tagging": 30, "span": 170}
_BYTES = {"classification": 200, "regression": 150, "choice": 400, "tagging": 120, "span": 800}
_CHOICES = 4
_QUESTION = 13  # tokens of a question, of an example's _TOKENS
_EVALUATED = 0.25  # of the number of training examples, where nothing bounds those that are evaluated
_FORWARD = 1 / 3  # of a training step's FLOPs


@dataclass(frozen=True)
class Cost:
    """Of one run."""

    tokens: float
    flops: float


def pretraining_cost(config: PretrainConfig) -> Cost:
    """Of a pretraining; nothing where its budget is in minutes."""
    return Cost(positions_of(config) or 0.0, flops_of(config) or 0.0)


def finetuning_cost(config: FinetuneConfig, architecture: Architecture) -> Cost:
    """Of a fine-tuning, with its evaluations; the tokens are those that it trains on."""
    tuning, task = config.tuning, config.task
    length = _length(task)
    train, evaluated = _examples(config)
    tokens = train * tuning.epochs * length
    evaluations = tuning.epochs / (tuning.evaluate_every or 1.0) + len(task.evaluate)
    encoder = flops_per_token(architecture, max(1, round(min(length, task.max_length))), 0.0, read_share=1.0)
    on_top = _flops_on_top(config, architecture)
    seen = tokens + _FORWARD * evaluated * length * evaluations
    if config.features.kind != "none":  # the encoder is run once, and forward only
        return Cost(tokens, _FORWARD * encoder * (train + evaluated) * length + on_top * seen)
    return Cost(tokens, (encoder + on_top) * seen)


def _length(task: TaskConfig) -> float:
    """Tokens of all sequences of an example; of a long context there are several, which overlap."""
    if task.kind != "span":
        return float(min(_TOKENS[task.kind], task.max_length * (_CHOICES if task.kind == "choice" else 1)))
    question = min(_QUESTION, task.max_query_length) + 3  # with the special tokens
    context, room = _TOKENS["span"] - _QUESTION, max(1, task.max_length - question)
    further = max(0, math.ceil((context - room) / task.stride))
    return float(context + further * (room - task.stride) + (1 + further) * question)


def _examples(config: FinetuneConfig) -> tuple[float, float]:
    """Of training, and of an evaluation."""
    task, tuning = config.task, config.tuning
    if task.format == "probe":
        train, evaluated = float(task.probe.train), float(task.probe.dev)
    else:
        train = _in_file(task)
        evaluated = _EVALUATED * train
    return min(train, tuning.train_examples or train), min(evaluated, tuning.eval_examples or evaluated)


def _in_file(task: TaskConfig) -> float:
    from bertlab.tasks.discovery import find_files

    try:
        found = find_files(task)
        return found["train"].stat().st_size / _BYTES[task.kind]
    except (UserError, KeyError, OSError):
        return 10_000.0


def _flops_on_top(config: FinetuneConfig, architecture: Architecture) -> float:
    """Training FLOPs a token of a BiLSTM on top."""
    if config.features.kind != "none":
        states = {"concat_last_4": 4, "concat_all": layers_of(architecture)}.get(config.features.kind, 1)
        return _bilstm(states * architecture.hidden, config.features.hidden // 2, config.features.layers)
    if config.head.bilstm:
        width = config.head.bilstm_hidden or architecture.hidden // 2
        return _bilstm(config.head.layers * architecture.hidden, width, config.head.bilstm_layers)
    return 0.0


def _bilstm(inputs: int, width: int, layers: int) -> float:
    """Six FLOPs for each weight of both directions."""
    first = 2 * 4 * width * (inputs + width)
    return 6.0 * (first + (layers - 1) * 2 * 4 * width * (2 * width + width))
