"""The tasks that a table names, as their files have them."""

from __future__ import annotations

from pathlib import Path

import yaml

from bertlab.groups import choices
from bertlab.resources import conf_folder
from bertlab.run_files.folder import from_plain
from bertlab.schemas import FINETUNE
from bertlab.task_config import TaskConfig


def task_named(name: str, config_dir: Path | None = None) -> TaskConfig:
    """The task of the choice ``name`` without anything that a command or a table says of it.

    A file of the user's own may build on others and may be wrong: it is composed and checked as ``bertlab finetune`` does it. Those of
    bertlab are as they stand, which takes no time.

    Raises:
        UserError: the user's file cannot be meant.
    """
    file = choices([*([config_dir] if config_dir else []), conf_folder()])["task"][name]
    if file.is_relative_to(conf_folder()):
        return from_plain(TaskConfig, yaml.safe_load(file.read_text(encoding="utf-8")))
    from bertlab.composition import compose_all

    (config,) = compose_all(FINETUNE, [[f"task={name}", "checkpoint=none"]], config_dir)
    FINETUNE.validate(config)
    return config.task
