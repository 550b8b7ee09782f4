"""The step of a fine-tuning: as in pre-training, with the task's loss, rates by layer, and parts that are frozen for a while."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.optim import AdamW

from bertlab.data.task_batch import TaskBatch
from bertlab.finetune_config import FinetuneConfig
from bertlab.models.freezing import set_trained
from bertlab.models.task_model import TaskModel
from bertlab.training.finetune_data import TaskStep
from bertlab.training.metrics import Sums
from bertlab.training.module import TrainingModule
from bertlab.training.optimizers import optimizer_over, task_parameter_groups
from bertlab.training.schedules import Schedule

COUNTED = ("task_loss", "items")


class FinetuneModule(TrainingModule):
    """A task model and its optimizer."""

    def __init__(self, model: TaskModel, config: FinetuneConfig, schedule: Schedule) -> None:
        super().__init__(model, config.optimizer, schedule, config.seed, Sums(counted=COUNTED))
        self.model: TaskModel = model
        self.tuning = config.tuning
        self._stands_in = False

    def configure_optimizers(self) -> AdamW:
        """The optimizer, once the parameters are on their device."""
        return optimizer_over(task_parameter_groups(self.model, self.optimizer, self.tuning), self.optimizer)

    def begin_step(self, batch: TaskStep) -> None:
        """Train the parts whose time has come."""
        set_trained(self.model, self.tuning, self.schedule.share(batch.step, self.elapsed))
        self._stands_in = batch.stands_in

    def loss(self, micro: TaskBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The task's; nothing of an example that only stands in."""
        outcome = self.model.loss(micro)
        if self._stands_in:
            return outcome.loss * 0.0, {name: value * 0 for name, value in outcome.sums.items()}
        return outcome.loss, outcome.sums
