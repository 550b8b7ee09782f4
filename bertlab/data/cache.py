"""Where things that can be built again are kept between runs."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bertlab.config import PathsConfig
from bertlab.errors import UserError


def cache_folder(paths: PathsConfig | None = None) -> Path:
    """The folder for token stores, vocabularies and memoised fingerprints; made where it is missing.

    It is ``paths.cache``, else $BERTLAB_CACHE, else the user's cache folder.

    Raises:
        UserError: no folder can be there.
    """
    given = (paths.cache if paths else None) or os.environ.get("BERTLAB_CACHE")
    if given:
        folder = Path(os.path.expanduser(given))  # pathlib's own raises where there is no such user
    else:
        from platformdirs import user_cache_path

        folder = user_cache_path("bertlab")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:  # as below /proc, where no folder can be made
        raise UserError(f"The folder {folder} cannot be made: choose another one with paths.cache=DIR.") from error
    return folder


@contextmanager
def refusals_told(folder: Callable[[], Path]) -> Iterator[None]:
    """Say it in a sentence where the cache is full or cannot be written to; ``folder`` tells which that is.

    Raises:
        UserError: in place of what the system raised.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UserError(f"The disk of {folder()} is full: make room, or choose another folder with paths.cache=DIR.") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UserError(f"{error.filename} cannot be written: choose another folder with paths.cache=DIR.") from error
        raise
