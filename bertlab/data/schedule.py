"""How the budget is parted: the stages of the sequence-length schedule and the steps of each. No heavy imports."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from bertlab.config import BudgetConfig, PretrainConfig, StageConfig
from bertlab.errors import UserError

_SHARE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Stage:
    """A stretch of the training with one sequence length and one batch size."""

    number: int  # from 0
    length: int  # positions of a full sequence
    sequences: int  # in the global batch of a step
    share: float  # of the budget
    first_step: int | None  # None where the budget is in minutes: then the elapsed time decides
    steps: int | None

    @property
    def positions(self) -> int:
        """Positions that a step feeds: what ``budget.tokens`` counts."""
        return self.sequences * self.length


@dataclass(frozen=True)
class TrainingPlan:
    """The stages of a run, in order."""

    stages: list[Stage]
    total_steps: int | None  # None where the budget is in minutes
    minutes: float | None = None

    @property
    def lengths(self) -> list[int]:
        """The sequence lengths that are trained at, each once, ascending."""
        return sorted({stage.length for stage in self.stages if stage.share > 0 and stage.steps != 0})

    def stage_at(self, step: int) -> Stage:
        """The stage of a step (from 0); steps past the end belong to the last stage. Not for a budget in minutes."""
        last = None
        for stage in self.stages:
            if stage.first_step is None or stage.steps is None:
                raise ValueError("with a budget in minutes the stage follows from the elapsed share: use stage_at_share")
            if stage.steps and stage.first_step <= step:
                last = stage
        if last is None:
            raise ValueError(f"no step {step}")
        return last

    def stage_at_share(self, share: float) -> Stage:
        """The stage when this share (0 to 1) of the budget has been used."""
        used = 0.0
        for stage in self.stages:
            used += stage.share
            if share < used - _SHARE_TOLERANCE:
                return stage
        return [stage for stage in self.stages if stage.share > 0][-1]


def plan_training(config: PretrainConfig) -> TrainingPlan:
    """The plan that ``budget``, ``lengths`` and ``batch`` describe.

    Raises:
        UserError: for no budget or several, shares that do not add up to 1, or sizes that are not positive.
    """
    _check_budget(config.budget)
    stages = config.lengths.stages or [StageConfig(share=1.0, length=config.batch.length, sequences=config.batch.sequences)]
    _check_stages(stages)
    sequences = [_sequences(config, stage) for stage in stages]
    total = _total_steps(config.budget, stages, sequences)
    if total is None:
        parts = [Stage(n, s.length, size, s.share, None, None) for n, (s, size) in enumerate(zip(stages, sequences, strict=True))]
        return TrainingPlan(parts, None, config.budget.minutes)
    steps = apportion([stage.share for stage in stages], total)
    parts = [
        Stage(n, stage.length, size, stage.share, sum(steps[:n]), steps[n])
        for n, (stage, size) in enumerate(zip(stages, sequences, strict=True))
    ]
    return TrainingPlan(parts, total)


def apportion(shares: list[float], total: int) -> list[int]:
    """``total`` steps parted by ``shares``: they add up exactly, and no positive share goes without a step if there are enough."""
    edges = [round(sum(shares[:n]) * total) for n in range(len(shares))] + [total]
    steps = [end - start for start, end in pairwise(edges)]
    if total < sum(share > 0 for share in shares):
        return steps
    while any(share > 0 and count == 0 for share, count in zip(shares, steps, strict=True)):
        needy = next(n for n, (share, count) in enumerate(zip(shares, steps, strict=True)) if share > 0 and count == 0)
        steps[steps.index(max(steps))] -= 1
        steps[needy] += 1
    return steps


def _sequences(config: PretrainConfig, stage: StageConfig) -> int:
    if stage.sequences is not None:
        return stage.sequences
    if not config.lengths.keep_tokens:
        return config.batch.sequences
    return max(1, round(config.batch.sequences * config.batch.length / stage.length))


def _total_steps(budget: BudgetConfig, stages: list[StageConfig], sequences: list[int]) -> int | None:
    if budget.minutes is not None:
        return None
    if budget.steps is not None:
        return budget.steps
    assert budget.tokens is not None
    mean_positions = sum(stage.share * size * stage.length for stage, size in zip(stages, sequences, strict=True))
    return max(1, round(budget.tokens / mean_positions))


def _check_budget(budget: BudgetConfig) -> None:
    given = {name: value for name in ("steps", "tokens", "minutes") if (value := getattr(budget, name)) is not None}
    if len(given) != 1:
        found = "none is given" if not given else " and ".join(f"budget.{name}={value}" for name, value in given.items()) + " are given"
        raise UserError(f"The budget is exactly one of budget.steps, budget.tokens and budget.minutes, but {found}: keep one.")
    ((name, value),) = given.items()
    if not value > 0:
        raise UserError(f"budget.{name} must be positive, not {value}.")


def _check_stages(stages: list[StageConfig]) -> None:
    for number, stage in enumerate(stages):
        if stage.share < 0:
            raise UserError(f"lengths.stages[{number}].share must not be negative, but is {stage.share}.")
        if stage.length < 1 or (stage.sequences is not None and stage.sequences < 1):
            raise UserError(f"lengths.stages[{number}] needs a positive length and sequences, not {stage.length} and {stage.sequences}.")
    total = sum(stage.share for stage in stages)
    if abs(total - 1) > _SHARE_TOLERANCE:
        shares = " + ".join(f"{stage.share:g}" for stage in stages)
        raise UserError(f"The shares of lengths.stages must add up to 1, but {shares} = {total:g}: change one of them.")
