"""What the tests of tasks' files share: a task from conf/task, and small files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from bertlab.config import PathsConfig
from bertlab.resources import conf_folder
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import TaskData
from bertlab.tasks.load import load_task


def configured(name: str, **changed: Any) -> TaskConfig:
    """The task ``name`` of conf/task, with some keys changed."""
    merged = OmegaConf.merge(
        OmegaConf.structured(TaskConfig), OmegaConf.load(conf_folder() / "task" / f"{name}.yaml"), OmegaConf.create(changed)
    )
    task = OmegaConf.to_object(merged)
    assert isinstance(task, TaskConfig)
    return task


def load(task: TaskConfig, *splits: str) -> TaskData:
    """Read some splits."""
    return load_task(task, PathsConfig(), splits or ("train", "dev"))


def write(path: Path, *lines: str) -> Path:
    """Lines of a file, each ended by a line feed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def write_rows(path: Path, *rows: Sequence[str]) -> Path:
    """Rows of tab-separated columns."""
    return write(path, *("\t".join(row) for row in rows))


def write_objects(path: Path, *objects: dict[str, Any]) -> Path:
    """JSON lines."""
    return write(path, *(json.dumps(value, ensure_ascii=False) for value in objects))
