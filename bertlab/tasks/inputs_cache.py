"""Inputs on disk, under a name that is the hash of everything that decides them.

A file is the hash of what follows it (16 bytes), then the arrays as safetensors. It is written under another name and renamed, so two
processes may make the same one; a file that is not what was written is made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load, save

from bertlab.files import write_atomically
from bertlab.tasks.inputs import Inputs

FORMAT = 2  # raise it whenever the same examples become other inputs
FOLDER = "inputs"
HASH_BYTES = 16
ROWS_AT_ONCE = 1024


def key_of(options: dict[str, Any], rows: Iterable[Any]) -> str:
    """A hash of ``options`` and of the content of all examples, ``rows``."""
    digest = hashlib.blake2b(json.dumps({"format": FORMAT, **options}, sort_keys=True).encode(), digest_size=HASH_BYTES)
    remaining = iter(rows)
    while part := list(islice(remaining, ROWS_AT_ONCE)):
        # A lone surrogate is no UTF-8, but can come out of a JSON file.
        digest.update(json.dumps(part, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def cached(cache: Path, key: str, build: Callable[[], Inputs]) -> Inputs:
    """The inputs kept under ``key``, or those that ``build`` makes, which are then kept if the folder can be written to."""
    path = cache / FOLDER / f"{key}.bin"
    if (found := _read(path)) is not None:
        return found
    inputs = build()
    content = save({f.name: value for f in fields(Inputs) if (value := getattr(inputs, f.name)) is not None})
    with suppress(OSError):  # a full or write-protected disk costs time, and nothing else
        write_atomically(path, hashlib.blake2b(content, digest_size=HASH_BYTES).digest() + content)
    return inputs


def _read(path: Path) -> Inputs | None:
    """The inputs in a file; None where there is none, or it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body = memoryview(content)[HASH_BYTES:]
    if hashlib.blake2b(body, digest_size=HASH_BYTES).digest() != content[:HASH_BYTES]:
        return None
    try:
        return Inputs(**load(bytes(body)))
    except (SafetensorError, TypeError):  # an empty file has a right hash, too
        return None
