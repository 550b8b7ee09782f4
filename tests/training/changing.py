"""Configurations with values changed by their dotted keys, and runs that end where a kill would have ended them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bertlab.training.bookkeeping import Bookkeeping


def change(config: object, changes: Mapping[str, object]) -> None:
    """Set ``{"tuning.micro": 4}`` in a configuration."""
    for key, value in changes.items():
        *path, name = key.split(".")
        holder = config
        for part in path:
            holder = getattr(holder, part)
        setattr(holder, name, value)


class Killed(Exception):
    """Stands for a kill."""


def stop_at(step: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a run end right after ``step``, as a kill would: nothing more is written."""
    after_step = Bookkeeping.on_train_batch_end

    def stopping(self: Bookkeeping, *arguments: Any) -> None:
        after_step(self, *arguments)
        if self.step == step:
            raise error

    monkeypatch.setattr(Bookkeeping, "on_train_batch_end", stopping)
