"""``bertlab score``: anybody's predictions of a task, measured by the code that measures our own runs."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertlab.arguments import Arguments, parse_arguments
from bertlab.errors import UserError, unknown
from bertlab.task_config import TaskConfig

if TYPE_CHECKING:
    from bertlab.tasks.examples import Prediction

_OPTIONS = ("split", "na_prob", "na_prob_threshold", "partial")
_OPTION = re.compile(r"([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
_USAGE = "bertlab score TASK PREDICTIONS [DATA]"


@dataclass
class _Request:
    """What is to be scored."""

    task: str
    predictions: Path
    data: Path | None
    options: dict[str, str]
    overrides: list[str]  # of the task's configuration


def run(words: list[str]) -> int:
    """Print the metrics of a file of predictions as JSON. Returns the exit code."""
    arguments = parse_arguments(words)
    if arguments.help:
        from bertlab.help import show_help

        return show_help("score", arguments)
    if arguments.multirun or arguments.only_prints or arguments.config_name:
        raise UserError(f"score takes no flags but --config-dir and --help: {_USAGE}.")
    request = _request(arguments)
    task = _task(request, arguments)
    _check_files(request)
    print(json.dumps(_score(task, request), indent=2))
    return 0


def _request(arguments: Arguments) -> _Request:
    options: dict[str, str] = {}
    overrides, positional = [], []
    for word in arguments.overrides:
        found = _OPTION.fullmatch(word)
        if found and found[1] in _OPTIONS:
            options[found[1]] = found[2]
        elif found and found[1].startswith("task."):
            overrides.append(word)
        else:
            positional.append(word)
    for word in positional[3:]:
        found = _OPTION.fullmatch(word)
        raise unknown("key", found[1], _OPTIONS) if found else UserError(f"score does not know what to do with {word!r}: {_USAGE}.")
    if len(positional) < 2:
        raise UserError(f"{_USAGE} needs a task's name and a file of predictions.")
    files = [Path(os.path.expanduser(word)) for word in positional[1:]]
    return _Request(positional[0], files[0], files[1] if len(files) > 1 else None, options, overrides)


def _check_files(request: _Request) -> None:
    for file in (request.predictions, request.data):
        if file is not None and not file.exists():
            raise UserError(f"There is no file {str(file)!r}: {_USAGE}.")


def _task(request: _Request, arguments: Arguments) -> TaskConfig:
    """The task's configuration, composed as for a fine-tuning."""
    from bertlab.composition import compose
    from bertlab.schemas import FINETUNE

    words = [f"task={request.task}", "checkpoint=none", *request.overrides]
    return compose(FINETUNE, replace(arguments, overrides=words))[0].config.task


def _score(task: TaskConfig, request: _Request) -> dict[str, Any]:
    from bertlab.tasks.scoring import read_null, scored

    null = request.options.get("na_prob")
    if null and not (task.kind == "span" and task.no_answer):
        raise UserError(f"na_prob is for questions that may have no answer, as in task=squad20; task={task.name} has none.")
    predictions, labels = _predictions(task, request)
    metrics = scored(task, predictions, labels, read_null(Path(null)) if null else None, _threshold(request))
    return {"task": task.name, "examples": len(predictions), **metrics}


def _predictions(task: TaskConfig, request: _Request) -> tuple[list[Prediction], list[str]]:
    from bertlab.config import PathsConfig
    from bertlab.tasks.load import load_files, load_task
    from bertlab.tasks.scoring import joined, predictions_with_gold

    if request.data is None:
        return predictions_with_gold(task, request.predictions)
    if task.format == "probe":
        raise UserError(f"task={task.name} is made from text and has no file: give predictions.jsonl alone, which has the right answers.")
    split = request.options.get("split", "dev")
    if request.data.is_dir():
        data = load_task(replace(task, path=str(request.data)), PathsConfig(), [split])
    else:
        data = load_files(replace(task, held_out=None), {split: request.data}, [split])
    partial = request.options.get("partial", "false")
    if partial not in ("true", "false"):
        raise UserError(f"partial takes true or false, not {partial!r}.")
    return joined(task, request.predictions, data.splits[split], data.labels, partial == "true"), data.labels


def _threshold(request: _Request) -> float:
    written = request.options.get("na_prob_threshold", "1.0")
    try:
        return float(written)
    except ValueError:
        raise UserError(f"na_prob_threshold takes a number, not {written!r}.") from None
