"""What a task model says of every example of a split: each exactly once, on however many ranks, in the order of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from bertlab.data.task_batch import TaskBatch
from bertlab.finetune_config import FinetuneConfig
from bertlab.models import task_losses
from bertlab.models.task_model import TaskModel
from bertlab.task_config import TaskConfig
from bertlab.tasks.answers import Found, find_answers, predictions, tune_threshold
from bertlab.tasks.batching import collate, evaluation_batches
from bertlab.tasks.examples import Prediction
from bertlab.tasks.inputs import Inputs
from bertlab.tasks.metrics import metrics_of
from bertlab.tasks.predictions import gold_of
from bertlab.tasks.squad_metrics import answer_scores
from bertlab.training.finetune_data import Attach
from bertlab.training.metrics import Row
from bertlab.training.progress import ProgressDisplay
from bertlab.training.ranks import Ranks

TOKENS_PER_BATCH = 8192


@dataclass(frozen=True)
class Split:
    """The examples of a split, also as numbers."""

    name: str
    examples: list[Any]
    inputs: Inputs
    attach: Attach | None = None


@dataclass(frozen=True)
class Judged:
    """What comes out for a split, on the first rank."""

    predictions: list[Prediction]  # in the order of the split
    loss: float | None = None  # a mean over what the loss is a sum of; None where it is not known what is right
    threshold: float | None = None  # the margin below which a question was said to have no answer


@dataclass
class _Said:
    """What one rank has to say."""

    rows: dict[int, tuple[Any, list[float] | None]] = field(default_factory=dict)  # example → prediction, scores
    found: list[Found] = field(default_factory=list)  # of a span, instead
    loss: float = 0.0
    items: int = 0


def judge(
    model: TaskModel,
    task: TaskConfig,
    labels: list[str],
    split: Split,
    ranks: Ranks,
    *,
    bf16: bool,
    threshold: float | None = None,
    advance: Callable[[int], None] = lambda examples: None,
) -> Judged | None:
    """Predict a split; None on every rank but the first. The model is left in its mode.

    Args:
        model: on the device that works.
        task: what is predicted.
        labels: classes or tags by index.
        split: its examples.
        ranks: which share the work.
        bf16: whether to compute under autocast.
        threshold: of spans that may have no answer; None tunes it on this very split.
        advance: told how many examples were predicted, again and again.
    """
    said = _said(model, task, labels, split, ranks, bf16, advance)
    everything = ranks.collect(said)
    if not everything:
        return None
    items = sum(one.items for one in everything)
    loss = sum(one.loss for one in everything) / items if items else None
    if task.kind == "span":
        found = sorted((one for each in everything for one in each.found), key=lambda one: one.example)
        if task.no_answer and threshold is None:
            threshold = _tuned(found, split.examples)
        return Judged(predictions(found, split.examples, threshold if task.no_answer else None), loss, threshold)
    rows: dict[int, tuple[Any, list[float] | None]] = {}
    for one in everything:
        rows |= one.rows
    said_of = [
        Prediction(example.id, rows[place][0], gold_of(example, labels), rows[place][1]) for place, example in enumerate(split.examples)
    ]
    return Judged(said_of, loss)


def judge_with_progress(
    config: FinetuneConfig,
    labels: list[str],
    model: TaskModel,
    split: Split,
    ranks: Ranks,
    threshold: float | None = None,
    *,
    shown: bool = False,
) -> Judged | None:
    """The same as ``config`` has it, with a bar where it is ``shown`` and wanted."""
    done = 0
    display = ProgressDisplay(shown and config.trainer.progress and ranks.first, title=f"predicting {split.name}")

    def advance(examples: int) -> None:
        nonlocal done
        done += examples * ranks.world
        display.advance(min(1.0, done / len(split.examples)))

    bf16 = config.trainer.precision == "bf16"
    try:
        return judge(model, config.task, labels, split, ranks, bf16=bf16, threshold=threshold, advance=advance)
    finally:
        display.close()


def figures(task: TaskConfig, labels: list[str], judged: Judged) -> Row:
    """Metrics, and the loss; none where it is not known what is right."""
    if any(prediction.gold is None for prediction in judged.predictions):
        return {}
    return {**({} if judged.loss is None else {"loss": judged.loss}), **metrics_of(task, judged.predictions, labels)}


def _said(
    model: TaskModel, task: TaskConfig, labels: list[str], split: Split, ranks: Ranks, bf16: bool, advance: Callable[[int], None]
) -> _Said:
    """The share of this rank."""
    said, scores = _Said(), _SpanScores()
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
            for batch in _batches(split, ranks):
                on_device = batch.to(device)
                outputs = model.outputs(on_device)
                if _is_labelled(batch):
                    said.loss += float(task_losses.summed_loss(model.kind, outputs.logits, on_device, model.head.crf))
                    said.items += int(task_losses.items(model.kind, on_device))
                if model.kind == "span":
                    scores.add(batch, outputs.logits)
                else:
                    said.rows |= _rows(model, on_device, outputs.logits, labels)
                advance(len(batch.examples))
    finally:
        model.train(was_training)
    if model.kind == "span":
        said.found = scores.answers(split, task)
    return said


def _batches(split: Split, ranks: Ranks) -> Iterator[TaskBatch]:
    for examples in evaluation_batches(split.inputs, TOKENS_PER_BATCH, ranks.rank, ranks.world):
        batch = collate(split.inputs, examples)
        yield batch if split.attach is None else split.attach(batch)


def _is_labelled(batch: TaskBatch) -> bool:
    """Whether it is known of every example what is right."""
    if batch.starts is not None:
        return bool((batch.starts >= 0).all())
    if batch.tags is not None:
        return bool((batch.tags >= 0).all())
    if batch.labels is None:
        return False
    return bool((batch.labels >= 0).all()) if not batch.labels.is_floating_point() else bool(batch.labels.isfinite().all())


def _rows(model: TaskModel, batch: TaskBatch, logits: torch.Tensor, labels: list[str]) -> dict[int, tuple[Any, list[float] | None]]:
    """Example → prediction and scores."""
    examples = batch.examples.tolist()
    said: list[Any] = task_losses.predictions(model.kind, logits, batch, model.head.crf).float().tolist()
    if model.kind == "regression":
        return {example: (value, None) for example, value in zip(examples, said, strict=True)}
    indices = [int(value) for value in said]
    if model.kind == "tagging":
        assert batch.words_per_example is not None
        ends = batch.words_per_example.cumsum(0).tolist()
        tags = [labels[index] for index in indices]
        return {example: (tags[first:end], None) for example, first, end in zip(examples, [0, *ends], ends, strict=False)}
    scores = task_losses.log_probabilities(model.kind, logits, batch).float().cpu()
    if model.kind == "choice":
        of_each = torch.split(scores, batch.sequences_per_example.tolist())
        return {example: (index, part.tolist()) for example, index, part in zip(examples, indices, of_each, strict=True)}
    return {example: (labels[index], row) for example, index, row in zip(examples, indices, scores.tolist(), strict=True)}


class _SpanScores:
    """The scores of tokens, batch by batch."""

    def __init__(self) -> None:
        self._examples: list[np.ndarray[Any, Any]] = []
        self._starts: list[np.ndarray[Any, Any]] = []
        self._ends: list[np.ndarray[Any, Any]] = []

    def add(self, batch: TaskBatch, logits: torch.Tensor) -> None:
        scores = logits.float().cpu().numpy()  # (T, 2)
        self._examples.append(batch.examples.numpy())
        self._starts.append(scores[:, 0])
        self._ends.append(scores[:, 1])

    def answers(self, split: Split, task: TaskConfig) -> list[Found]:
        if not self._examples:
            return []
        examples, starts, ends = (np.concatenate(parts) for parts in (self._examples, self._starts, self._ends))
        return find_answers(split.inputs, examples, starts, ends, split.examples, task.max_answer_length)


def _tuned(found: list[Found], examples: list[Any]) -> float | None:
    """The best threshold for F1, where it is known what is right."""
    golds = [examples[one.example].answers for one in found]
    if any(gold is None for gold in golds):
        return None
    texts = [[answer.text for answer in gold] for gold in golds]
    qualities = [answer_scores(one.text, text, True)[1] for one, text in zip(found, texts, strict=True)]
    return tune_threshold([one.margin for one in found], qualities, [bool(text) for text in texts])[0]
