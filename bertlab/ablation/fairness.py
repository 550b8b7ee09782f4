"""How much pretraining each row of a table gets, so that rows differ in what they are about and not in how much was spent on them.

``tokens``: as many positions as the baseline. ``flops``: as many FLOPs. ``minutes``: as much time. A row can ask for a multiple of that.
"""

from __future__ import annotations

from collections.abc import Mapping

from bertlab.ablation.meaning import architecture_of
from bertlab.config import BudgetConfig, PretrainConfig
from bertlab.counting import listed
from bertlab.data.schedule import plan_training
from bertlab.errors import UserError
from bertlab.models.size import flops_per_token
from bertlab.validation import is_masked

BUDGETS = ("tokens", "flops", "minutes")


def positions_of(config: PretrainConfig) -> float | None:
    """Positions that a pretraining feeds; None where its budget is in minutes."""
    plan = plan_training(config)
    return None if plan.total_steps is None else float(sum(stage.positions * (stage.steps or 0) for stage in plan.stages))


def flops_of(config: PretrainConfig) -> float | None:
    """Training FLOPs of a pretraining, every position being a token; None where its budget is in minutes."""
    plan, architecture = plan_training(config), architecture_of(config)
    if plan.total_steps is None:
        return None
    predicted = predicted_share(config)
    return sum(stage.positions * (stage.steps or 0) * flops_per_token(architecture, stage.length, predicted) for stage in plan.stages)


def predicted_share(config: PretrainConfig) -> float:
    """The share of the positions that are predicted."""
    return config.masking.rate if is_masked(config) else 1.0


def flops_per_position(config: PretrainConfig) -> float:
    """The mean over the stages of the length schedule, by the positions that each feeds."""
    architecture, predicted = architecture_of(config), predicted_share(config)
    stages = plan_training(config).stages
    fed = [stage.share * stage.positions for stage in stages]
    costs = [flops_per_token(architecture, stage.length, predicted) for stage in stages]
    return sum(part * cost for part, cost in zip(fed, costs, strict=True)) / sum(fed)


def allotted(config: PretrainConfig, baseline: PretrainConfig, budget: str, share: float, minutes: float) -> BudgetConfig:
    """The budget of a row of this ``config``: ``share`` times the baseline's by the measure ``budget``.

    Where the command gives minutes, rows have the same minutes.

    Raises:
        UserError: the command gives minutes, and FLOPs are to be alike: they are counted by positions.
    """
    if baseline.budget.minutes is not None and budget == "flops":
        raise UserError(
            f"--budget flops counts positions, but budget.minutes={baseline.budget.minutes:g} does not set their number: give"
            " budget.tokens or budget.steps, or use --budget minutes."
        )
    if baseline.budget.minutes is not None:
        return BudgetConfig(minutes=baseline.budget.minutes * share)
    if budget == "minutes":
        return BudgetConfig(minutes=minutes * share)
    target = (positions_of(baseline) or 0.0) * share
    if budget == "flops":
        target *= flops_per_position(baseline) / flops_per_position(config)
    # What is written as steps stays so where it comes to the same: the identity of a run is in steps anyway.
    if config.budget.minutes is None and round(target) == round(positions_of(config) or 0.0):
        return config.budget
    return BudgetConfig(tokens=float(round(target)))


def in_words(
    rows: Mapping[str, PretrainConfig], baseline: str, budget: str, shares: Mapping[str, float], sources: Mapping[str, str] | None = None
) -> str:
    """How the rows of a table are alike, as a sentence or two; ``rows`` with their budgets, ``sources`` those that some go on from."""
    said = _alike(rows, baseline, budget, shares)
    for source in dict.fromkeys((sources or {}).values()):
        further = [name for name, other in (sources or {}).items() if other == source]
        said += f" {listed(further)} {'starts' if len(further) == 1 else 'start'} from {source}, whose own pre-training comes on top."
    return said


def _alike(rows: Mapping[str, PretrainConfig], baseline: str, budget: str, shares: Mapping[str, float]) -> str:
    base = rows[baseline]
    others = [f"{name} ×{share:g}" for name, share in shares.items() if share != 1]
    but = f" (except {', '.join(others)})" if others else ""
    if base.budget.minutes is not None:
        return (
            f"Budget: every row is pre-trained for {base.budget.minutes:g} minutes{but}, on as many positions as it can read in that time."
        )
    positions, flops = positions_of(base) or 1.0, flops_of(base) or 1.0
    if budget == "flops":
        fed = _range([(positions_of(config) or 0.0) / positions for config in rows.values()])
        return (
            f"Budget: every row is pre-trained with the same {flops:.3g} FLOPs{but}, on {fed} times the {positions:,.0f} positions of"
            f" {baseline}."
        )
    costs = _range([(flops_of(config) or 0.0) / flops for config in rows.values()])
    at = "" if costs == "1" else f", at {costs} times the FLOPs of {baseline}"
    sentence = f"Budget: every row is pre-trained on the same {positions:,.0f} positions{but}{at}."
    shares_predicted = {predicted_share(config) for config in rows.values()}
    if len(shares_predicted) > 1:
        predicted = _range([100 * share for share in shares_predicted])
        sentence += f" Rows predict {predicted}% of the positions, so they learn from different numbers of words."
    return sentence


def _range(values: list[float]) -> str:
    least, most = f"{min(values):.3g}", f"{max(values):.3g}"
    return least if least == most else f"{least} to {most}"
