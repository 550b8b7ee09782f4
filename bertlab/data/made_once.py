"""Files and folders of the cache that several processes may want at once: one makes each, the others wait and find it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

FIRST_REPORT, LAST_REPORT = 30.0, 300.0  # seconds after which whoever waits says so again: more from one time to the next


@contextmanager
def to_be_made(path: Path, say: Callable[[str], None], how_far: Callable[[], str] = lambda: "") -> Iterator[bool]:
    """Whether ``path`` is missing. If it is, this process alone is to make it inside the block; others wait, and find it then.

    ``say`` is told when there is somebody to wait for, and again and again while it lasts, with what ``how_far`` says of the other's work.
    """
    if path.exists():
        yield False
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(path.name + ".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"Another process is making {path}: waiting for it.")
        _wait(lock, path, say, how_far)
    try:
        yield not path.exists()
    finally:
        lock.release()


def _wait(lock: BaseFileLock, path: Path, say: Callable[[str], None], how_far: Callable[[], str]) -> None:
    begin, pause = time.monotonic(), FIRST_REPORT
    while True:
        try:
            lock.acquire(timeout=pause)
            return
        except Timeout:
            done = f": {said}" if (said := how_far()) else ""
            say(f"Still waiting for {path}, {(time.monotonic() - begin) / 60:.1f} minutes so far{done}.")
            pause = min(2 * pause, LAST_REPORT)
