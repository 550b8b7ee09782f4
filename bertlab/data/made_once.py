"""Files and folders of the cache that several processes may want at once: one makes each, the others wait and find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def to_be_made(path: Path, say: Callable[[str], None]) -> Iterator[bool]:
    """Whether ``path`` is missing. If it is, this process alone is to make it inside the block; others wait, and find it then.

    ``say`` is told when there is somebody to wait for.
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
        lock.acquire()
    try:
        yield not path.exists()
    finally:
        lock.release()
