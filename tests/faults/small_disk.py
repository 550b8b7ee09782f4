"""File systems of a few megabytes that one process alone sees: to be filled to the last page, or made read-only, without harm.

A mount name space of its own takes root, or a system that lets anyone have one (unshare --user).
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

_WAYS = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))
_MOUNT = 'mount -t tmpfs -o "size=$1" none "$2" && shift 2 && exec "$@"'


@cache
def way_to_mount() -> tuple[str, ...] | None:
    """The command before which a file system can be mounted; None where none can be."""
    for way in _WAYS if sys.platform.startswith("linux") else ():
        try:
            tried = subprocess.run([*way, "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"], capture_output=True, timeout=20)
        except OSError:
            continue
        if tried.returncode == 0:
            return way
    return None


NO_MOUNT = "no file system can be mounted here: it takes Linux, and root or user name spaces"


def run_on_small_disk(program: Path, disk: Path, megabytes: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program, with ``disk`` and the ``words`` as its arguments, to which ``disk`` is a file system of so many megabytes."""
    disk.mkdir()
    way = way_to_mount()
    assert way is not None
    command = [*way, "sh", "-c", _MOUNT, "sh", f"{megabytes}m", str(disk), sys.executable, str(program), str(disk), *words]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def leave_free(disk: Path, size: int) -> None:
    """Fill the file system up to ``size`` bytes."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    state = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize - size)


def make_room(disk: Path) -> None:
    """Take away what fills it."""
    (disk / "ballast").unlink()


def make_read_only(disk: Path) -> None:
    """Nothing on it can be changed any more, by nobody."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
