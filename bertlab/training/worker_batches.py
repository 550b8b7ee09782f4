"""Batches made by worker processes, which may be killed: the training then goes on without them, and the batches stay the same."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing import active_children
from multiprocessing.connection import wait
from types import FrameType
from typing import Any, TypeVar

from torch.utils.data import DataLoader, Dataset

from bertlab.training.progress import say

B = TypeVar("B")

_AHEAD = 4  # batches that a worker makes before they are asked for
_NOTICED_SECONDS = 0.5  # after a process has closed its pipes its end is known within this time


def worker_batches(
    steps: Dataset[B], keys: Iterable[Any], workers: int, *, pinned: bool, made_here: Callable[[Iterable[Any]], Iterator[B]]
) -> Iterator[B]:
    """The batch of each of the ``keys``, in their order.

    Args:
        steps: makes the batch of a key.
        keys: taken some batches ahead of what is yielded, as many with a worker gone as before: where the time decides which key comes
            next, it depends on when a key is taken, and all processes of a run have to take the same ones.
        workers: how many processes.
        pinned: whether batches are moved to page-locked memory.
        made_here: makes the batches of keys in this process; used for what is left when a worker is gone.
    """
    left = iter(keys)
    asked: deque[Any] = deque()  # keys whose batches have not come yet

    def asking() -> Iterator[Any]:
        for key in left:
            asked.append(key)
            yield key

    def asking_as_far_ahead() -> Iterator[Any]:
        while asked:
            key = asked.popleft()
            asked.extend(islice(left, max(0, workers * _AHEAD - len(asked))))
            yield key

    before = active_children()
    loader = DataLoader(steps, batch_size=None, sampler=asking(), num_workers=workers, pin_memory=pinned, prefetch_factor=_AHEAD)
    batches = iter(loader)
    ends = [process.sentinel for process in active_children() if process not in before]
    with _DeadWorkersToldWhenAsked() as watch:
        while True:
            try:
                batch = watch.next(batches)
            except StopIteration:
                return
            except Exception:
                if not wait(ends, _NOTICED_SECONDS):  # they all live: it is an error of what they do
                    raise
                break
            asked.popleft()
            yield batch
    del batches, loader  # ends the other workers
    say("A process that makes batches was killed, most often for its memory: this one makes them from now on; results stay the same.")
    yield from made_here(asking_as_far_ahead())


class _DeadWorkersToldWhenAsked:
    """PyTorch raises its error about a dead worker from a signal handler, so at any moment: here only while a batch is waited for.

    In the middle of a step, or of saving a state, there would be no going on after it.
    """

    def __init__(self) -> None:
        self._waiting = self._child_ended = False
        self._raises: Any = None  # PyTorch's handler, where it has set one

    def __enter__(self) -> _DeadWorkersToldWhenAsked:
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers, so PyTorch has set none
            self._raises = signal.signal(signal.SIGCHLD, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if callable(self._raises) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, self._raises)

    def next(self, batches: Iterator[B]) -> B:
        """The next batch. Some error or other where a worker is gone."""
        self._waiting = True
        try:
            if self._child_ended:
                self._note(signal.SIGCHLD, None)
            return next(batches)
        finally:
            self._waiting = False

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self._child_ended = not self._waiting
        if self._waiting and callable(self._raises):
            self._raises(signum, frame)
