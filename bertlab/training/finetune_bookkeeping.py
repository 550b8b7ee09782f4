"""What fine-tuning puts into its rows, when it evaluates, which weights are the best, and when it stops early."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bertlab.finetune_config import TuningConfig
from bertlab.models.task_model import TaskModel
from bertlab.run_files.states import State
from bertlab.run_files.weight_files import write_weights
from bertlab.training import lightning
from bertlab.training.bookkeeping import Bookkeeping, Surroundings
from bertlab.training.finetune_data import TaskStep
from bertlab.training.finetune_module import FinetuneModule
from bertlab.training.metrics import Row
from bertlab.training.ranks import Ranks


@dataclass
class FinetuneSurroundings(Surroundings):
    """What the bookkeeping of a fine-tuning needs besides."""

    tuning: TuningConfig
    steps_per_epoch: int
    split: str  # on which the weights are judged
    metric: str  # by which they are
    figures: Callable[[TaskModel, Ranks], Row]  # of that split, on the first rank
    flops_per_token: Callable[[float], float] | None  # of a step in sequences of this mean length; None: something is not trained


class FinetuneBookkeeping(Bookkeeping):
    """The bookkeeping of a fine-tuning."""

    around: FinetuneSurroundings

    def __init__(self, surroundings: FinetuneSurroundings) -> None:
        super().__init__(surroundings)
        self.tuning = surroundings.tuning
        self.best: float | None = None  # the highest value of the metric so far
        self.best_step = 0
        self._without_improvement = 0  # evaluations since then
        self._named_before = 0  # the best step of the state that was saved last

    @property
    def kept_weights(self) -> Path | None:
        """The file of the best weights; None where the last ones are wanted, or none are the best."""
        return self._weights_of(self.best_step) if self.tuning.select == "best" and self.best is not None else None

    def training_figures(self, batch: TaskStep, sums: Mapping[str, float]) -> Row:
        """The epoch and the mean loss."""
        return {"epoch": self._epoch, "loss": sums["task_loss"] / max(1.0, sums["items"])}

    def complaint(self, row: Row) -> str | None:
        """Numbers that are not finite."""
        for what in ("loss", "gradient_norm"):
            if not math.isfinite(row[what]):
                return f"the {what.replace('_', ' ')} became {row[what]}"
        return None

    def flops(self, batch: TaskStep) -> float | None:
        """Of the model's mathematics for the real tokens, the head left out. What is frozen takes less, and kept features next to none."""
        if self.around.flops_per_token is None:
            return None
        return self.around.flops_per_token(batch.tokens_in_step / batch.sequences_in_step) * batch.tokens_in_step

    def evaluation_is_due(self, before: float, share: float) -> bool:
        """Every ``tuning.evaluate_every`` epochs, or once an epoch."""
        every = max(1, round((self.tuning.evaluate_every or 1.0) * self.around.steps_per_epoch))
        return self.step % every == 0

    def evaluate(self, trainer: lightning.Trainer, module: FinetuneModule) -> None:
        """A row of the split that judges; the weights are kept where they are the best so far."""
        found = self.around.figures(module.model, self.ranks)
        if self.ranks.first:
            self.write(self.rows, {"step": self.step, "split": self.around.split, "epoch": self._epoch, **found})
        value = float(self.ranks.tell(found.get(self.around.metric, math.nan)))
        if math.isfinite(value) and (self.best is None or value > self.best):
            self.best, self.best_step, self._without_improvement = value, self.step, 0
            if self.ranks.first and self.kept_weights is not None:
                write_weights(self.kept_weights, module.model.state_dict())
        else:
            self._without_improvement += 1
        out_of_patience = self.tuning.patience is not None and self._without_improvement >= self.tuning.patience
        self.ended_early = out_of_patience and not self.finished  # after the last step there is nothing to end

    def more_state(self) -> State:
        """The best weights so far, by the step that they are of."""
        return {"best": self.best, "best_step": self.best_step, "without_improvement": self._without_improvement}

    def restore_more(self, state: State) -> None:
        """Their file is there: it is deleted only once a newer state names another."""
        self.best, self.best_step, self._without_improvement = state["best"], state["best_step"], state["without_improvement"]
        self._named_before = self.best_step

    def saved(self) -> None:
        """Delete weights that no state names any more: the last two are kept, so an older one may still name what came before."""
        named = {self.best_step, self._named_before}
        self._named_before = self.best_step
        for path in self.run.checkpoints.glob("best-*.safetensors"):
            if int(path.stem.removeprefix("best-")) not in named:
                path.unlink()

    @property
    def _epoch(self) -> float:
        return round(self.step / self.around.steps_per_epoch, 4)

    def _weights_of(self, step: int) -> Path:
        return self.run.checkpoints / f"best-{step:09d}.safetensors"
