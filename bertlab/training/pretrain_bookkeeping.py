"""What pre-training puts into its rows, when it evaluates, and what its saved states hold besides the usual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bertlab.config import PretrainConfig
from bertlab.data.batches import Batch, StepBatch
from bertlab.data.schedule import TrainingPlan
from bertlab.run_files.states import State
from bertlab.training import lightning
from bertlab.training.bookkeeping import Bookkeeping, Surroundings
from bertlab.training.evaluate import held_out_figures
from bertlab.training.health import Health, not_finite
from bertlab.training.loader import StageLoader
from bertlab.training.metrics import Row, losses
from bertlab.training.module import PretrainModule
from bertlab.training.parted import rest

EVALUATIONS = 20  # in a run, where validation.every says nothing


@dataclass
class PretrainSurroundings(Surroundings):
    """What the bookkeeping of a pre-training needs besides."""

    config: PretrainConfig
    plan: TrainingPlan
    stages: StageLoader
    validation: Callable[[int], list[Batch]]  # the held-out batches of a length
    flops_per_token: Callable[[int], float]  # of a training step at a length
    vocabulary: int


class PretrainBookkeeping(Bookkeeping):
    """The bookkeeping of a pre-training."""

    around: PretrainSurroundings

    def __init__(self, surroundings: PretrainSurroundings) -> None:
        super().__init__(surroundings)
        self.config, self.plan = surroundings.config, surroundings.plan
        self.health = Health(surroundings.vocabulary)
        self._validation: dict[int, list[Batch]] = {}

    def training_figures(self, batch: StepBatch, sums: Mapping[str, float]) -> Row:
        """Positions so far, the length, losses and accuracies."""
        return {"positions": self.speed.total.positions, "length": batch.length, **losses(sums)}

    def complaint(self, row: Row) -> str | None:
        """Numbers that are not finite."""
        return not_finite("loss", row["loss"]) or not_finite("gradient norm", row["gradient_norm"])

    def taken(self, sums: Mapping[str, float]) -> None:
        """What a row takes belongs to the stretch of updates that is judged next, too."""
        self.health.add(sums["language_loss"], sums["predicted"])

    def illness(self, module: PretrainModule, share: float) -> str | None:
        """A loss that stays far worse than knowing nothing, judged at steps of its own: ``trainer.log_every`` decides nothing."""
        if not self.health.is_due(self.step):
            return None
        since_the_row = dict(zip(module.sums.names, self.ranks.gather(module.sums.values).sum(0).tolist(), strict=True))
        warming_up = share < module.schedule.warmup
        return self.health.judge(since_the_row["language_loss"], since_the_row["predicted"], warming_up=warming_up)

    def flops(self, batch: StepBatch) -> float:
        """Of the model's mathematics for the real tokens, as if each sequence were of the stage's length and predicted at the masking rate.

        So is MFU. The share of predicted tokens is a little lower, as [CLS] and [SEP] are never chosen, and in shorter sequences attention
        takes less: MFU is a little too high, by up to 7% in a tiny model on short sequences, by less than 1% in BERT-base.
        """
        return self.around.flops_per_token(batch.length) * batch.tokens_in_step

    def evaluation_is_due(self, before: float, share: float) -> bool:
        """Every ``validation.every`` steps, or whenever another twentieth of the budget is used."""
        every, total = self.config.validation.every, self.plan.total_steps
        if every is not None:
            return self.step % every == 0
        if total is not None:  # by whole numbers: shares are rounded
            return self.step * EVALUATIONS // total > (self.step - 1) * EVALUATIONS // total
        return int(share * EVALUATIONS) > int(before * EVALUATIONS)

    def evaluate(self, trainer: lightning.Trainer, module: PretrainModule) -> None:
        """A row for each length."""
        for length in self.config.validation.lengths or self.plan.lengths:
            if length not in self._validation:
                self._validation[length] = self.around.validation(length)
            context = trainer.precision_plugin.forward_context()
            figures = held_out_figures(module.model, module.objective, self._validation[length], context, world=self.ranks.world)
            if self.ranks.first:
                self.write(self.rows, {"step": self.step, "split": "held_out", "length": length, **figures})
        rest(module.model)

    def more_state(self) -> State:
        """How the loss has been, and where the stages of a budget of time began."""
        # A worker may have begun the next stage ahead of the training.
        begun = {stage: first for stage, first in self.around.stages.begun.items() if first < self.step}
        return {"health": self.health.state(), "begun": begun}

    def restore_more(self, state: State) -> None:
        """The loader has taken the stages' beginnings already."""
        self.health = Health(self.health.vocabulary, **state.get("health", {}))  # older states have none: it begins anew
