"""Composing the jobs of a verb, refusing what cannot be meant, and running them one after the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertlab.arguments import Arguments
from bertlab.config import PretrainConfig
from bertlab.errors import RunFailed, UserError
from bertlab.messages import complain, say, warn
from bertlab.validation import validate

# Set in every process of a distributed run; a later run of the same process must not find them.
_DISTRIBUTED = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def run_jobs(
    verb: str,
    arguments: Arguments,
    run: Callable[[PretrainConfig], Path],
    base: Mapping[str, Any] | None = None,
    words: tuple[str, ...] = (),
) -> int:
    """Compose, validate and run every job of a command; each prints its folder, as the last line on standard output.

    All jobs are validated before the first runs. A job that fails is reported, and the others go on.

    Args:
        verb: the command's name.
        arguments: what stood after it.
        run: what a job does; it returns the folder to print.
        base: a configuration to start from instead of the default choices.
        words: arguments that are none of Hydra's, with which a process of the same job must be started too.

    Returns:
        The exit code: 0, or 1 when a job failed.

    Raises:
        UserError: the command cannot be meant.
    """
    from bertlab.composition import Job, compose

    flags = [flag for flag in arguments.hydra_flags() if flag.startswith(("--config-dir", "--config-name"))]

    def perform(job: Job) -> bool:
        for sentence in validate(job.config):
            if _is_first_process():
                warn(sentence)
        with _as_a_command_of_its_own([verb, *flags, *words, *job.overrides]):
            return _perform(run, job.config)

    def launched(job: Job) -> None:
        if not perform(job):
            raise RunFailed(f"A job failed: {' '.join(job.overrides)}")  # the launcher has the others go on, and passes this on

    jobs = compose(arguments, base, launched)
    for number, job in enumerate(jobs, 1):
        _validate(job.config, f"Job {number} of {len(jobs)} ({' '.join(job.overrides)}): " if len(jobs) > 1 else "")
    done = []
    for number, job in enumerate(jobs, 1):
        if len(jobs) > 1:
            say(f"job {number} of {len(jobs)}: {' '.join(job.overrides)}")
        done.append(perform(job))
    if len(jobs) > 1 and not all(done):
        say(f"{done.count(False)} of {len(jobs)} jobs failed")
    return 0 if all(done) else 1


def _perform(run: Callable[[PretrainConfig], Path], config: PretrainConfig) -> bool:
    """Run one job and print its folder; whether it came to its end."""
    try:
        folder = run(config)
    except Exception as error:
        complain(error)
        return False
    if _is_first_process():
        print(folder, flush=True)
    return True


def _validate(config: PretrainConfig, which: str) -> None:
    try:
        validate(config)
    except UserError as error:
        raise UserError(f"{which}{error}") from error


def _is_first_process() -> bool:
    """Whether this process speaks for its run: the others of a distributed run are silent."""
    return all(os.environ.get(name, "0") in ("", "0") for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def _leave_process_group() -> None:
    """End what Lightning set up for a distributed run; the next one of this process needs its own."""
    if "torch.distributed" in sys.modules:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


@contextmanager
def _as_a_command_of_its_own(words: list[str]) -> Iterator[None]:
    """Make this process look as if it had been started for one job alone: Lightning starts the further ones by ``sys.argv``."""
    command, environment = sys.argv, {name: os.environ.get(name) for name in _DISTRIBUTED}
    sys.argv = [command[0], *words]
    try:
        yield
    finally:
        sys.argv = command
        _leave_process_group()
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
