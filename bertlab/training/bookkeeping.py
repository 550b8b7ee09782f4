"""Everything that happens around the steps of a run, of whatever kind: rows, evaluations, saved states, being stopped, starting again.

After every step, in this order: count it, log it, evaluate, save, stop. The order matters for a resumed run: the rows of a step are on
the disk before the state of that step is, so cutting the files of rows at the state's step and going on gives the same files.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import torch

from bertlab.config import CheckpointConfig, TrainerConfig
from bertlab.errors import RunFailed, UserError
from bertlab.run_files.folder import RunFolder
from bertlab.run_files.states import State
from bertlab.training import lightning
from bertlab.training.checkpoints import save_state, save_weights
from bertlab.training.loader import StepLoader
from bertlab.training.metrics import Row, RowFile
from bertlab.training.module import Step, TrainingModule
from bertlab.training.parted import load_optimizer, load_weights, whole
from bertlab.training.progress import ProgressDisplay, say
from bertlab.training.ranks import Ranks
from bertlab.training.signals import StopRequest
from bertlab.training.throughput import Speed, Window, peak_flops
from bertlab.training.wandb_mirror import NoMirror, WandbMirror

SAVE_SECONDS = 120.0  # between saves, where checkpointing.every says nothing
SAVE_SHARE = 0.02  # and no more than this share of the time goes into saving


@dataclass
class Surroundings:
    """What the bookkeeping of a run needs to know and to reach."""

    run: RunFolder
    trainer: TrainerConfig
    checkpointing: CheckpointConfig
    loader: StepLoader[Any]
    mirror: Callable[[Callable[[str], None]], NoMirror | WandbMirror]  # begins it; what it has to say goes through the argument
    state: State | None  # to resume from


class Bookkeeping(lightning.Callback, ABC):
    """Lightning's callback that does it. The kinds of training say what their rows hold, when they evaluate, and what else they save."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.around = surroundings
        self.run = surroundings.run
        self.step = 0  # updates so far
        self.finished = False
        self.ended_early = False  # finished before the budget was
        self.stopped_by = 0  # the signal that ended the training early
        self.stop = StopRequest()
        self.mirror: NoMirror | WandbMirror = NoMirror()
        # Until the devices are known, and the run's own have taken their place:
        self.ranks = Ranks(0, 1)
        self.speed = Speed(None, torch.device("cpu"))
        self.display = ProgressDisplay(shown=False)
        self.rows: RowFile | None = None  # the first rank's alone
        self.speed_rows: RowFile | None = None
        self._mark = self._saved_at = time.perf_counter()
        self._save_seconds = 0.0

    # What differs

    @abstractmethod
    def training_figures(self, batch: Any, sums: Mapping[str, float]) -> Row:
        """What a row of the training holds besides step, rate and gradient norm."""

    @abstractmethod
    def complaint(self, row: Row) -> str | None:
        """Why the training no longer makes sense, as the end of a sentence; None when all is well."""

    @abstractmethod
    def evaluation_is_due(self, before: float, share: float) -> bool:
        """Whether to evaluate after this step, with which ``share`` of the budget is used, and ``before`` which it was."""

    @abstractmethod
    def evaluate(self, trainer: lightning.Trainer, module: Any) -> None:
        """Evaluate, on all ranks, and write rows."""

    @abstractmethod
    def flops(self, batch: Any) -> float | None:
        """Of a step, with the backward pass; None where they are not counted."""

    def taken(self, sums: Mapping[str, float]) -> None:
        """The sums since the row before, over all ranks, go into a row."""

    def illness(self, module: Any, share: float) -> str | None:
        """As ``complaint``, but after every step, whether it has a row or not; ``share`` of the budget is used."""
        return None

    def more_state(self) -> State:
        """What else a saved state holds."""
        return {}

    def restore_more(self, state: State) -> None:
        """Take it back."""

    def saved(self) -> None:
        """A complete state of this step is on the disk."""

    # Beginning

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """With model and optimizer on their device, restore the state that the run resumes from."""
        assert isinstance(pl_module, TrainingModule)
        self.ranks = Ranks(trainer.global_rank, trainer.world_size, self.around.trainer.timeout)
        self._check_states()
        peak = peak_flops(pl_module.device, self.around.trainer.precision)
        self.speed = Speed(None if peak is None else peak * trainer.world_size, pl_module.device)
        pl_module.sums.values = pl_module.sums.values.to(pl_module.device)
        if self.around.state is not None:
            self._restore(pl_module, self.around.state)
        if self.ranks.first:
            self.rows = RowFile(self.run.metrics, self.step)
            self.speed_rows = RowFile(self.run.throughput, self.step)
        if self.ranks.first and self.finished:  # stopped between the last step and its result: no training starts that would begin it
            self.mirror = self.around.mirror(say)

    def _check_states(self) -> None:
        """Refuse to go on from another state than the first process: its files reach this one's machine late, or not at all."""
        own = None if self.around.state is None else self.around.state["step"]
        if (first := self.ranks.tell(own)) != own:
            raise UserError(
                f"Process {self.ranks.rank} finds the saved state of step {own} in {self.run.path}, but the first process that of"
                f" {first}: put paths.runs on a file system that all nodes share, and start again."
            )

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Once data workers are started (they are forked, and a thread that holds a lock would stay behind), the rest."""
        assert isinstance(pl_module, TrainingModule)
        share = pl_module.schedule.share(self.step, self.elapsed)
        self.display = ProgressDisplay(self.around.trainer.progress and self.ranks.first, share)
        if self.ranks.first and not self.finished:
            self.mirror = self.around.mirror(self.display.say)
        self.stop.__enter__()  # after Lightning has installed its own handlers
        self._mark = self._saved_at = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds of training so far, in all the processes that this run has had."""
        return self.speed.total.seconds

    # After every step

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Step, batch_idx: int
    ) -> None:
        """Count, log, evaluate, save, stop."""
        assert isinstance(pl_module, TrainingModule)
        now = time.perf_counter()
        seconds, save, signum = self.ranks.agree(now - self._mark, self._save_is_due(batch.step + 1), self.stop.signum)
        before, share = self._count(pl_module, batch, seconds)
        if complaint := self.illness(pl_module, share):
            raise RunFailed(complaint)
        if self.finished or self.step % self.around.trainer.log_every == 0:
            self._log(pl_module, batch, share)
        aside = time.perf_counter()
        if self.finished or self.evaluation_is_due(before, share):
            self.evaluate(trainer, pl_module)
            self.finished = self.finished or self.ended_early
        self._save(pl_module, complete=save or self.finished or bool(signum))
        self._mark = now + time.perf_counter() - aside  # logging is part of the training's time; evaluating and saving are not
        self.stopped_by = signum
        trainer.should_stop = self.finished or bool(signum)

    def _count(self, module: TrainingModule, batch: Step, seconds: float) -> tuple[float, float]:
        """Count one step; returns the share of the budget that was used before it, and with it."""
        before = module.schedule.share(self.step, self.elapsed)
        self.step = batch.step + 1
        self.speed.add(batch.positions_in_step, batch.tokens_in_step, self.flops(batch), seconds)
        module.elapsed = self.elapsed
        share = module.schedule.share(self.step, self.elapsed)
        self.finished = share >= 1.0
        self.display.advance(share)
        return before, share

    def _log(self, module: TrainingModule, batch: Step, share: float) -> None:
        sums = module.sums.take(self.ranks.world)
        self.taken(sums)
        row: Row = {"step": self.step, "split": "train", **self.training_figures(batch, sums)}
        row |= {"lr": module.rate, "gradient_norm": sums["gradient_norm"] / max(1.0, sums["updates"])}
        if complaint := self.complaint(row):
            raise RunFailed(complaint)
        if self.ranks.first:
            speed = {"step": self.step, "seconds": self.elapsed, **self.speed.take(self.around.loader.waited)}
            self.around.loader.waited = 0.0
            self.write(self.rows, row)
            self.write(self.speed_rows, speed)
            self.display.describe(self.step, share, row["loss"], speed["tokens_per_second"])

    def write(self, file: RowFile | None, row: Row) -> None:
        """Add a row to a file and to the mirror; only the first rank does, which has them."""
        assert file is not None
        file.append(row)
        self.mirror.log(row)

    # Saving and restoring

    def _save_is_due(self, step: int) -> bool:
        if self.around.checkpointing.every is not None:
            return step % self.around.checkpointing.every == 0
        return time.perf_counter() - self._saved_at > max(SAVE_SECONDS, self._save_seconds / SAVE_SHARE)

    def _save(self, module: TrainingModule, *, complete: bool) -> None:
        kept = self.around.checkpointing
        keep = self.step in kept.keep_at or (kept.keep_every is not None and self.step % kept.keep_every == 0)
        if not complete and not keep:
            return
        begin = time.perf_counter()
        # A poisoned update is noticed at logged steps at the latest, on a GPU; it must not be saved before.
        if not torch.isfinite(module.sums.values).all():
            raise RunFailed("the loss or the gradient norm became infinite or no number")
        sums = self.ranks.gather(module.sums.values).cpu()
        if keep:
            weights = whole(module.model.state_dict(), first=self.ranks.first)
            if self.ranks.first:
                save_weights(self.run.checkpoints, self.step, weights)
        if complete:
            for file in self._files():
                file.sync()
            save_state(self.run.checkpoints, self.step, self._state(module, sums), self.ranks)
            if self.ranks.first:
                self.saved()
            self.ranks.tell(None)  # none ends before that is done: srun ends all when one has
            self._saved_at = time.perf_counter()
            self._save_seconds = self._saved_at - begin

    def _state(self, module: TrainingModule, sums: torch.Tensor) -> State:
        return {
            "step": self.step,
            "weights": module.model.state_dict(),
            "optimizer": module.adam.state_dict(),
            "sums": sums,
            "fed": asdict(self.speed.total),
            "ended_early": self.ended_early,
            **self.more_state(),
        }

    def _restore(self, module: TrainingModule, state: State) -> None:
        self.step = state["step"]
        load_weights(module.model, state["weights"])
        load_optimizer(module.adam, state["optimizer"])
        module.sums.restore(state["sums"], self.ranks.rank, self.ranks.world)
        self.speed.total = Window(**state["fed"])
        module.elapsed = self.elapsed
        self.ended_early = state.get("ended_early", False)
        self.restore_more(state)
        self.finished = self.ended_early or module.schedule.share(self.step, self.elapsed) >= 1.0
        self.around.state = None  # its memory is not needed any more

    # Ending

    def teardown(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        """Give the terminal and the signals back and close the files."""
        self._close()

    def on_exception(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException) -> None:
        """The same where the training ends by an exception, which is the one to be told."""
        self._close(OSError)  # what could not be written cannot be flushed either

    def _close(self, *untold: type[BaseException]) -> None:
        self.stop.__exit__(None, None, None)
        closing: list[ProgressDisplay | RowFile] = [self.display, *self._files()]
        for each in closing:
            with suppress(*untold):
                each.close()

    def _files(self) -> list[RowFile]:
        return [file for file in (self.rows, self.speed_rows) if file is not None]
