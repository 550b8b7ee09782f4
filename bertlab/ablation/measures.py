"""Which columns a table has with the data at hand: labelled tasks where their files are there, else the probes that stand in for them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace

from bertlab.ablation.grid import Column, Grid
from bertlab.errors import UserError
from bertlab.task_config import TaskConfig


@dataclass(frozen=True)
class Measures:
    """A table's columns, and what is to be said of them."""

    columns: dict[str, Column]
    notes: tuple[str, ...] = ()


def measures_of(
    grid: Grid, tasks: str | None, task_of: Callable[[Column], TaskConfig], with_path: Callable[[Column], TaskConfig]
) -> Measures:
    """The columns of ``grid``, with ``tasks`` the folder of labelled tasks, if there is one.

    Args:
        grid: the table.
        tasks: the folder.
        task_of: the task of a column as it stands in its file.
        with_path: the same, to be looked for in the folder.

    Raises:
        UserError: a column has neither files nor a probe.
    """
    found: dict[str, Column] = {}
    missing: dict[str, str] = {}
    for column in grid.columns.values():
        if column.held_out is not None or task_of(column).format == "probe":
            found[column.name] = column
            continue
        reason = "no folder of labelled tasks is given (tasks=DIR)" if tasks is None else _reason(with_path(column))
        if reason is None:
            found[column.name] = column
        elif column.probe is None:
            raise UserError(f"{grid.path}: columns.{column.name} has no probe that could stand in, and {reason}.")
        else:
            missing[column.name] = reason
            _stand_in(found, column, taken=grid.columns)
    return Measures(found, tuple(_notes(found, missing)))


def _reason(task: TaskConfig) -> str | None:
    """Why a task's files cannot be used; None where they can."""
    if task.format == "huggingface":
        return None
    from bertlab.tasks.discovery import find_files

    try:
        there = find_files(task)
    except UserError as error:
        return str(error).rstrip(".")
    parted = bool(task.held_out) and bool({"train", "dev"} & there.keys())
    lacking = [split for split in ("train", *task.evaluate) if split not in there and not (parted and split in ("train", "dev"))]
    return f"task={task.name} has no file for {' and '.join(lacking)}" if lacking else None


def _stand_in(found: dict[str, Column], column: Column, taken: Container[str]) -> None:
    """Put the probe's column in the place of ``column``; several that it would stand for are one. ``taken``: the file's own columns."""
    for name, other in found.items():
        same = (other.task, other.metric, other.finetune) == (column.probe, column.probe_metric, column.probe_finetune)
        if same and other.stands_for:
            found[name] = replace(other, stands_for=(*other.stands_for, column.name))
            return
    assert column.probe is not None
    names = (column.probe, f"{column.probe}_{column.probe_metric}", f"{column.probe}_{column.name}", f"{column.probe}_for_{column.name}")
    name = next(name for name in names if name not in found and (name not in taken or name == column.name))
    label = column.probe.replace("_", " ").capitalize()
    # Two ways of fine-tuning on one probe, of which each stands for another column, are told apart by that.
    if any((other.label, other.metric) == (label, column.probe_metric) for other in found.values()):
        label = f"{label} for {column.label}"
    found[name] = Column(
        name=name,
        label=label,
        task=column.probe,
        metric=column.probe_metric,
        finetune=column.probe_finetune,
        stands_for=(column.name,),
    )


def _notes(found: dict[str, Column], missing: dict[str, str]) -> Iterable[str]:
    for column in found.values():
        if column.stands_for:
            reasons = dict.fromkeys(missing[name] for name in column.stands_for)
            yield f"{column.task} stands in for {' and '.join(column.stands_for)}: {'; '.join(reasons)}."
