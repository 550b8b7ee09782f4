"""Which weights of a task model are trained, and when; which start anew. At what rate they are is said by ``training.optimizers``.

The model is seen as parts, from the lowest: the embeddings, layers 1 to L (a final norm is layer L's), and above them the head, with the
pooler, which is always trained.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from bertlab.finetune_config import TuningConfig
from bertlab.models.bert import Bert
from bertlab.models.initialisation import start_anew
from bertlab.models.task_model import TaskModel


def parts_of(bert: Bert) -> list[list[nn.Module]]:
    """The modules of the embeddings, then of layers 1 to L."""
    return [[bert.embeddings], *bert.backbone.parts()]


def lowest_trained(tuning: TuningConfig, parts: int, share: float = 1.0) -> int:
    """The lowest of ``parts`` (embeddings, layers 1 to L) that is trained once this ``share`` (0 to 1) of the training is done.

    Under ``gradual`` nothing but the head is trained at first; in the first two thirds of the training one part after another joins it,
    from the top, at equal distances (Howard and Ruder 2018). ``parts`` itself means that none is trained.
    """
    frozen = tuning.frozen_layers + 1 if tuning.frozen_layers else int(tuning.freeze == "embeddings")
    frozen = parts if tuning.freeze == "encoder" else min(frozen, parts)
    if not tuning.gradual:
        return frozen
    joined = int(1.5 * share * (parts - frozen) + 1e-9)  # a third of a half is a sixth, whatever the rounding
    return max(frozen, parts - joined)


def set_trained(model: TaskModel, tuning: TuningConfig, share: float = 0.0) -> int:
    """Have exactly those parts trained that ``tuning`` wants once this ``share`` (0 to 1) of the training is done.

    Cheap enough to be called before every step. Frozen parts take no time in the backward pass. DistributedDataParallel has to be made
    when all that will ever be trained is, that is at share 1, and to look for parameters without a gradient. Returns how many of the
    layers and the embeddings are trained.
    """
    parts = parts_of(model.bert)
    lowest = len(parts) if model.is_frozen else lowest_trained(tuning, len(parts), share)
    changed = False
    for number, modules in enumerate(parts):
        for parameter in parameters_of(modules):
            changed |= parameter.requires_grad != (number >= lowest)
            parameter.requires_grad_(number >= lowest)
            if number < lowest:
                parameter.grad = None
    if changed:
        model.train(model.training)  # batch norms: a frozen one's statistics stay as they are
    return len(parts) - lowest


def reinitialise(bert: Bert, layers: int) -> None:
    """Have the highest ``layers`` layers and, if there are any, the pooler start anew (Zhang et al. 2021).

    To be called before a ``TaskModel`` is built on it or after; draws from PyTorch's global generator.
    """
    if layers == 0:
        return
    modules: Iterable[nn.Module] = [module for part in bert.backbone.parts()[-layers:] for module in part]
    for module in [*modules, *([] if bert.pooler is None else [bert.pooler])]:
        start_anew(module, bert.architecture.initializer_range)


def parameters_of(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """All of these modules' parameters."""
    return [parameter for module in modules for parameter in module.parameters()]
