"""The further processes of a run on this machine, which its first one starts where neither srun nor torchrun has, and watches.

Each is the same command with LOCAL_RANK in its environment. None outlives the first one's block, and the first one never waits for one
that has ended: mostly it notices by itself, when what they compute together fails; where it cannot, as while they meet, it is ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bertlab.launched import starts_others
from bertlab.training.progress import say

NOTICE = 20.0  # seconds that the first process has for noticing by itself
_PAUSE = 0.5
_END = 30.0  # seconds that the others have for ending once their work is done
_ASKED_TO_STOP = 128  # exit codes above are of signals, and those are agreed on


@contextmanager
def others_started() -> Iterator[None]:
    """Have them for the length of the block; nothing happens where this process is to start none."""
    count = starts_others()
    others = [subprocess.Popen(_this_command(), env={**os.environ, "LOCAL_RANK": str(rank)}) for rank in range(1, count + 1)]
    over = threading.Event()
    if others:
        threading.Thread(target=_watch, args=(others, over), daemon=True, name="watch other processes").start()
    try:
        yield
    except Exception:
        over.set()
        for process in others:  # what they wait for will not come
            process.kill()
        raise
    finally:
        over.set()
        for process in others:
            _end(process)


def _this_command() -> list[str]:
    """What started this process, as Lightning finds it: a module, or a program."""
    import __main__

    specification = getattr(__main__, "__spec__", None)
    if specification is None:
        return [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]
    return [sys.executable, "-m", specification.name.removesuffix(".__main__"), *sys.argv[1:]]


def _watch(others: Sequence[subprocess.Popen[bytes]], over: threading.Event) -> None:
    """End this process if one of the others has ended badly and it goes on as if nothing had happened."""
    while not over.wait(_PAUSE):
        failed = next((process for process in others if process.poll() and not _was_asked_to_stop(process)), None)
        if failed is None:
            continue
        if not over.wait(NOTICE):
            for process in others:
                process.kill()
            say(
                f"bertlab: process {others.index(failed) + 1} of this run has ended ({_in_words(failed.returncode)}), so this one ends too."
            )
            os._exit(1)
        return


def _was_asked_to_stop(process: subprocess.Popen[bytes]) -> bool:
    return process.returncode > _ASKED_TO_STOP


def _in_words(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
