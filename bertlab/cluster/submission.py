"""Submissions: commands that were queued together, each as a job of one array, and what is kept of them.

    runs/slurm/<name>/commands.json    the commands, by their index in the array; written before anything is queued
    runs/slurm/<name>/job.json         the id that SLURM gave
    runs/slurm/<name>/<id>.sh          what sbatch was given, by submitit
    runs/slurm/<name>/<index>.log      what the job said, in all the times that it was begun
    runs/slurm/<name>/<index>.end      how it ended; of one that was cancelled, or is to begin again, nothing

The name is the job's own in the queue. So a submission is found again also when its caller was killed before it could note the id.

submitit writes the job's script and hands it to sbatch. It is given a command line, not a function: its functions are pickles, which a
node would run whoever wrote them, which an update of the library between queueing and running breaks, and whose end overrides the exit
code on which dependencies hang; and it ignores SIGTERM, at which a training saves its state. The command line is its
``_submit_command``, protected but meant for executors that are made of it, as here.
"""

from __future__ import annotations

import io
import json
import shlex
import shutil
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bertlab.cluster.queue import JobState
from bertlab.cluster.resources import Resources
from bertlab.errors import UserError
from bertlab.files import write_json
from bertlab.messages import warn

COMMANDS = "commands.json"
LOCK_SECONDS = 600.0  # that another command may take to queue what it has


@dataclass(frozen=True)
class Command:
    """What one job does."""

    key: str  # by which a later call knows it
    title: str  # for people
    words: tuple[str, ...]  # a program and its arguments


@dataclass(frozen=True)
class Element:
    """One job of a submission."""

    folder: Path
    index: int
    job: str | None  # its id; None: its caller was killed before it noted that, and the queue knows no more of it

    @property
    def log(self) -> Path:
        """What it said."""
        return self.folder / f"{self.index}.log"

    @property
    def end(self) -> End | None:
        """How it ended by what it noted itself; None while it has not."""
        return read_end(self.folder, self.index)


@dataclass(frozen=True)
class End:
    """The end of a command."""

    code: int
    printed: str  # the last line on its standard output; where that names a folder, its absolute path

    @property
    def folder(self) -> Path | None:
        """The finished run's folder, of a run that ended well."""
        return Path(self.printed) if self.code == 0 and self.printed and (Path(self.printed) / "result.json").is_file() else None


def submissions_folder(runs: Path) -> Path:
    """Where they are kept."""
    return runs / "slurm"


def submit(runs: Path, title: str, commands: Sequence[Command], resources: Resources, dependency: str | None = None) -> list[Element]:
    """Queue commands as one array, or as one job where there is one; returns their jobs in the same order.

    Args:
        runs: the folder of run folders.
        title: of all of it; the job's name begins with it.
        commands: what the jobs do.
        resources: what each of them asks for.
        dependency: what all of them wait for, as sbatch takes it.

    Raises:
        UserError: SLURM refuses it.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError
    from submitit.slurm.slurm import SlurmExecutor

    name = f"bertlab-{title}-{uuid.uuid4().hex[:8]}"
    folder = (submissions_folder(runs) / name).absolute()
    if not str(folder).isprintable():  # a line break would end the option in the job's script, and what comes after it would be run
        raise UserError(f"paths.runs={str(runs)!r} has characters that a job's script cannot contain: name another folder.")
    folder.mkdir(parents=True)
    listed = [asdict(command) for command in commands]
    launcher = resources.launcher
    write_json(folder / COMMANDS, {"requeues": launcher.requeues, "warning": launcher.warning, "commands": listed})
    one, concurrency = len(commands) == 1, launcher.concurrency
    at_once = "" if concurrency is None else f"%{concurrency}"
    log = str(folder).replace("%", "%%")  # sbatch reads patterns in it
    options = {
        **resources.options(),
        "output": f"{log}/{'0' if one else '%a'}.log",
        **({} if one else {"array": f"0-{len(commands) - 1}{at_once}"}),
        **({} if dependency is None else {"dependency": dependency, "kill-on-invalid-dep": "yes"}),
    }
    executor = SlurmExecutor(folder)
    parameters = {**resources.parameters(), "job_name": name, "use_srun": False, "stderr_to_stdout": True}
    executor.update_parameters(**parameters, additional_parameters=options)
    try:
        with redirect_stderr(io.StringIO()):  # what sbatch says is in the error as well
            # exec: the batch process itself gets the signals that SLURM sends to it
            job = executor._submit_command(f"exec {shlex.join([sys.executable, '-m', 'bertlab.cluster.job', str(folder)])}").job_id
    except (FailedJobError, FailedSubmissionError, OSError) as error:
        shutil.rmtree(folder)
        raise UserError(f"SLURM refuses the job: {_reason(error)}") from error
    write_json(folder / "job.json", {"job": job})
    return _elements(folder, len(commands), job)


def _reason(error: Exception) -> str:
    """The sentence of sbatch itself, out of submitit's."""
    said = [line.split("error:", 1)[1].strip() for line in str(error).splitlines() if "error:" in line]
    words = " ".join(said or str(error).split()).rstrip(".")
    no_gpus = "gres" in words or "node configuration" in words
    return f"{words}.{' On a cluster without GPUs set launcher.gpus=0.' if no_gpus else ''}"


def _elements(folder: Path, count: int, job: str | None) -> list[Element]:
    ids = [None if job is None else job if count == 1 else f"{job}_{index}" for index in range(count)]
    return [Element(folder, index, number) for index, number in enumerate(ids)]


def find(runs: Path, queue: dict[str, JobState]) -> dict[str, Element]:
    """Every command that was ever queued here, by its key: its newest job. A submission that cannot be read is told of, and left out."""
    by_name = {state.name: number.partition("_")[0] for number, state in queue.items()}
    found: dict[str, Element] = {}
    for listed in sorted(submissions_folder(runs).absolute().glob(f"*/{COMMANDS}"), key=_written_at):
        folder, keys = listed.parent, _keys(listed)
        elements = zip(keys, _elements(folder, len(keys), _noted_job(folder) or by_name.get(folder.name)), strict=True)
        # One that has no id, and has never begun, was not queued: its caller was killed before that.
        found |= {key: element for key, element in elements if element.job is not None or element.log.exists()}
    return found


def _written_at(path: Path) -> int:
    """In nanoseconds; 0 where the file is gone again, as that of what SLURM refuses is."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _keys(listed: Path) -> list[str]:
    """The keys of a submission's commands, in their order; none where the file is gone again or damaged."""
    try:
        return [_as_text(command["key"]) for command in json.loads(listed.read_text(encoding="utf-8"))["commands"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, LookupError, TypeError):
        _tell_of(listed)
        return []


@cache
def _tell_of(damaged: Path) -> None:
    """Once in this process, which may look more often."""
    warn(f"{damaged} cannot be read, so its jobs are unknown and their work is queued again. Delete its folder when they have ended.")


def _noted_job(folder: Path) -> str | None:
    """The id that SLURM gave; None where it is not noted, or not to be read."""
    try:
        return _as_text(read_json(folder / "job.json")["job"])
    except (LookupError, TypeError):
        return None


def _as_text(value: Any) -> str:
    """What a file holds where there should be text. Raises ``TypeError`` for anything else."""
    if not isinstance(value, str):
        raise TypeError
    return value


@contextmanager
def queueing(runs: Path) -> Iterator[None]:
    """Within the block no other command looks for jobs or queues any, so that none is queued twice. Raises ``UserError``."""
    from filelock import FileLock, Timeout

    folder = submissions_folder(runs)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=LOCK_SECONDS):
            yield
    except Timeout:
        raise UserError(f"Another command has been queueing jobs in {folder} for {LOCK_SECONDS:.0f} seconds: wait for it.") from None


def read_end(folder: Path, index: int) -> End | None:
    """How the command at an index ended; None while it has not, where it was stopped, or where that cannot be read."""
    try:
        noted = read_json(folder / f"{index}.end")
        return End(int(noted["code"]), str(noted["printed"]))
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


def write_end(folder: Path, index: int, end: End) -> None:
    """Note it."""
    write_json(folder / f"{index}.end", asdict(end))


def read_json(path: Path) -> Any:
    """The content of a file that is written atomically; None where there is none, or it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
