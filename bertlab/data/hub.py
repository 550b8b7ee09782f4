"""Data sets of the Hugging Face library ``datasets``: an id on its hub, or a folder. An optional extra, imported when it is asked for.

Left to itself the library asks a hub that does not answer again and again, for most of a minute, and prints its own lines meanwhile. So
it is asked once here, and where there is no answer the library is told that it is offline: it then takes what its cache has.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

from bertlab.errors import UserError

_PATIENCE = 5.0  # seconds for an answer of any kind


def open_dataset(key: str, name: str, subset: str | None, split: str | None = None) -> Any:
    """What ``key=name`` means: a ``Dataset``, or several by their splits.

    ``name`` is an id on the hub, a folder of data files, or one that the library saved, which heeds neither ``subset`` nor ``split``.

    Raises:
        UserError: the library is not installed, or the data set cannot be had.
    """
    try:
        import datasets
    except ImportError as error:
        raise UserError(f"{key}={name} needs the datasets library: pip install 'bertlab[huggingface]'") from error
    path = os.path.expanduser(name)
    saved = any(os.path.exists(os.path.join(path, file)) for file in ("state.json", "dataset_dict.json"))
    offline = not os.path.exists(path) and not _hub_answers()
    try:
        if saved:
            return datasets.load_from_disk(path)
        with _offline(datasets) if offline else nullcontext():
            return datasets.load_dataset(path, subset, split=split)
    except Exception as error:  # the library lets through whatever its file systems, its hub client and its builders raise
        told = (str(error).strip() or type(error).__name__).splitlines()[0]
        if offline and isinstance(error, ConnectionError):
            told = "the hub does not answer, and the cache does not have it"
        raise UserError(f"{key}={name}: the data set cannot be loaded ({told}); without internet, give a folder.") from error


def _hub_answers() -> bool:
    """Whether anything comes back from the hub, through whatever proxies the machine has."""
    import huggingface_hub

    if huggingface_hub.constants.HF_HUB_OFFLINE:
        return False
    try:
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=_PATIENCE)
    except Exception:  # of whichever client the library has: what matters is that there is no answer
        return False
    return True


@contextmanager
def _offline(datasets: ModuleType) -> Iterator[None]:
    """Have the libraries ask nobody and say nothing."""
    import huggingface_hub

    settings: tuple[Any, Any] = (datasets.config, huggingface_hub.constants)
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    before = [each.HF_HUB_OFFLINE for each in settings], [each.level for each in loggers]
    try:
        for each in settings:
            each.HF_HUB_OFFLINE = True
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for each, value in zip(settings, before[0], strict=True):
            each.HF_HUB_OFFLINE = value
        for logger, level in zip(loggers, before[1], strict=True):
            logger.setLevel(level)
