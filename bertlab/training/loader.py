"""The batches of the steps that are left, with the time that the training waited for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from torch.utils.data import DataLoader, Dataset

from bertlab.data.batches import StepBatch
from bertlab.data.schedule import Stage, TrainingPlan

if TYPE_CHECKING:
    from bertlab.data.assembly import PretrainingData

Key = tuple[Stage, int, int]  # the stage, how many steps of it came before, how many steps came before


class StepLoader:
    """Yields the batch of every step from ``first`` on, made here or by worker processes.

    A batch is a function of its step alone, so a resumed run starts where it left off and the number of workers changes no number.
    Where the budget is one of time there is no last step, and the share of it that has gone tells the stage.
    """

    def __init__(
        self,
        data: PretrainingData,
        plan: TrainingPlan,
        first: int,
        *,
        share: Callable[[], float],
        begun: dict[int, int],
        workers: int,
        pinned: bool,
    ) -> None:
        """``share``: of the budget that has gone by now; ``begun``: of each stage of a budget of time, its first step, if it is known."""
        self.plan = plan
        self.first = first
        self.begun = dict(begun)
        self.waited = 0.0  # seconds, since it was last set to 0
        self._steps = _Steps(data)
        self._share = share
        self._workers = workers
        self._pinned = pinned

    def __len__(self) -> int:
        if self.plan.total_steps is None:
            raise TypeError("a run with a budget of time does not know its number of steps")
        return self.plan.total_steps - self.first

    def __iter__(self) -> Iterator[StepBatch]:
        batches = self._batches()
        while True:
            before = time.perf_counter()
            batch = next(batches, None)
            self.waited += time.perf_counter() - before
            if batch is None:
                return
            yield batch

    def _batches(self) -> Iterator[StepBatch]:
        if self._workers == 0:
            made = map(self._steps.__getitem__, self._keys())
            return (batch.pin_memory() for batch in made) if self._pinned else made
        return iter(
            DataLoader(
                self._steps,
                batch_size=None,
                sampler=self._keys(),
                num_workers=self._workers,
                pin_memory=self._pinned,
                prefetch_factor=4,
            )
        )

    def _keys(self) -> Iterator[Key]:
        step = self.first
        total = self.plan.total_steps
        while self._share() < 1.0 if total is None else step < total:
            stage = self.plan.stage_at_share(self._share()) if total is None else self.plan.stage_at(step)
            first = self.begun.setdefault(stage.number, step) if stage.first_step is None else stage.first_step
            yield stage, step - first, step
            step += 1


class _Steps(Dataset[StepBatch]):
    """The steps as a map-style data set, for worker processes."""

    def __init__(self, data: PretrainingData) -> None:
        self._data = data

    def __getitem__(self, key: Key) -> StepBatch:
        return self._data.step_batch_at(*key)
