"""Weights that are parted among the processes of a run (FSDP2): parting them, making them whole, and taking over saved ones.

Each layer is parted by itself, so that a device holds no more than the layers at work whole; what is left (embeddings, heads) is parted
together. A tensor is parted by its rows, its first dimension: of n rows each of W processes holds ⌈n / W⌉ that follow each other, the last
ones fewer.

How their rows are kept beside a saved state is the subject of ``bertlab.run_files.parted_rows``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from bertlab.models.bert import Bert
from bertlab.run_files.parted_rows import Rows


def part(model: Bert, mesh: DeviceMesh) -> None:
    """Have each process of ``mesh`` hold its rows of every weight; gradients and the optimizer's state will be parted alike."""
    for layer in model.backbone.parts():
        for module in layer:
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)


def rest(model: nn.Module) -> None:
    """Give back what was made whole for an evaluation; nothing happens to a model that is not parted."""
    if isinstance(model, FSDPModule):
        model.reshard()


def whole(weights: Mapping[str, Tensor], *, first: bool) -> dict[str, Tensor]:
    """The whole tensors on the CPU, on the ``first`` process; an empty dictionary on the others, which have to ask at the same time."""
    found = {}
    for name, tensor in weights.items():
        value = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if first:
            found[name] = value.detach().cpu()
    return found


def load_weights(model: nn.Module, weights: Mapping[str, Any]) -> None:
    """Take over ``weights``, whole or as rows on the disk, however this model is parted."""
    targets = model.state_dict()
    if not any(isinstance(target, DTensor) for target in targets.values()):
        model.load_state_dict(weights)
        return
    for name, target in targets.items():
        (target.to_local() if isinstance(target, DTensor) else target).copy_(_own_rows(weights[name], target))


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """The same of an optimizer's state."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    fitting = {index: {key: _like(parameters[index], value) for key, value in values.items()} for index, values in state["state"].items()}
    optimizer.load_state_dict({**state, "state": fitting})


def _like(parameter: Tensor, value: Any) -> Any:
    """``value`` parted as the parameter that it belongs to; a count stays what it is."""
    if not isinstance(parameter, DTensor) or value.dim() == 0:
        return value
    local = _own_rows(value, parameter).to(parameter.device)
    return DTensor.from_local(
        local, parameter.device_mesh, parameter.placements, run_check=False, shape=parameter.shape, stride=parameter.stride()
    )


def _own_rows(value: Any, target: Tensor) -> Tensor:
    """What of ``value`` belongs to this process."""
    if not isinstance(target, DTensor):
        return value.between(0, len(value)) if isinstance(value, Rows) else value
    size = -(-len(target) // target.device_mesh.size())
    first = min(len(target), size * target.device_mesh.get_local_rank())
    end = min(len(target), first + size)
    return value.between(first, end) if isinstance(value, Rows) else value[first:end]
