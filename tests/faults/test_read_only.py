"""Folders that nothing can be written to: what needs no writing goes on, the rest is refused in a sentence."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from run_numbers import sentence_of
from small_disk import NO_MOUNT, run_on_small_disk, way_to_mount
from small_runs import MakeConfig

from bertlab.config import CorpusConfig, PathsConfig
from bertlab.data import fingerprints
from bertlab.training.pretrain import pretrain


@pytest.mark.slow
@pytest.mark.skipif(way_to_mount() is None, reason=NO_MOUNT)
def test_a_file_system_that_is_read_only(tmp_path: Path, corpus: Path) -> None:
    disk, elsewhere = tmp_path / "disk", tmp_path / "elsewhere"
    elsewhere.mkdir()
    ended = run_on_small_disk(Path(__file__).with_name("write_nothing.py"), disk, 16, str(corpus), str(elsewhere))
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout.splitlines()[-1])
    assert said["new run"].startswith(f"The run's folder {disk}/empty/{said['folder']} cannot be made (Read-only file system)")
    assert said["begun run"].startswith(f"{disk}/begun/{said['folder']}")
    assert "Read-only file system: change that, or name another folder (as with paths.runs" in said["begun run"]
    assert "cannot be written: choose another folder with paths.cache=DIR" in said["new store"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_takes_nothing_is_told_with_the_file(number: int, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everywhere, also where root may write to every folder and none can be mounted."""

    def refused(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    config = make_config(**{"budget.steps": 6})
    pretrain(make_config(**{"budget.steps": 6, "paths.runs": f"{config.paths.runs}-before"}))  # so that the store is there
    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(OSError, match=r"config\.yaml") as caught:
        pretrain(config)
    said = sentence_of(caught.value)
    assert said.startswith(f"{config.paths.runs}/pretrain-small-")
    assert f"config.yaml: {os.strerror(number)}: " in said


def test_a_cache_that_takes_nothing_makes_no_other_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash of a large file is kept in the cache; where that cannot be done it is the same hash."""
    text = tmp_path / "text.txt"
    text.write_text("A sentence as good as any.\n" * 50_000)
    assert text.stat().st_size > 1 << 20
    corpus = CorpusConfig(kind="text", path=str(text))
    expected = fingerprints.source_fingerprint(corpus, PathsConfig(cache=str(tmp_path / "writable")))

    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(fingerprints, "write_atomically", refused)
    assert fingerprints.source_fingerprint(corpus, PathsConfig(cache=str(tmp_path / "other"))) == expected
