"""One optimizer step on Lightning's terms: the gradient of the global batch, clipped, and Adam at the schedule's rate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from bertlab.config import OptimizerConfig, PretrainConfig
from bertlab.data.batches import Batch
from bertlab.errors import RunFailed
from bertlab.models.dropout import seed_dropout
from bertlab.training import lightning
from bertlab.training.metrics import Sums
from bertlab.training.optimizers import clip, make_optimizer
from bertlab.training.parted import part
from bertlab.training.schedules import Schedule

if TYPE_CHECKING:
    from bertlab.models.bert import Bert
    from bertlab.objectives.outcome import Objective


class Step(Protocol):
    """The share of one rank in the global batch of a step."""

    step: int
    micro_batches: list[Any]  # whose gradients are summed

    @property
    def positions_in_step(self) -> int:
        """Of the global batch."""

    @property
    def tokens_in_step(self) -> int:
        """Of the global batch."""


class TrainingModule(lightning.LightningModule, ABC):
    """A model, its loss and its optimizer.

    Optimisation is manual, so that micro-batches, ranks and clipping do exactly what is written here. Nothing in a step waits for a GPU:
    losses add up in ``sums`` on the device, and whoever logs reads them there.
    """

    def __init__(self, model: nn.Module, optimizer: OptimizerConfig, schedule: Schedule, seed: int, sums: Sums) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self.optimizer = optimizer
        self.schedule = schedule
        self.seed = seed
        self.sums = sums
        self.elapsed = 0.0  # seconds of training before this step: what a schedule over time follows
        self.rate = 0.0  # learning rate of the newest step
        self._trained: list[nn.Parameter] = []  # known once they are on their devices

    @abstractmethod
    def loss(self, micro: Any) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The micro-batch's share of the step's loss (divided by the counts of the whole global batch), and what ``sums`` counts."""

    def begin_step(self, batch: Any) -> None:
        """What is to be done before the gradients of a step."""

    def on_fit_start(self) -> None:
        """Note what is trained, once the parameters are where they stay."""
        self._trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def configure_optimizers(self) -> AdamW:
        """The optimizer, once the parameters are on their device."""
        return make_optimizer(self.model, self.optimizer)

    @property
    def adam(self) -> AdamW:
        """The optimizer without Lightning's wrapper, whose counters nothing here reads."""
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, AdamW)
        return optimizer

    def transfer_batch_to_device(self, batch: Step, device: torch.device, dataloader_idx: int) -> Step:
        """Move the micro-batches without waiting; on a CPU there is nothing to do."""
        if device.type != "cpu":
            batch.micro_batches = [micro.to(device, non_blocking=True) for micro in batch.micro_batches]
        return batch

    def training_step(self, batch: Step, batch_idx: int) -> None:
        """Sum the gradients of the micro-batches and update the weights."""
        optimizer = self.adam
        self.begin_step(batch)
        self._accumulate(batch)
        norm = clip(optimizer, self._trained, self.optimizer.clip)
        self.sums.add_update(norm)
        if norm.device.type == "cpu" and not math.isfinite(float(norm)):
            raise RunFailed(f"the gradient norm became {float(norm)}")
        self.rate = self.schedule.rate(batch.step, self.elapsed)
        for group in optimizer.param_groups:
            group["lr"] = self.rate * group.get("scale", 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def _accumulate(self, batch: Step) -> None:
        # Each loss is divided by the counts of the whole global batch. Ranks average their gradients, so what they are to add up to is
        # multiplied by their number first.
        world = self.trainer.world_size
        last = len(batch.micro_batches) - 1
        for index, micro in enumerate(batch.micro_batches):
            seed_dropout(self.seed, batch.step, micro.place)
            loss, sums = self.loss(micro)
            loss = loss * world if world > 1 else loss
            if index < last:
                self._backward_alone(loss)
            else:
                self.manual_backward(loss)
            self.sums.add(sums)

    def _backward_alone(self, loss: Tensor) -> None:
        """A backward pass whose gradients this rank keeps to itself until the last micro-batch of the step."""
        block: Any = getattr(self.trainer.strategy, "block_backward_sync", None)
        if self.trainer.world_size == 1 or block is None:
            self.manual_backward(loss)
            return
        with block():
            self.manual_backward(loss)


class PretrainModule(TrainingModule):
    """A model, its objective and its optimizer."""

    def __init__(self, model: Bert, objective: Objective, config: PretrainConfig, schedule: Schedule) -> None:
        super().__init__(model, config.optimizer, schedule, config.seed, Sums())
        self.model: Bert = model
        self.objective = objective
        self._parts = config.trainer.strategy == "fsdp"

    def configure_model(self) -> None:
        """Part the weights among the devices, where that is asked for; called once they have met."""
        if self._parts:
            assert self.device_mesh is not None
            part(self.model, self.device_mesh["data_parallel"])

    def loss(self, micro: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The objective's."""
        outcome = self.objective.loss(self.model, micro)
        return outcome.loss, outcome.sums
