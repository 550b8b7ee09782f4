"""Copies of token stores on a disk of the machine itself (``paths.local``), for a cache on a file system that many share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from bertlab.data.made_once import to_be_made
from bertlab.data.store import FILES, MANIFEST, TokenStore, check_once
from bertlab.errors import UserError
from bertlab.files import sync_folder

STAGED = "bertlab-stores"  # the folder of copies


def staged(store: TokenStore, local: str, say: Callable[[str], None]) -> TokenStore:
    """The same store, read from a copy in the folder ``local``; of the processes of a machine one makes it where it is missing.

    The copy is compared with the store's hashes. It stays there for later runs: nobody else deletes it.

    Raises:
        UserError: there is no room, the folder cannot be written to, or the copy was damaged.
    """
    target = Path(os.path.expanduser(local)).absolute() / STAGED / store.fingerprint
    try:
        with to_be_made(target, say) as missing:
            if missing:
                _check_room(store, target)
                say(f"Copying the token store to {target} …")
                _copy(store.folder, target)
    except OSError as error:
        raise UserError(f"paths.local={local}: {error.strerror}. Name a folder on a disk of this machine, or leave it out.") from error
    check_once(target)
    return TokenStore(target, store.manifest, store.sources)


def _check_room(store: TokenStore, target: Path) -> None:
    needed, free = sum(entry["bytes"] for entry in store.manifest["files"].values()), shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(
            f"The token store takes {needed / 1e9:.2f} GB, and {target.parent} has room for {free / 1e9:.2f} GB: leave paths.local out, or"
            " name a larger disk."
        )


def _copy(folder: Path, target: Path) -> None:
    """File by file under another name, which then becomes the target's."""
    unfinished = target.with_name(f"{target.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    unfinished.mkdir()
    for name in (*FILES, MANIFEST):
        shutil.copyfile(folder / name, unfinished / name)
    os.rename(unfinished, target)
    sync_folder(target.parent)
