from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from bertlab.training.health import MARGIN, PATIENCE, STRETCH, Health, not_finite

IGNORANCE = math.log(1000)
BOUND = IGNORANCE + MARGIN


def end_of(
    losses: Iterable[float], log_every: int = 50, predicted: int = 30, warmup: int = 0, resumed_every: int | None = None
) -> int | None:
    """The update after which a run with these losses is stopped, if it is; the sums go the way that they go in a training."""
    health, nats, count = Health(1000), 0.0, 0.0
    for step, loss in enumerate(losses, 1):
        nats, count = nats + loss * predicted, count + predicted
        if health.is_due(step) and (complaint := health.judge(nats, count, warming_up=step < warmup)):
            assert "diverged" in complaint
            return step
        if step % log_every == 0:
            health.add(nats, count)
            nats, count = 0.0, 0.0
        if resumed_every and step % resumed_every == 0:
            health = Health(1000, **health.state())
    return None


def jagged(step: int) -> float:
    """-1 to 1, up and down, from step to step and over hundreds of them."""
    return (math.sin(12.9898 * step) + math.sin(0.07 * step)) / 2


def test_a_model_that_has_learnt_nothing_yet_is_healthy() -> None:
    assert end_of([IGNORANCE + 0.3] * 2500) is None


def test_what_is_no_number_is_told_at_once() -> None:
    assert "loss became nan" in (not_finite("loss", math.nan) or "")
    assert "gradient norm became inf" in (not_finite("gradient norm", math.inf) or "")
    assert not_finite("loss", 3.0) is None
    assert "loss became nan" in (Health(1000).judge(math.nan, 30.0, warming_up=False) or "")


def test_what_was_fine_and_blows_up_is_stopped() -> None:
    assert end_of([IGNORANCE] * 400 + [BOUND + 0.5 + 0.1 * jagged(step) for step in range(1000)]) == 400 + PATIENCE * STRETCH
    # Also where it falls from where it was thrown to, since that is not where it began.
    assert end_of([IGNORANCE] * 400 + [BOUND + 30 - step / 100 for step in range(1000)]) == 400 + PATIENCE * STRETCH
    # Whoever blows up within the first stretch began well, too.
    assert end_of([IGNORANCE] + [BOUND + 90 - step / 100 for step in range(1000)]) == PATIENCE * STRETCH


def test_a_bad_while_that_ends_is_none() -> None:
    while_bad = [BOUND + 0.5] * (STRETCH * (PATIENCE - 1)) + [IGNORANCE] * STRETCH
    assert end_of([IGNORANCE] * STRETCH + while_bad * 5) is None


def test_what_begins_high_and_falls_goes_on() -> None:
    assert end_of([BOUND + 4 - step / 400 + 0.2 * jagged(step) for step in range(2000)]) is None


@pytest.mark.parametrize("slope", [0.0, 1 / 400], ids=["stays", "rises"])
def test_what_begins_high_and_does_not_fall_is_stopped(slope: float) -> None:
    end = end_of([BOUND + 2 + slope * step + 0.2 * jagged(step) for step in range(2000)])
    assert end is not None
    assert end <= 4 * PATIENCE * STRETCH  # noise reaches new lows now and then


def test_a_rate_that_still_rises_need_not_have_brought_a_high_loss_down() -> None:
    losses = [BOUND + 2.0] * 1000 + [BOUND + 2 - step / 100 for step in range(1000)]
    assert end_of(losses, warmup=1000) is None
    assert end_of(losses) == (PATIENCE + 1) * STRETCH - STRETCH  # the first update is the low that the stretches do not get below
    assert end_of([IGNORANCE] * 100 + losses, warmup=1000) == 100 + PATIENCE * STRETCH  # what began well counts from the beginning


@pytest.mark.parametrize("log_every", [1, 7, 20, 50, 1000])
def test_how_often_is_logged_and_resumed_decides_nothing(log_every: int) -> None:
    """Losses that leave the bound and come back within fewer updates than some of these log at once, then are thrown out."""
    for low in (-0.4, -0.1):
        losses = [BOUND + low + 0.5 * jagged(step) + (step > 1200) for step in range(2000)]
        assert end_of(losses, log_every) == end_of(losses, 1) == end_of(losses, log_every, resumed_every=33)
    assert end_of(losses, log_every) is not None
