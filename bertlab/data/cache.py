"""Where things that can be built again are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

from bertlab.config import PathsConfig


def cache_folder(paths: PathsConfig | None = None) -> Path:
    """The folder for token stores, vocabularies and memoised fingerprints; made where it is missing.

    It is ``paths.cache``, else $BERTLAB_CACHE, else the user's cache folder.
    """
    given = (paths.cache if paths else None) or os.environ.get("BERTLAB_CACHE")
    if given:
        folder = Path(os.path.expanduser(given))  # pathlib's own raises where there is no such user
    else:
        from platformdirs import user_cache_path

        folder = user_cache_path("bertlab")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
