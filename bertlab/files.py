"""Files that are either wholly there or not there: written under a temporary name, flushed to the disk, then renamed."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


@contextmanager
def naming(path: Path, instead_of: Path | None = None) -> Iterator[None]:
    """Have an ``OSError`` of the block say that it is about ``path``: of a file that is open already the system names none.

    ``instead_of``: the name that nobody is to see, of the file before it is whole.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or error.filename == str(instead_of):
            error.filename = str(path)
        raise


@contextmanager
def written_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A binary file to write to; it appears as ``path`` when the block ends without an exception, and never in part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # processes of two machines may have one number
    try:
        with naming(path, instead_of=temporary):
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # of a folder that cannot be written to the same would be said once more
            temporary.unlink()
        raise
    sync_folder(path.parent)


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8) to ``path``; a reader sees the old file or the new one, whatever happens in between."""
    with written_atomically(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON to ``path``, atomically."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def sync_folder(folder: Path) -> None:
    """Make a rename inside ``folder`` survive a power cut (where the system lets folders be flushed)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with naming(folder):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def touched(state: os.stat_result) -> list[int]:
    """What differs whenever a file's content may: its size, its times of change and its number.

    Size and modification time alone may stay: ``tar -x`` and ``rsync -t`` set the time that a file had elsewhere. The system's own time of
    change cannot be set, and a file that takes another one's place has another number.
    """
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def is_plain_name(name: str) -> bool:
    """Whether ``name`` is one of something inside a folder, which leads nowhere else."""
    return bool(name) and name not in (".", "..") and not set(name) & {"/", "\\", "\0"}
