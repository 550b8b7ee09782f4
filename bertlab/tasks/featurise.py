"""Examples → the numbers that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertlab.data.tokenizer import Vocabulary
from bertlab.errors import UserError
from bertlab.messages import say as say_to_user
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import TaskData
from bertlab.tasks.inputs import Inputs
from bertlab.tasks.inputs_cache import cached, key_of
from bertlab.tasks.lengths import check_lengths
from bertlab.tasks.sequences import Say, TextTokenizer
from bertlab.tasks.tagging_inputs import tagging_inputs
from bertlab.tasks.text_inputs import choice_inputs, text_inputs
from bertlab.tasks.windows import SpanOptions, span_inputs


def featurise(
    data: TaskData,
    split: str,
    task: TaskConfig,
    vocabulary: Vocabulary,
    cache: Path | None = None,
    *,
    progress: bool = True,
    say: Say = say_to_user,
) -> Inputs:
    """The examples of ``data.splits[split]`` as sequences of at most ``task.max_length`` tokens.

    They are kept in the folder ``cache`` (None: nowhere), whatever file they came from: the same examples are tokenised once.

    Raises:
        UserError: where the task's lengths leave no room for text.
    """
    _check(task)
    examples = data.splits[split]
    options = _options(task)

    def build() -> Inputs:
        tokenizer = TextTokenizer(vocabulary, progress, say)
        if task.kind == "tagging":
            return tagging_inputs(examples, tokenizer, task.max_length, task.document_context)
        if task.kind == "choice":
            return choice_inputs(examples, tokenizer, task.max_length)
        if task.kind == "span":
            return span_inputs(examples, tokenizer, SpanOptions(task.max_length, task.stride, task.max_query_length), progress, say)
        return text_inputs(examples, tokenizer, task.max_length, regression=task.kind == "regression")

    if cache is None:
        return build()
    return cached(cache, key_of({"vocabulary": vocabulary.fingerprint, **options}, _content(examples, task)), build)


def _check(task: TaskConfig) -> None:
    """UserError where no text would fit."""
    check_lengths(task)
    if task.kind != "span":
        return
    for key in ("stride", "max_query_length", "max_answer_length"):
        if (value := getattr(task, key)) < 1:
            raise UserError(f"task.{key}={value} must be at least 1: it is a number of tokens.")


def _options(task: TaskConfig) -> dict[str, Any]:
    """What of the task decides its inputs, beside the examples."""
    keys = {"tagging": ["document_context"], "span": ["stride", "max_query_length"]}.get(task.kind, [])
    return {key: getattr(task, key) for key in ["kind", "max_length", *keys]}


def _content(examples: Sequence[Any], task: TaskConfig) -> Any:
    """What of each example decides its inputs; the same questions under other ids are the same inputs."""
    if task.kind == "tagging":
        # No more of the document can be read than fits.
        reach = task.max_length if task.document_context else 0
        return ((e.words, e.tags, e.before[max(0, len(e.before) - reach) :], e.after[:reach]) for e in examples)
    if task.kind == "choice":
        return ((e.text, e.choices, e.label) for e in examples)
    if task.kind == "span":
        return ((e.question, e.context, (one.text, one.start) if (one := e.learnable) else e.answers and "nowhere") for e in examples)
    return ((e.text, e.pair, e.label) for e in examples)
