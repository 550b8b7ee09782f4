"""What every kind of training does around its own work: one process a run, nothing for a finished one, and bad ends told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertlab.errors import Interrupted, RunFailed, UserError
from bertlab.files import write_json
from bertlab.launched import process_rank
from bertlab.run_files.folder import RunFolder
from bertlab.training.children import others_started
from bertlab.training.progress import say

if TYPE_CHECKING:
    from bertlab.training import lightning
    from bertlab.training.bookkeeping import Bookkeeping
    from bertlab.training.loader import StepLoader
    from bertlab.training.module import TrainingModule


def train_once(run: RunFolder, train: Callable[[], None]) -> Path:
    """Do what is left of a run; of a finished one nothing. Returns its folder.

    Raises:
        UserError: another process trains this run.
        RunFailed: the numbers stopped making sense, in an earlier call or, by ``train``, now.
    """
    if process_rank() > 0:  # the first process holds the folder and speaks; whoever started the others, they do as it does
        if not run.done:
            _refuse_failed(run)
            train()
        return run.path
    if not run.done:
        with run.locked():
            if not run.done:  # else another process has finished it in the meantime
                _refuse_failed(run)
                train()
                return run.path
    say(f"This run is finished: {run.path}")
    return run.path


def _refuse_failed(run: RunFolder) -> None:
    if reason := run.failure_reason():
        raise RunFailed(
            f"The run {run.path} failed before: {reason}. The same configuration would fail again: change it (a lower optimizer.lr, a "
            f"longer optimizer.warmup), or delete {run.failure} to go on from the last checkpoint."
        )


def fit(trainer: lightning.Trainer, module: TrainingModule, loader: StepLoader[Any], bookkeeping: Bookkeeping) -> None:
    """Train up to the end of the budget.

    Raises:
        Interrupted: a signal came first.
    """
    try:
        with _ctrl_c_as_before():
            trainer.fit(module, train_dataloaders=loader)
    except SystemExit as ended:
        if (signum := _signal_behind(ended)) is None:
            raise
        raise Interrupted(signum) from None
    if bookkeeping.finished:
        return
    if not bookkeeping.stopped_by:
        raise RuntimeError(f"the training ended at step {bookkeeping.step}, before its budget was used up")
    raise Interrupted(bookkeeping.stopped_by)


@contextmanager
def _ctrl_c_as_before() -> Iterator[None]:
    """Lightning, once interrupted, has this process and all that it starts ignore Ctrl-C for ever."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def _signal_behind(ended: SystemExit) -> int | None:
    """The signal that Lightning has turned into an exit of its own, before the training had handlers for it."""
    from bertlab.training.lightning import SIGTERMException

    if isinstance(ended, SIGTERMException):
        return signal.SIGTERM
    return signal.SIGINT if isinstance(ended.__context__, KeyboardInterrupt) else None


@contextmanager
def bad_ends_told(run: RunFolder, bookkeeping: Bookkeeping) -> Iterator[None]:
    """Tell the folder, the mirror and the user when training, or finishing it, does not end well.

    The other processes of the run on this machine are started and ended here, where nobody else does so.
    """
    try:
        with others_started():
            yield
    except RunFailed as failure:
        if process_rank() == 0:
            write_json(run.failure, {"step": bookkeeping.step, "reason": f"at step {bookkeeping.step}, {failure}"})
        bookkeeping.mirror.finish(exit_code=1)
        raise RunFailed(
            f"The run {run.path} failed at step {bookkeeping.step:,}: {failure}. Lower optimizer.lr or lengthen optimizer.warmup."
        ) from None
    except Interrupted as stop:
        bookkeeping.mirror.finish(exit_code=stop.exit_code)
        if process_rank() == 0:
            say(f"Stopped at step {bookkeeping.step:,}; the same command resumes.")
        raise
    except KeyboardInterrupt:  # while the result is made, when the last state is saved
        bookkeeping.mirror.finish(exit_code=128 + signal.SIGINT)
        say(f"Stopped after the last step ({bookkeeping.step:,}), before the result; the same command goes on.")
        raise Interrupted(signal.SIGINT) from None
    except BaseException as error:
        bookkeeping.mirror.finish(exit_code=1)
        if waited_in_vain(error):
            raise UserError(
                f"Process {process_rank()} of {run.name} waited in vain for another one after step {bookkeeping.step:,}: it has ended, or"
                f" has not answered for trainer.timeout={bookkeeping.around.trainer.timeout:g} seconds. Its last output tells why; the"
                " same command goes on from the last saved state."
            ) from error
        raise


def waited_in_vain(error: BaseException) -> bool:
    """Whether a process of a run of several has lost another one."""
    from bertlab.training.ranks import others_are_gone

    return not isinstance(error, UserError) and others_are_gone(error)
