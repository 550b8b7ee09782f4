"""Predictions in the form in which a task's official server takes them: GLUE's TSV files, SQuAD's JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bertlab.errors import UserError
from bertlab.files import is_plain_name, write_atomically
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import Prediction


def write_submission(folder: Path, task: TaskConfig, split: str, predictions: Sequence[Prediction]) -> Path:
    """Write the predictions of ``split`` into ``folder``, under the name that ``task.submission`` gives it; returns the file.

    Raises:
        UserError: the task has no form for this split.
    """
    if split not in task.submission:
        known = ", ".join(task.submission) or "none"
        raise UserError(f"task={task.name} has no form for submitting {split} (task.submission has {known}).")
    name = task.submission[split]
    if not is_plain_name(name):
        raise UserError(f"task.submission.{split}={name}: it takes the name of a file, which is put into the run's folder.")
    path = folder / name
    write_atomically(path, _answers(predictions) if task.kind == "span" else _table(task, predictions))
    return path


def _answers(predictions: Sequence[Prediction]) -> str:
    return json.dumps({prediction.id: prediction.prediction for prediction in predictions}, ensure_ascii=False) + "\n"


def _table(task: TaskConfig, predictions: Sequence[Prediction]) -> str:
    lines = [f"{prediction.id}\t{_shown(task, prediction)}\n" for prediction in predictions]
    return "".join(["index\tprediction\n", *lines])


def _shown(task: TaskConfig, prediction: Prediction) -> str:
    value = prediction.prediction
    if task.kind == "regression" and not isinstance(value, list):
        return f"{float(value):.3f}"
    return str(value)
