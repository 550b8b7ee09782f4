"""``launcher=slurm``: the jobs of a verb as jobs of SLURM. The command queues them, says their ids, and shows what they say.

The same command again finds its jobs in the queue and shows them; it queues what was cancelled or has failed, and leaves what is done. It
is the same as long as the files that the run reads are the same, too: those of another folder, or changed ones, make another run.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertlab.cluster import queue, submission
from bertlab.cluster.follow import Follower, folder_of, follow
from bertlab.cluster.queue import QueueSilent
from bertlab.cluster.resources import Resources
from bertlab.cluster.submission import Command, Element
from bertlab.commands.inputs import states_of_inputs
from bertlab.config import LauncherConfig, PathsConfig
from bertlab.errors import UserError
from bertlab.messages import say

if TYPE_CHECKING:
    from bertlab.composition import Job

_NOT_THE_RUN = ("launcher", "logger", "paths")  # sections in which two commands of the same run may differ


def queue_jobs(verb: str, jobs: Sequence[Job[Any]], words_of: Callable[[Job[Any]], list[str]]) -> list[Path | None] | None:
    """Queue jobs, and follow them to their ends.

    Args:
        verb: pretrain or finetune.
        jobs: composed and validated.
        words_of: what follows the program's name when a job is run by a command of its own.

    Returns:
        The folder of each job's run, None for one that has not ended well; None in place of all where they are not followed.

    Raises:
        UserError: SLURM is not there, or refuses a job.
    """
    queue.check_there()
    runs, launcher = _common(jobs)
    has_gpus = cache(queue.has_gpus)
    resources = [Resources.of(job.config.launcher, job.config.trainer, has_gpus) for job in jobs]
    commands = [_command(verb, job, each, words_of(job)) for job, each in zip(jobs, resources, strict=True)]
    with submission.queueing(runs):
        known = _known(runs)
        begun, done = _in(known.begun, commands), _in(known.done, commands)
        missing = [place for place, command in enumerate(commands) if command.key not in begun | done]
        new = _submit(runs, verb, [commands[place] for place in missing], [resources[place] for place in missing])
    for what, old in (("in the queue already", begun), ("finished", done)):
        if old:
            say(f"{what}: job{'s' if len(old) > 1 else ''} {', '.join(str(element.job) for element in old.values())}")
    elements = [{**done, **begun, **new}[command.key] for command in commands]
    if not launcher.follow:
        for job in dict.fromkeys(str(element.job).partition("_")[0] for element in elements):
            print(job, flush=True)
        return None
    prefixes = [f"[{element.job}] " if len(commands) > 1 else "" for element in elements]
    followers = [
        Follower(element, prefix, begun=command.key in begun, ended=command.key in done)
        for command, element, prefix in zip(commands, elements, prefixes, strict=True)
    ]
    return _followed(commands, followers)


def _common(jobs: Sequence[Job[Any]]) -> tuple[Path, LauncherConfig]:
    """What all jobs of a command have alike. Raises ``UserError`` where they have not."""
    if len({(job.config.launcher.kind, job.config.paths.runs, job.config.launcher.follow) for job in jobs}) > 1:
        raise UserError("launcher, launcher.follow and paths.runs must be the same in all jobs of a command: run it once for each value.")
    paths: PathsConfig = jobs[0].config.paths
    return paths.runs_folder, jobs[0].config.launcher


def _command(verb: str, job: Job[Any], resources: Resources, words: list[str]) -> Command:
    values = {name: value for name, value in asdict(job.config).items() if name not in _NOT_THE_RUN}
    key = hashlib.sha256(json.dumps([verb, values, states_of_inputs(job.config)], sort_keys=True).encode()).hexdigest()[:16]
    threads = [f"++{word}" for word in resources.words] if job.config.trainer.threads is None else []  # of which a null may have been said
    program = (*resources.start, sys.executable, "-m", "bertlab", *words, "++launcher.kind=local", *threads)
    return Command(key, " ".join([verb, *job.overrides]), program)


@dataclass(frozen=True)
class _Known:
    """What was queued by earlier calls, by its key."""

    begun: dict[str, Element]  # the queue has it
    done: dict[str, Element]  # it has ended, and its run has a result


def _known(runs: Path) -> _Known:
    try:
        states = queue.states()
    except QueueSilent as error:
        raise error.as_user_error() from error
    found = submission.find(runs, states)
    begun = {key: element for key, element in found.items() if (state := states.get(element.job or "")) is not None and not state.ended}
    done = {key: element for key, element in found.items() if element.end is not None and element.end.folder is not None}
    return _Known(begun, done)


def _in(elements: Mapping[str, Element], commands: Sequence[Command]) -> dict[str, Element]:
    """Those of the commands."""
    return {command.key: elements[command.key] for command in commands if command.key in elements}


def _submit(runs: Path, verb: str, commands: Sequence[Command], resources: Sequence[Resources]) -> dict[str, Element]:
    """Queue commands, those that ask for the same as one array; their jobs by their keys."""
    elements: dict[str, Element] = {}
    for asked in [each for place, each in enumerate(resources) if each not in resources[:place]]:
        together = [command for command, each in zip(commands, resources, strict=True) if each == asked]
        queued = submission.submit(runs, verb, together, asked)
        elements |= dict(zip([command.key for command in together], queued, strict=True))
        job = str(queued[0].job).partition("_")[0]
        what = f"{len(together)} jobs of an array" if len(together) > 1 else together[0].title
        say(f"queued as job {job}: {what}; {asked.in_words()}")
        say(f"its output is in {queued[0].folder}; scancel {job} ends it")
    return elements


def _followed(commands: Sequence[Command], followers: Sequence[Follower]) -> list[Path | None]:
    try:
        follow(followers)
    except KeyboardInterrupt:
        say("The jobs go on. The same command shows them again; scancel with a job's id ends it.")
        raise
    for command, follower in zip(commands, followers, strict=True):
        if folder_of(follower) is None:
            say(f"job {follower.element.job} {_how(follower)}: {command.title}")
    return [folder_of(follower) for follower in followers]


def _how(follower: Follower) -> str:
    if follower.end is not None:
        return f"failed with exit code {follower.end.code}"
    return f"has no result ({follower.how}); the same command queues it again"
