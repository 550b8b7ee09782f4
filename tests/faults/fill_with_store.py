"""Prepare a corpus on a disk with ever more room, as ``fill_with_runs.py`` trains: ``fill_with_store.py DISK CORPUS``."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from run_numbers import sentence_of
from small_disk import leave_free, make_room

from bertlab.config import CorpusConfig, PathsConfig, TokenizerConfig
from bertlab.data.prepare import prepare
from bertlab.data.store import FILES, MANIFEST, TokenStore

STEP = 24 * 1024


def main(disk: Path, corpus: Path) -> None:
    cache = disk / "cache"

    def stored() -> dict[str, bytes]:
        given = CorpusConfig(kind="text", path=str(corpus), sentence_splitting="line")
        store = prepare(given, TokenizerConfig(vocab_size=200), PathsConfig(cache=str(cache)), workers=1, progress=False)
        TokenStore.open(store.folder, verify=True)
        return {name: (store.folder / name).read_bytes() for name in (*FILES, MANIFEST)}

    expected, free, times = stored(), 0, 0
    while True:
        shutil.rmtree(cache)
        leave_free(disk, free)
        try:
            made = stored()
        except Exception as error:
            said = sentence_of(error)
        else:
            break
        finally:
            make_room(disk)
        assert said == f"The disk of {cache} is full: make room, or choose another folder with paths.cache=DIR.", said
        assert not list(cache.glob(f"stores/*/{MANIFEST}")) or list(cache.glob(f"stores/*.joining/{MANIFEST}"))
        assert stored() == expected, free
        times, free = times + 1, free + STEP
    assert made == expected
    print(json.dumps({"times": times}))


if __name__ == "__main__":  # the processes that prepare it import this file, too
    main(*(Path(word) for word in sys.argv[1:3]))
