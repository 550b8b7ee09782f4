"""SLURM, asked through its commands: they work on every cluster, with or without accounting, and need no library."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from bertlab.errors import UserError
from bertlab.launcher_validation import seconds_of

SECONDS = 60.0  # that a command of SLURM may take: the controller of a large cluster is busy at times
_FIELDS = "%i|%T|%r|%j"  # id, state, reason, name

# States from which a job does not come back by itself. COMPLETING, REQUEUED and the like are on their way to another one.
_ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED")
_WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING", "SUSPENDED", "STOPPED", "RESV_DEL_HOLD")
_NEVER = "DependencyNeverSatisfied"  # of a job that waits for one that has failed; SLURM cancels it soon


@dataclass(frozen=True)
class JobState:
    """What SLURM says of one job, or of one job of an array."""

    state: str  # SLURM's word
    reason: str  # why it waits
    name: str  # of the job

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in _ENDED or self.reason == _NEVER

    @property
    def waits(self) -> bool:
        """Whether it has not begun, or has to begin again."""
        return self.state in _WAITING


class QueueSilent(Exception):
    """SLURM gives no answer just now; it may be asked again."""

    def as_user_error(self) -> UserError:
        """The error of a command that cannot go on without an answer."""
        return UserError(
            f"SLURM does not answer ({self}): run this on a login node of the cluster, and if its slurm.conf is not in the usual place,"
            " set SLURM_CONF to its path."
        )


def check_there() -> None:
    """Refuse to go on where there is no SLURM. Raises ``UserError``."""
    if shutil.which("sbatch") is None:
        raise UserError("There is no SLURM on this machine (no sbatch): run this on a login node, or leave launcher=slurm out.")


def check_answers(seconds: float) -> None:
    """Ask the queue whether it is there. Raises ``QueueSilent`` where it does not say so in time."""
    _asked(["squeue", "--me", "--noheader"], seconds)


def states() -> dict[str, JobState]:
    """The user's jobs that the queue holds or has lately held, by their ids: ``123``, and ``123_4`` of an array.

    Raises:
        QueueSilent: no answer.
    """
    lines = _asked(["squeue", "--me", "--array", "--states=all", "--noheader", f"--format={_FIELDS}"]).splitlines()
    found = {}
    for line in lines:
        number, state, reason, name = (*line.strip().split("|", 3), "", "", "")[:4]
        found[number] = JobState(state, reason, name)
    return found


def has_gpus(partition: str | None) -> bool:
    """Whether nodes of a partition (None: of any) have GPUs. Raises ``UserError`` where nothing is known of it."""
    asked = ["sinfo", "--noheader", "--format=%G", *([] if partition is None else [f"--partition={partition}"])]
    try:
        return "gpu" in _asked(asked)
    except QueueSilent as error:
        raise error.as_user_error() from error


def seconds_left(job: str) -> float:
    """Until a running job's time limit; infinity where it has none. Raises ``QueueSilent``."""
    said = _asked(["squeue", "--noheader", f"--jobs={job}", "--format=%L"]).strip()
    return seconds_of(said) if re.fullmatch(r"[\d:-]+", said) else math.inf


def largest_array() -> int:
    """How many jobs an array may have."""
    try:
        found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _asked(["scontrol", "show", "config"]), re.MULTILINE)
    except QueueSilent:
        found = None
    return max(1, int(found[1]) - 1) if found else 1000  # one less: the indices are bounded, not the number


def wait_for(waiting: Sequence[str], job: str | None) -> None:
    """Have ``waiting`` jobs, or jobs of arrays, begin only when ``job`` has ended well; None: at once. Raises ``QueueSilent``."""
    _asked(["scontrol", "update", f"jobid={','.join(waiting)}", f"dependency={'' if job is None else f'afterok:{job}'}"])


def cancel(jobs: Sequence[str]) -> None:
    """End jobs. Raises ``QueueSilent``."""
    if jobs:
        _asked(["scancel", *jobs])


def ask_processes(job: str) -> None:
    """Send SIGTERM to the processes that srun has started in a job. Raises ``QueueSilent``."""
    _asked(["scancel", "--signal=TERM", job])


def requeue(job: str) -> None:
    """End a job and queue it again. Raises ``QueueSilent``."""
    _asked(["scontrol", "requeue", job])


def _asked(command: list[str], seconds: float = SECONDS) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise QueueSilent(f"{command[0]} said nothing in {seconds:.0f} seconds") from error
    except OSError as error:
        raise QueueSilent(str(error)) from error
    if answer.returncode != 0:
        raise QueueSilent(_last_complaint(answer.stderr) or f"{command[0]} ended with exit code {answer.returncode}")
    return answer.stdout


def _last_complaint(said: str) -> str:
    """The last line of what a command of SLURM complains of, which is the end of it: lines before say where it came from in its code."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return re.sub(r"^\w+: (error|fatal): ", "", lines[-1]).rstrip(".") if lines else ""
