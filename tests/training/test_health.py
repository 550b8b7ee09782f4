from __future__ import annotations

import math

from bertlab.training.health import MARGIN, PATIENCE, Health

IGNORANCE = math.log(1000)


def test_a_model_that_has_learnt_nothing_yet_is_healthy() -> None:
    health = Health(vocabulary=1000)
    assert all(health.complaint(IGNORANCE, IGNORANCE + 0.3, 1.0) is None for _ in range(50))


def test_what_is_no_number_is_told_at_once() -> None:
    assert "loss" in (Health(1000).complaint(math.nan, math.nan, 1.0) or "")
    assert "gradient norm" in (Health(1000).complaint(3.0, 3.0, math.inf) or "")


def test_divergence_takes_several_windows_in_a_row() -> None:
    bad, good = IGNORANCE + MARGIN + 0.1, IGNORANCE
    health = Health(1000)
    for _ in range(5):
        assert [health.complaint(loss, loss, 1.0) for loss in [bad] * (PATIENCE - 1) + [good]] == [None] * PATIENCE
    told = [health.complaint(bad, bad, 1.0) for _ in range(PATIENCE)]
    assert told[:-1] == [None] * (PATIENCE - 1)
    assert "diverged" in (told[-1] or "")
