"""Configurations with values changed by their dotted keys, and runs that end where a kill would have ended them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from torch import Tensor

from bertlab.run_files import states
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


def weights_held_after_a_stop(step: int, run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """End ``run`` right after ``step`` and go on: for each step that is logged, how many of the loaded weights are still in memory."""
    with monkeypatch.context() as patch:
        stop_at(step, Killed(), patch)
        with pytest.raises(Killed):
            run()
    loaded: list[weakref.ref[Tensor]] = []
    held: list[int] = []
    load, count = states.load_newest, Bookkeeping._log

    def loading(*arguments: Any, **options: Any) -> states.State | None:
        state = load(*arguments, **options)
        assert state is not None
        loaded.extend(weakref.ref(tensor) for tensor in state["weights"].values())
        return state

    def counting(self: Bookkeeping, *arguments: Any) -> None:
        assert loaded
        held.append(sum(each() is not None for each in loaded))
        count(self, *arguments)

    monkeypatch.setattr(states, "load_newest", loading)
    monkeypatch.setattr(Bookkeeping, "_log", counting)
    run()
    return held
