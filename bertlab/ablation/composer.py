"""The configurations of a plan's runs, by their words: hundreds of runs share a few, so each is composed once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertlab.ablation.task_files import task_named
from bertlab.errors import UserError, located
from bertlab.schemas import C, Schema
from bertlab.task_config import TaskConfig

# What bertlab's own files give does not change while a process lives.
_composed: dict[tuple[str, tuple[str, ...]], Any] = {}


class Composer:
    """Configurations by their words, each composed once. They are shared: nobody is to change one."""

    def __init__(self, config_dir: Path | None) -> None:
        self.config_dir = config_dir
        self._known = _composed if config_dir is None else {}
        self._tasks: dict[str, TaskConfig] = {}

    def prepare(self, schema: Schema[C], commands: Iterable[tuple[str, ...]]) -> None:
        """Compose what is not known yet, all at once; what cannot be composed is left for ``config`` to tell where it stands."""
        from bertlab.composition import compose_all

        new = [words for words in dict.fromkeys(commands) if (schema.name, words) not in self._known]
        try:
            for words, config in zip(new, compose_all(schema, new, self.config_dir) if new else [], strict=True):
                self._known[schema.name, words] = config
        except UserError:
            return

    def config(self, schema: Schema[C], words: tuple[str, ...], where: str) -> C:
        """The configuration that ``words`` give. Raises ``UserError`` that says ``where``."""
        from bertlab.composition import compose_all

        if (schema.name, words) not in self._known:
            with located(where):
                (self._known[schema.name, words],) = compose_all(schema, [words], self.config_dir)
        found: C = self._known[schema.name, words]
        return found

    def task(self, name: str) -> TaskConfig:
        """A task as it stands in its file."""
        if name not in self._tasks:
            self._tasks[name] = task_named(name, self.config_dir)
        return self._tasks[name]
