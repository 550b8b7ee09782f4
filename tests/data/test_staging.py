"""Copies of token stores on a disk of the machine itself."""

from __future__ import annotations

import multiprocessing
import os
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertlab.config import CorpusConfig, PathsConfig, TokenizerConfig
from bertlab.data.prepare import prepare
from bertlab.data.store import TokenStore
from bertlab.errors import UserError

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> tuple[CorpusConfig, TokenizerConfig, PathsConfig]:
    """A corpus of two sources whose store is in the cache."""
    folder = tmp_path_factory.mktemp("shared")
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(
            "\n\n".join(f"The {name} dog number {line} ran far.\nIt slept {line} hours." for line in range(40))
        )
    sources = {
        name: CorpusConfig(kind="sentences", path=str(folder / f"{name}.txt"), weight=weight) for name, weight in (("a", 1.0), ("b", 3.0))
    }
    corpus, tokenizer = CorpusConfig(kind="mixture", sources=sources), TokenizerConfig(vocab_size=60)
    paths = PathsConfig(cache=str(folder / "cache"))
    prepare(corpus, tokenizer, paths, workers=1, progress=False, say=lambda line: None)
    return corpus, tokenizer, paths


def opened(cached: tuple[CorpusConfig, TokenizerConfig, PathsConfig], local: Path | None, said: list[str] | None = None) -> TokenStore:
    corpus, tokenizer, paths = cached
    place = None if local is None else str(local)
    return prepare(corpus, tokenizer, replace(paths, local=place), progress=False, say=[].append if said is None else said.append)


def test_a_store_is_copied_once_and_read_from_there(cached: Any, tmp_path: Path) -> None:
    said: list[str] = []
    shared, local = opened(cached, None), opened(cached, tmp_path / "disk", said)
    assert local.folder.is_relative_to(tmp_path / "disk")
    assert local.fingerprint == shared.fingerprint
    assert np.array_equal(local.tokens, shared.tokens)
    assert [source.weight for source in local.sources] == [1.0, 3.0]
    assert sum("Copying" in line for line in said) == 1
    again = opened(cached, tmp_path / "disk", said)
    assert sum("Copying" in line for line in said) == 1
    assert again.folder == local.folder


def test_a_copy_that_was_damaged_is_refused_and_one_that_was_not_finished_made_anew(cached: Any, tmp_path: Path) -> None:
    local = opened(cached, tmp_path)
    unfinished = local.folder.with_name(f"{local.folder.name}.part")
    local.folder.rename(unfinished)
    (unfinished / "tokens.bin").write_bytes(b"half")
    local = opened(cached, tmp_path)
    assert not unfinished.exists()
    content = bytearray((local.folder / "tokens.bin").read_bytes())
    content[-1] ^= 1
    (local.folder / "tokens.bin").write_bytes(content)
    with pytest.raises(UserError, match=r"tokens\.bin"):
        opened(cached, tmp_path)


def test_a_disk_without_room_or_right_is_refused(cached: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match=r"paths\.local=.*file.*Name a folder on a disk of this machine"):
        opened(cached, tmp_path / "file")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage(10, 10, 0))
    with pytest.raises(UserError, match=r"has room for 0\.00 GB: leave paths\.local out"):
        opened(cached, tmp_path / "disk")


def _copies(cached: Any, local: Path, results: Any) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    said: list[str] = []
    results.put((opened(cached, local, said).fingerprint, sum("Copying" in line for line in said)))


def test_of_several_processes_of_a_machine_one_copies(cached: Any, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_copies, args=(cached, tmp_path, results)) for _ in range(3)]
    for process in processes:
        process.start()
    found = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    assert {fingerprint for fingerprint, _ in found} == {opened(cached, None).fingerprint}
    assert sum(copied for _, copied in found) == 1
