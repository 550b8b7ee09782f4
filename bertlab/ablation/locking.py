"""A lock a node, so that no two processes run the same node at the same time, whichever commands, or machines, they belong to.

The lock is the system's own (flock) on a file beside the record. It belongs to the opened file and not to a process: a command that
inherits the open file holds the lock with whoever started it, and it is free when the last of them has ended, in whatever way. So a
run that outlives a killed grid for a moment, to save its state, is not begun a second time in that moment. On a network file system
that turns flock into locks of processes (NFS) only the first process holds it; the run folder's own lock is behind that.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

PAUSE = 0.05  # seconds between tries


def lock_path(runs: Path, key: str) -> Path:
    """The file that a node's lock is on. It stays: removing one that another process has just opened would make two locks of it."""
    return runs / "grid" / f"{key}.lock"


class NodeLock:
    """The right to run a node; not blocking, given back by ``release``, the end of a ``with`` block, or the process's end."""

    def __init__(self, runs: Path, key: str) -> None:
        self._path = lock_path(runs, key)
        self._descriptor: int | None = None

    @property
    def descriptor(self) -> int:
        """The open file: a process that inherits it holds the lock, too."""
        assert self._descriptor is not None, "the lock is not held"
        return self._descriptor

    def acquire(self, patience: float = 0.0) -> bool:
        """Take the lock; False where another process has it, and kept it for ``patience`` seconds."""
        import fcntl

        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return False
                time.sleep(PAUSE)
                continue
            self._descriptor = descriptor
            return True

    def release(self) -> None:
        """Give this process's part of the lock back; those that inherited it keep theirs."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


def is_locked(runs: Path, key: str) -> bool:
    """Whether some process runs the node just now. The folder may be one that this process cannot write to."""
    import fcntl

    try:
        descriptor = os.open(lock_path(runs, key), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
