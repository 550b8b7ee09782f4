"""How long a task's sequences must be for text to fit; nothing heavy is imported."""

from __future__ import annotations

from bertlab.errors import UserError
from bertlab.task_config import TaskConfig

LEAST_LENGTH = 8  # tokens: a few words of each of two parts, beside the three special tokens


def room_of_windows(task: TaskConfig) -> int:
    """How many tokens of a context fit at least beside a question and the three special tokens."""
    return task.max_length - 3 - task.max_query_length


def check_lengths(task: TaskConfig) -> None:
    """Refuse lengths that leave no room for text. Raises ``UserError``."""
    if task.max_length < LEAST_LENGTH:
        raise UserError(
            f"task.max_length={task.max_length} leaves no room for text beside the special tokens: set it to {LEAST_LENGTH} or more."
        )
    if task.kind == "span" and room_of_windows(task) < 1:
        raise UserError(
            f"task.max_length={task.max_length} leaves no room for a context beside a question of task.max_query_length="
            f"{task.max_query_length} tokens and three special ones: raise the first or lower the second."
        )
