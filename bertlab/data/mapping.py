"""Reading files through memory maps, and keeping what they occupy in this process within bounds."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values in a file, (n,), read as they are needed. It counts as an open file for as long as the array lives."""
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)


def let_go(array: NDArray[Any]) -> None:
    """Takes the pages read so far out of this process's memory; reading them again is quick while the system caches the file.

    Pages of a mapped file count as the process's memory until the system needs them, which looks like, and on a cluster with memory
    limits may be taken for, a process that grows without bound. Arrays in memory are left alone.
    """
    owner: Any = array
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = getattr(owner, "base", None)
    if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)
