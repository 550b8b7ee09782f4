"""The batches of the steps that are left, with the time that the training waited for them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from torch.utils.data import Dataset

from bertlab.data.batches import StepBatch
from bertlab.data.schedule import Stage, TrainingPlan
from bertlab.training.worker_batches import worker_batches

if TYPE_CHECKING:
    from bertlab.data.assembly import PretrainingData

Key = tuple[Stage, int, int]  # the stage, how many steps of it came before, how many steps came before


class Pinnable(Protocol):
    """A batch that can be moved to page-locked memory."""

    def pin_memory(self) -> Self:
        """The same batch there."""


B = TypeVar("B", bound=Pinnable)


class StepLoader(ABC, Generic[B]):
    """Yields the batch of every step that is left, made here or by worker processes.

    A batch is a function of its key alone. Where the key follows from the step, a resumed run starts where it left off and the number of
    workers changes no number.
    """

    def __init__(self, steps: Dataset[B], *, workers: int, pinned: bool) -> None:
        """``steps``: a map-style data set whose keys are those of ``keys``."""
        self.waited = 0.0  # seconds, since it was last set to 0
        self._steps = steps
        self._workers = workers
        self._pinned = pinned

    @abstractmethod
    def keys(self) -> Iterator[Any]:
        """What ``steps`` is asked for, one key a step."""

    def __iter__(self) -> Iterator[B]:
        batches = self._batches()
        while True:
            before = time.perf_counter()
            batch = next(batches, None)
            self.waited += time.perf_counter() - before
            if batch is None:
                return
            yield batch

    def _batches(self) -> Iterator[B]:
        if self._workers == 0:
            return self._made_here(self.keys())
        return worker_batches(self._steps, self.keys(), self._workers, pinned=self._pinned, made_here=self._made_here)

    def _made_here(self, keys: Iterable[Any]) -> Iterator[B]:
        made = map(self._steps.__getitem__, keys)
        return (batch.pin_memory() for batch in made) if self._pinned else made


class StageLoader(StepLoader[StepBatch]):
    """The steps of a pre-training from ``first`` on.

    Where the budget is one of time there is no last step, and the stage of one follows from the share that has gone when it is asked for.
    That is the same on all ranks, as they agree on the time after each step, and ask equally far ahead whatever becomes of their workers.
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
        super().__init__(_Steps(data), workers=workers, pinned=pinned)
        self.plan = plan
        self.first = first
        self.begun = dict(begun)
        self._share = share

    def __len__(self) -> int:
        if self.plan.total_steps is None:
            raise TypeError("a run with a budget of time does not know its number of steps")
        return self.plan.total_steps - self.first

    def keys(self) -> Iterator[Key]:
        """Stage and step, as far as the budget goes."""
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
