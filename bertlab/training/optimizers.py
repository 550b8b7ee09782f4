"""Adam as BERT was released with and Adam as it should be; which parameters decay; rates in fine-tuning; clipping by the global norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW

from bertlab.config import OptimizerConfig
from bertlab.finetune_config import TuningConfig
from bertlab.models.freezing import lowest_trained, parameters_of, parts_of
from bertlab.models.task_model import TaskModel

# A step count at which 1 − β^step is exactly 1 in float32 for every β below 0.9999998, and at which float32 can no longer count on.
BEYOND_CORRECTION = 1e8

# Times the rate of everything else. A CRF's scores and the weights of a mix of layers are differences of log-odds, of the order of 1; Adam
# moves a weight by about the rate each step, and a few thousand steps at BERT's 5e-5 would leave them at zero, which is no CRF and a mean.
LOG_ODDS_SCALE = 20.0


class BertAdam(AdamW):
    """The released recipe: Adam without bias correction, decoupled weight decay.

        m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   θ ← θ − lr · (m / (√v + ε) + λ θ)

    This is AdamW at an infinite step count, so torch's fused kernel does it once the count is set high enough to stay there.
    """

    def __init__(self, groups: list[dict[str, Any]], **options: Any) -> None:
        super().__init__(groups, **options)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter] = {
                    "step": torch.full((), BEYOND_CORRECTION, dtype=torch.float32, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: the parameters that decay, and those that do not."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in parameters if _decays(parameter)], "weight_decay": weight_decay},
        {"params": [parameter for parameter in parameters if not _decays(parameter)], "weight_decay": 0.0},
    ]


def task_parameter_groups(model: TaskModel, optimizer: OptimizerConfig, tuning: TuningConfig) -> list[dict[str, Any]]:
    """Groups for an optimizer, of all that will ever be trained; unfrozen later or now makes no difference.

    Besides "params" and "weight_decay" each has a "name" and a "scale", by which the scheduled learning rate is to be multiplied: 1 for
    the head, ``layer_decay`` for the highest layer, its square for the next one, down to the embeddings; more than 1 for a CRF and for
    the weights of a mix of layers.
    """
    parts = parts_of(model.bert)
    lowest = len(parts) if model.is_frozen else lowest_trained(tuning, len(parts))
    log_odds = {
        "crf": [] if model.head.crf is None else list(model.head.crf.parameters()),
        "mix of layers": [] if model.head.mix is None else [model.head.mix.weights],
    }
    rates = [
        ("embeddings" if number == 0 else f"layer {number}", tuning.layer_decay ** (len(parts) - number), parameters_of(modules))
        for number, modules in enumerate(parts)
        if number >= lowest
    ]
    faster = {id(parameter) for parameters in log_odds.values() for parameter in parameters}
    rates += [("head", 1.0, [each for each in model.head_parameters() if id(each) not in faster])]
    rates += [(name, LOG_ODDS_SCALE, parameters) for name, parameters in log_odds.items()]
    groups: dict[tuple[float, bool], dict[str, Any]] = {}
    for name, scale, parameters in rates:
        for decays in (True, False):
            chosen = [parameter for parameter in parameters if _decays(parameter) == decays]
            if chosen:
                decay = optimizer.weight_decay if decays else 0.0
                group = groups.setdefault((scale, decays), {"params": [], "weight_decay": decay, "scale": scale, "name": []})
                group["params"] += chosen
                group["name"].append(name)
    return [group | {"name": ", ".join(group["name"])} for group in groups.values()]


def _decays(parameter: nn.Parameter) -> bool:
    """Matrices do, embeddings included; vectors do not: they are biases, and the weights of norms."""
    return parameter.dim() >= 2


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> AdamW:
    """The optimizer that ``config`` names, over the parameters of ``model`` where they lie now."""
    return optimizer_over(parameter_groups(model, config.weight_decay), config)


def optimizer_over(groups: list[dict[str, Any]], config: OptimizerConfig) -> AdamW:
    """The optimizer that ``config`` names, over groups of parameters that say themselves how much they decay."""
    kind: type[AdamW] = BertAdam if config.kind == "bert_adam" else AdamW
    return kind(
        groups,
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )


def clip(optimizer: AdamW, parameters: Iterable[nn.Parameter], bound: float | None) -> Tensor:
    """Have the optimizer's next step use gradients of global norm at most ``bound``; returns the norm, () on the device.

    The division happens inside the fused step, which saves a pass over all gradients, and never waits for the device.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
    if isinstance(norm, DTensor):  # of gradients that are parted among processes
        norm = norm.full_tensor()
    if bound is not None:
        optimizer.grad_scale = (norm / bound).clamp(min=1.0)  # type: ignore[attr-defined]  # the fused kernel reads it
    return norm
