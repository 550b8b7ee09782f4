"""Objectives: what is predicted, and the loss. One file each; ``objective_of(config)`` gives the one that a configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertlab.config import PretrainConfig
from bertlab.errors import unknown

if TYPE_CHECKING:
    from bertlab.objectives.outcome import Objective


def objective_of(config: PretrainConfig) -> Objective:
    """The objective that ``config.objective`` describes. Raises ``UserError`` for one that does not exist."""
    from bertlab.objectives import ltr, mlm, mlm_nsp, rtl
    from bertlab.objectives.outcome import Objective

    kind, segments = config.objective.kind, config.objective.segments
    modules = {"mlm_nsp": mlm_nsp, "mlm": mlm, "ltr": ltr, "rtl": rtl}
    if kind not in modules:
        raise unknown("objective", kind, modules)
    if segments not in ("auto", "pair", "single"):
        raise unknown("objective.segments", segments, ("auto", "pair", "single"))
    module = modules[kind]
    pair = module.pair if segments == "auto" else segments == "pair"
    return Objective(kind, module.predict, pair, module.loss)
