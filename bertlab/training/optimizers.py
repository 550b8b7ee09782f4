"""Adam as BERT was released with, and Adam as it should be; which parameters decay; clipping by the global norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW

from bertlab.config import OptimizerConfig

# A step count at which 1 − β^step is exactly 1 in float32 for every β below 0.9999998, and at which float32 can no longer count on.
BEYOND_CORRECTION = 1e8


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
    """Two groups: matrices (embeddings included) decay, vectors do not: they are the biases and the norms' weights."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in parameters if parameter.dim() >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in parameters if parameter.dim() < 2], "weight_decay": 0.0},
    ]


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
