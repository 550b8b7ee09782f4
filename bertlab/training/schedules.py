"""The learning rate over a run: a linear rise, then a linear fall whose slope counts from the very first step."""

from __future__ import annotations

from dataclasses import dataclass

from bertlab.config import OptimizerConfig


@dataclass(frozen=True)
class Schedule:
    """The learning rate as a function of the step, or of the time where the budget is one of time.

    With ``total_steps`` N and W = round(warmup · N), the update that follows s earlier ones uses

        lr · s / W        while s < W
        lr · (1 − s / N)  afterwards

    as the released optimization.py does: the first update of a run with warm-up has rate 0, and the fall starts from
    1 − W / N, not from 1. With a budget of time, s / N is the share of the time that has gone.
    """

    peak: float
    warmup: float  # share of the budget
    decay: str  # linear | constant
    total_steps: int | None  # None: the budget is ``total_seconds``
    total_seconds: float | None = None

    @classmethod
    def of(cls, optimizer: OptimizerConfig, total_steps: int | None, minutes: float | None) -> Schedule:
        """The schedule of a run with ``total_steps`` steps, or with ``minutes`` of training where that is None."""
        return cls(optimizer.lr, optimizer.warmup, optimizer.decay, total_steps, None if minutes is None else 60.0 * minutes)

    def share(self, step: int, elapsed: float) -> float:
        """How much of the budget is used before update ``step`` (from 0), after ``elapsed`` seconds of training: 0 to 1."""
        if self.total_steps is not None:
            return step / self.total_steps
        assert self.total_seconds is not None
        return min(1.0, elapsed / self.total_seconds)

    def rate(self, step: int, elapsed: float = 0.0) -> float:
        """The learning rate of update ``step`` (from 0)."""
        share = self.share(step, elapsed)
        if self.total_steps is not None:
            warmup_steps = round(self.warmup * self.total_steps)
            if step < warmup_steps:
                return self.peak * step / warmup_steps
        elif share < self.warmup:
            return self.peak * share / self.warmup
        return self.peak * (1.0 - share) if self.decay == "linear" else self.peak
