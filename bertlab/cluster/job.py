"""What looks after a command on its node: ``python -m bertlab.cluster.job FOLDER``, the batch process of every job.

The signals of SLURM and what is made of them:

- SIGUSR2, some time before the limit, to this process alone: the command is asked to save its state and end (SIGTERM); then the job is
  queued again, and goes on from there. SLURM sends it up to a minute too early, which of a short job can be all that it has, so it is
  heeded when ``launcher.warning`` seconds are left.
- SIGTERM, to every process of the job: it is cancelled, preempted, or queued again by somebody. The command has got the signal, too;
  whether the job begins again is the queue's affair.
- A node that fails sends nothing: SLURM queues the job again, and the run goes on from its last saved state.

The exit code is the command's, since jobs that depend on this one begin only when it is 0.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from bertlab.cluster.alone import alone
from bertlab.cluster.queue import QueueSilent, requeue, seconds_left
from bertlab.cluster.submission import COMMANDS, End, read_json, write_end
from bertlab.files import write_atomically
from bertlab.messages import say
from bertlab.patience import LOCK_SECONDS

MOST_EARLY = 90.0  # seconds that SLURM's signal may come before it was wanted
PAUSE = 0.2  # seconds between two looks at the command
# Of a command that was asked to stop, with its state saved, or before it had any.
_STOPPED = (128 + signal.SIGTERM, -signal.SIGTERM, 128 + signal.SIGUSR1, -signal.SIGUSR1)
_PATIENCE = "120"  # seconds for the locks of a node that was lost, which a file server gives back when it misses the node


def run_job(folder: Path, environment: Mapping[str, str]) -> int:
    """Run the command that is this job's; returns its exit code."""
    index = int(environment.get("SLURM_ARRAY_TASK_ID", "0"))
    job, restarts = _id(environment), int(environment.get("SLURM_RESTART_COUNT", "0"))
    submitted = read_json(folder / COMMANDS)
    command = submitted["commands"][index]
    write_atomically(folder / f"{index}.attempt", str(restarts))
    (folder / f"{index}.end").unlink(missing_ok=True)
    say(f"job {job}{f', queued again for time {restarts}' if restarts else ''}: {command['title']}")
    signals = _Signals()
    code, printed = _run(command["words"], environment, signals, lambda: _seconds_to_stop(job, float(submitted["warning"])))
    if signals.warned and not signals.ended and code in _STOPPED:
        return _queue_again(job, restarts, int(submitted["requeues"]), folder, index)
    if (not signals.ended or code not in _STOPPED) and _is_newest(folder, index, restarts):
        write_end(folder, index, End(code, os.path.abspath(printed) if os.path.isdir(printed) else printed))
    return code if code >= 0 else 128 - code


def _is_newest(folder: Path, index: int, restarts: int) -> bool:
    """Whether the job has not begun again elsewhere: a node that was lost may only have been out of reach, and its processes be alive."""
    return (folder / f"{index}.attempt").read_text() == str(restarts)


def _id(environment: Mapping[str, str]) -> str:
    """The job's id, as the queue's list has it."""
    if "SLURM_ARRAY_JOB_ID" in environment:
        return f"{environment['SLURM_ARRAY_JOB_ID']}_{environment['SLURM_ARRAY_TASK_ID']}"
    return environment.get("SLURM_JOB_ID", "")


def _queue_again(job: str, restarts: int, most: int, folder: Path, index: int) -> int:
    """Have SLURM begin the job again; returns the exit code in case it does not."""
    if restarts >= most:
        say(f"The job was queued again {restarts} times (launcher.requeues={most}) and is not queued any more; the same command goes on.")
    else:
        say("The job is queued again, and goes on from there.")
        try:
            requeue(job)
            return 128 + signal.SIGTERM
        except QueueSilent as error:
            say(f"The job cannot be queued again ({error}); the same command goes on.")
    write_end(folder, index, End(128 + signal.SIGTERM, ""))
    return 128 + signal.SIGTERM


def _seconds_to_stop(job: str, warning: float) -> float:
    """How long a run may go on after SLURM's signal: until ``warning`` seconds are left."""
    try:
        early = seconds_left(job) - warning
    except QueueSilent:
        return 0.0
    return max(0.0, early) if early < MOST_EARLY else 0.0  # a signal that comes at another time was sent by somebody, and holds at once


def _run(words: list[str], environment: Mapping[str, str], signals: _Signals, seconds_to_stop: Callable[[], float]) -> tuple[int, str]:
    """The command's exit code, minus the number of a signal that ended it, and the last line of what it printed."""
    # On several nodes, where somebody says where the processes are to meet, they are to meet there.
    meeting = ("MASTER_ADDR", "MASTER_PORT") if environment.get("SLURM_JOB_NUM_NODES", "1") != "1" else ()
    own = alone(environment) | {name: environment[name] for name in meeting if name in environment}
    own |= {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1", LOCK_SECONDS: _PATIENCE}
    with tempfile.TemporaryFile() as printed:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=printed, env=own)
        stop_at, asked = math.inf, False
        while (code := child.poll()) is None:
            if signals.warned and stop_at == math.inf:
                stop_at = time.monotonic() + seconds_to_stop()
            if time.monotonic() >= stop_at and not asked:
                asked = True
                say("The time limit is near: the run is asked to save its state.")
                child.send_signal(signal.SIGTERM)
            time.sleep(PAUSE)
        printed.seek(0)
        said = printed.read().decode(errors="replace")
    print(said, end="", flush=True)
    return code, next((line.strip() for line in reversed(said.split("\n")) if line.strip()), "")


class _Signals:
    """What SLURM has sent."""

    def __init__(self) -> None:
        self.warned = self.ended = False
        signal.signal(signal.SIGUSR2, self._note)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGUSR2:
            self.warned = True
        else:
            self.ended = True


if __name__ == "__main__":
    sys.exit(run_job(Path(sys.argv[1]), os.environ))
