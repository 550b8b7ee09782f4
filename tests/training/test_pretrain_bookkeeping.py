"""When a pre-training evaluates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from bertlab.config import PretrainConfig
from bertlab.training.pretrain_bookkeeping import PretrainBookkeeping


def evaluated_at(total: int, every: int | None = None, timed: bool = False) -> list[int]:
    """The steps of a run after which an evaluation is due."""
    config = PretrainConfig()
    config.validation.every = every

    def is_due(step: int) -> bool:
        plan = SimpleNamespace(total_steps=None if timed else total)
        bookkeeping = cast(PretrainBookkeeping, SimpleNamespace(config=config, plan=plan, step=step))
        return PretrainBookkeeping.evaluation_is_due(bookkeeping, (step - 1) / total, step / total)

    return [step for step in range(1, total + 1) if is_due(step)]


@pytest.mark.parametrize("total", [1, 7, 19, 20, 21, 30, 39, 40, 41, 999, 1000])
def test_twenty_times_in_equal_parts_of_a_run_the_last_at_its_end(total: int) -> None:
    steps = evaluated_at(total)
    assert len(steps) == min(20, total)
    assert steps[-1] == total
    gaps = [after - before for before, after in zip([0, *steps], steps, strict=False)]
    assert max(gaps) - min(gaps) <= 1


def test_a_budget_of_time_is_parted_alike() -> None:
    assert evaluated_at(256, timed=True) == evaluated_at(256)


def test_as_often_as_is_asked_for() -> None:
    assert evaluated_at(10, every=3) == [3, 6, 9]
