"""What a fine-tuned run's weights are of: written beside them, and read again as a model that can be used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from bertlab.data.tokenizer import Vocabulary
from bertlab.errors import UserError
from bertlab.files import write_json
from bertlab.finetune_config import FeaturesConfig, HeadConfig
from bertlab.models.bert import Bert
from bertlab.models.task_model import TaskModel
from bertlab.run_files.folder import RunFolder, from_plain
from bertlab.run_files.weight_files import read_weights
from bertlab.task_config import TaskConfig


def describe(run: RunFolder, task: TaskConfig, labels: Sequence[str], model: TaskModel, head: HeadConfig, features: FeaturesConfig) -> None:
    """Write what the weights are of, so that they can be used again: the architecture, the head, the task, its labels."""
    write_json(run.architecture, model.bert.architecture.to_dict())
    write_json(run.task, {"task": asdict(task), "labels": list(labels), "head": asdict(head), "features": asdict(features)})


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model with what using it takes."""

    model: TaskModel  # in evaluation mode, on the CPU
    vocabulary: Vocabulary
    task: TaskConfig
    labels: list[str]
    threshold: float | None  # of a span that may have no answer: the least margin at which there is one


def load_finetuned(run: RunFolder) -> Finetuned:
    """The model of a finished run.

    Raises:
        UserError: the run is not finished, is none of fine-tuning, or is damaged.
    """
    if not run.task.is_file():
        raise UserError(f"{run.path} is no run of bertlab finetune: it has no {run.task.name}.")
    if not run.done:
        raise UserError(f"The run {run.path} is not finished: train it first, with the command that began it.")
    try:
        described: dict[str, Any] = json.loads(run.task.read_text(encoding="utf-8"))
        task = from_plain(TaskConfig, described["task"])
        head, features = from_plain(HeadConfig, described["head"]), from_plain(FeaturesConfig, described["features"])
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise UserError(f"{run.task} is damaged ({type(error).__name__}: {error}): train the run anew.") from error
    weights, architecture = read_weights(run.weights), run.read_architecture()

    def build() -> TaskModel:
        return TaskModel(Bert(architecture), task.kind, len(described["labels"]), head, features)

    try:
        with torch.device("meta"):  # what it would take is compared with what is there before it is taken
            claimed = {name: tensor.shape for name, tensor in build().state_dict().items()}
        if claimed != {name: tensor.shape for name, tensor in weights.items()}:
            raise ValueError("it is not what the weights are of")
        threshold = json.loads(run.result.read_text(encoding="utf-8")).get("threshold")
    except (ValueError, TypeError, AttributeError, RuntimeError, OverflowError) as error:
        raise UserError(f"{run.task} or {run.result.name} is damaged ({type(error).__name__}: {error}): train the run anew.") from error
    model = build()
    model.load_state_dict(weights)
    return Finetuned(model.eval(), Vocabulary.load(run.tokenizer), task, described["labels"], threshold)
