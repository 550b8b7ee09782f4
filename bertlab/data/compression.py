"""Files as a stream of bytes, decompressed by their suffix; several members in one file are read one after the other."""

from __future__ import annotations

import bz2
import gzip
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = (".gz", ".bz2", ".zst")
CHUNK = 1 << 18  # bytes
_COMPRESSED_CHUNK = 1 << 10  # bytes of input at once where the library does not bound the output: 32 MiB at most come of them
MOST_TIMES = 200  # that a file may grow; text shrinks to a tenth or so
FREE = 1 << 26  # bytes that every file may hold, however well it is compressed

# Everything that a file which is missing, forbidden, damaged or cut short raises while it is read.
READ_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)


def is_compressed(path: str) -> bool:
    """Whether the file's suffix says that it is compressed."""
    return bool(compression_of(path))


def compression_of(path: str) -> str:
    """The suffix that says how a file is decompressed; empty for a plain one."""
    return next((suffix for suffix in SUFFIXES if path.lower().endswith(suffix)), "")


def inner_suffix(path: str) -> str:
    """The suffix of what is inside: ``.jsonl`` of ``a.jsonl.gz``."""
    name = Path(path.lower())
    return Path(name.stem).suffix if is_compressed(path) else name.suffix


def chunks(path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The bytes of a file as they come; everything before a damaged place is given out first.

    ``start`` and ``end`` are for plain files. Raises one of ``READ_ERRORS`` where the file is not a regular one or cannot be read (on).
    """
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError("not a regular file")
    suffix = compression_of(path)
    if suffix == ".gz":
        yield from _in_proportion(path, _members(gzip.GzipFile(path, "rb")))
    elif suffix == ".bz2":
        yield from _in_proportion(path, _members(bz2.BZ2File(path, "rb")))
    elif suffix == ".zst":
        yield from _in_proportion(path, _zstandard_frames(path))
    else:
        yield from _plain(path, start, end, CHUNK)


def _in_proportion(path: str, stream: Iterator[bytes]) -> Iterator[bytes]:
    """The stream of a compressed file, which ends with an error where more comes out of it than of any text."""
    at_most, seen = max(FREE, MOST_TIMES * Path(path).stat().st_size), 0
    for chunk in stream:
        seen += len(chunk)
        if seen > at_most:
            raise OSError(f"it unpacks to more than {MOST_TIMES} times its size, which no text does")
        yield chunk


def _plain(path: str, start: int, end: int | None, size: int) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        left = sys.maxsize if end is None else end - start
        while chunk := file.read(min(size, left)):
            left -= len(chunk)
            yield chunk


def _members(file: gzip.GzipFile | bz2.BZ2File) -> Iterator[bytes]:
    # read1 hands over what it has: read would lose the bytes before a damaged place that falls within one call.
    with file:
        while chunk := file.read1(CHUNK):
            yield chunk


def _zstandard_frames(path: str) -> Iterator[bytes]:
    """The library's own stream reader takes a file that is cut short for a complete one, so frames are followed here."""
    import zstandard

    frame = None
    for compressed in _plain(path, 0, None, _COMPRESSED_CHUNK):
        while compressed:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            try:
                content = frame.decompress(compressed)
            except zstandard.ZstdError as error:
                raise OSError(f"damaged zstandard data: {error}") from error
            if content:  # of a block that has not all come there is none, and an empty chunk would be taken for the file's first bytes
                yield content
            compressed = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("compressed file ended before the end of its last frame")
