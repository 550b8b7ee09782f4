"""Reader of Hugging Face ``datasets`` as tasks: an id on the hub, a folder of data files, or one that the library saved.

An optional extra: the library is imported when a task asks for it, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertlab.data.hub import open_dataset
from bertlab.errors import UserError
from bertlab.task_config import TaskConfig
from bertlab.tasks.rows import Row, Table

# What the hub calls the splits, unless task.files says otherwise.
_NAMES = {
    "train": ["train"],
    "dev": ["validation", "validation_matched", "dev", "valid"],
    "dev_mismatched": ["validation_mismatched"],
    "test": ["test"],
    "test_matched": ["test_matched"],
    "test_mismatched": ["test_mismatched"],
}


class Dataset:
    """A data set whose splits are known, and read when they are asked for."""

    def __init__(self, task: TaskConfig) -> None:
        """Open it. Raises UserError where the library or the data set cannot be had."""
        if not task.dataset:
            raise UserError(f"task={task.name} needs task.dataset: a data set's id on the hub, or a folder.")
        self._id = task.dataset
        self._content: Mapping[str, Any] = _open(task)
        self._labels = task.labels
        wanted = {split: [*task.files.get(split, ()), *_NAMES.get(split, ())] for split in {**_NAMES, **task.files}}
        found = ((split, next((name for name in names if name in self._content), None)) for split, names in wanted.items())
        self.splits: dict[str, str] = {split: name for split, name in found if name is not None}

    def missing(self, split: str) -> UserError:
        """The error for a split that is not there."""
        present = ", ".join(self._content)
        return UserError(f"task.dataset={self._id} has no split for {split}: it has {present}; name one with 'task.files.{split}=[NAME]'.")

    def table(self, split: str) -> Table:
        """The rows of a split, counted from 1.

        A class is given by its name, as whoever made the data set calls it, or by its number where the task's labels are numbers.
        """
        rows = self._content[self.splits[split]]
        names = {column: _class_names(feature, self._labels) for column, feature in rows.features.items()}
        taken = ({column: _named(value, names[column]) if names[column] else value for column, value in row.items()} for row in rows)
        found = [Row(number + 1, number, values) for number, values in enumerate(taken)]
        return Table(f"{self._id}/{self.splits[split]}", list(rows.column_names), found)


def _open(task: TaskConfig) -> Mapping[str, Any]:
    content = open_dataset("task.dataset", str(task.dataset), task.subset)
    return content if isinstance(content, Mapping) else {"train": content}


def _class_names(feature: Any, labels: Sequence[str]) -> Sequence[str]:
    """The names of a column of classes, or of lists of them; none for any other column."""
    inner = getattr(feature, "feature", feature)  # of a list
    names = list(getattr(inner, "names", None) or ())
    numbers = [str(number) for number in range(len(names))]
    return numbers if set(numbers) <= set(labels) and not set(names) <= set(labels) else names


def _named(value: Any, names: Sequence[str]) -> Any:
    """Classes by name; -1 is the hub's word for an unknown one."""
    if isinstance(value, list):
        return [_named(entry, names) for entry in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
