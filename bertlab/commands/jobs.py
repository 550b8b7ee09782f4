"""Composing the jobs of a verb, refusing what cannot be meant, and running them one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from bertlab import interruption
from bertlab.arguments import Arguments
from bertlab.errors import Interrupted, RunFailed, UserError
from bertlab.launched import process_rank
from bertlab.messages import complain, say, warn
from bertlab.schemas import C, Schema

if TYPE_CHECKING:
    from bertlab.composition import Job

_QUEUED = ("pretrain", "finetune")  # verbs whose jobs can be those of a cluster's queue


@dataclass(frozen=True)
class Ended(Generic[C]):
    """A job that has been run."""

    job: Job[C]
    folder: Path | None  # None: it failed


def run_jobs(
    verb: str,
    schema: Schema[C],
    arguments: Arguments,
    run: Callable[[C], Path],
    *,
    base: Mapping[str, Any] | None = None,
    words: tuple[str, ...] = (),
    complete: Callable[[C, Sequence[str]], None] = lambda config, overrides: None,
    check: Callable[[C], None] = lambda config: None,
    summarise: Callable[[Sequence[Ended[C]]], None] | None = None,
) -> int:
    """Compose, validate and run every job of a command; each prints its folder, as the last line on standard output.

    All jobs are validated and checked before the first runs. A job that fails is reported, and the others go on.

    Args:
        verb: the command's name.
        schema: what a job is configured by.
        arguments: what stood after the verb.
        run: what a job does; it returns the folder to print.
        base: a configuration to start from instead of the default choices.
        words: arguments that are none of Hydra's, with which a process of the same job must be started too.
        complete: sets what a configuration leaves to be found out, in place; also gets the overrides that gave it.
        check: refuses what this machine has not got for a job; not asked about jobs of a queue, which run on another one.
        summarise: what is said in the end of several jobs.

    Returns:
        The exit code: 0, or 1 when a job failed.

    Raises:
        UserError: the command cannot be meant.
    """
    from bertlab.composition import compose

    interruption.forget()
    flags = [flag for flag in arguments.hydra_flags() if flag.startswith(("--config-dir", "--config-name"))]
    command = _Command(schema, run, complete, check, [verb, *flags, *words])
    jobs = compose(schema, arguments, base, command.launched)
    for number, job in enumerate(jobs, 1):
        complete(job.config, job.overrides)
        _refuse(command, job, f"Job {number} of {len(jobs)} ({' '.join(job.overrides)}): " if len(jobs) > 1 else "")
    ended = _queued(verb, jobs, command.words_of) if any(map(_wants_queue, jobs)) else list(command.performed(jobs))
    failed = sum(job.folder is None for job in ended)
    if len(ended) > 1 and summarise is not None and _is_first_process():
        summarise(ended)
    if len(jobs) > 1 and failed:
        say(f"{failed} of {len(jobs)} jobs failed")
    return 1 if failed else 0


@dataclass(frozen=True)
class _Command(Generic[C]):
    """What is done for each job; see ``run_jobs``."""

    schema: Schema[C]
    run: Callable[[C], Path]
    complete: Callable[[C, Sequence[str]], None]
    check: Callable[[C], None]
    before: list[str]  # the words before a job's overrides: the verb, and what is none of Hydra's

    def words_of(self, job: Job[Any]) -> list[str]:
        """With which a process of this job alone is started."""
        return [*self.before, *job.overrides]

    def performed(self, jobs: Sequence[Job[C]]) -> Iterator[Ended[C]]:
        """Perform jobs one after the other."""
        for number, job in enumerate(jobs, 1):
            if len(jobs) > 1:
                say(f"job {number} of {len(jobs)}: {' '.join(job.overrides)}")
            yield self.perform(job)

    def perform(self, job: Job[C]) -> Ended[C]:
        """Run one job, with the warnings of its configuration said before.

        Raises:
            Interrupted: the job before was asked to stop when there was nothing left of it but its end.
        """
        if signum := interruption.noted():
            if _is_first_process():
                say("Stopped between two jobs; the same command goes on.")
            raise Interrupted(signum)
        for sentence in self.schema.validate(job.config):
            if _is_first_process():
                warn(sentence)
        with _as_a_command_of_its_own(self.words_of(job)):
            return Ended(job, _perform(self.run, job.config))

    def launched(self, job: Job[C]) -> None:
        """Perform a job that a launcher of Hydra's has begun."""
        if _wants_queue(job):
            raise UserError("launcher=slurm cannot be combined with one of Hydra's launchers: leave one of the two out.")
        self.complete(job.config, job.overrides)
        if self.perform(job).folder is None:
            raise RunFailed(f"A job failed: {' '.join(job.overrides)}")  # the launcher has the others go on, and passes this on


def _wants_queue(job: Job[Any]) -> bool:
    return bool(job.config.launcher.kind == "slurm")


def _queued(verb: str, jobs: Sequence[Job[C]], words_of: Callable[[Job[Any]], list[str]]) -> list[Ended[C]]:
    """Run jobs as those of a queue; none has ended where they are not followed."""
    if verb not in _QUEUED:
        raise UserError(f"launcher=slurm works with {' and '.join(_QUEUED)}, and as --launcher slurm with ablate, not with {verb}.")
    from bertlab.commands.queueing import queue_jobs

    folders = queue_jobs(verb, jobs, words_of) or []
    for folder in folders:
        if folder is not None:
            print(folder, flush=True)
    return [Ended(job, folder) for job, folder in zip(jobs, folders, strict=bool(folders))]


def _perform(run: Callable[[C], Path], config: C) -> Path | None:
    """Run one job and print its folder; None where it did not come to its end."""
    try:
        folder = run(config)
    except Exception as error:
        if interruption.came():
            raise KeyboardInterrupt from error
        complain(error)
        return None
    if _is_first_process():
        print(folder, flush=True)
    return folder


def _refuse(command: _Command[C], job: Job[C], which: str) -> None:
    """Refuse a job that cannot be meant, or not here. Raises ``UserError``."""
    try:
        command.schema.validate(job.config)
        if not _wants_queue(job):
            command.check(job.config)
    except UserError as error:
        raise UserError(f"{which}{error}") from error


def _is_first_process() -> bool:
    """Whether this process speaks for its run: the others of a distributed run are silent."""
    return process_rank() == 0


def _leave_process_group() -> None:
    """End what Lightning set up for a distributed run; the next one of this process needs its own."""
    if "torch.distributed" in sys.modules:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


@contextmanager
def _as_a_command_of_its_own(words: list[str]) -> Iterator[None]:
    """Make this process look as if it had been started for one job alone: further ones of a run are started by ``sys.argv``."""
    command = sys.argv
    sys.argv = [command[0], *words]
    try:
        yield
    finally:
        sys.argv = command
        _leave_process_group()
