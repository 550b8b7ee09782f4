"""The C library's memory allocator, told to keep what a training step frees: the next step needs the very same blocks."""

from __future__ import annotations

import ctypes
import sys

# mallopt's parameters, from glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_MAX = -4


def tune_allocator() -> bool:
    """Keep freed blocks in the process; to be called before PyTorch is imported. Returns whether it did anything.

    By default glibc maps every block over some hundred kilobytes anew and gives it back when it is freed, so each step of training
    on a CPU pays a page fault for every 4 KiB of every intermediate result. Without maps and trimming the pages stay.
    Only Linux with glibc is touched; elsewhere nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # musl and others
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    settings = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 64 * 2**20))
    return bool(sum(mallopt(parameter, value) for parameter, value in settings) == len(settings))
