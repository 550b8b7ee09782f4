"""Small files that claim to be large: what they claim is neither believed nor allocated."""

from __future__ import annotations

import bz2
import gzip
import json
import resource
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zstandard
from written_runs import small_architecture, small_vocabulary, write_run

from bertlab.ablation.grid import load_grid
from bertlab.data import compression
from bertlab.data.compression import FREE, MOST_TIMES, chunks
from bertlab.errors import UserError
from bertlab.interop.pretrained import load_pretrained
from bertlab.models.features import FeatureSource
from bertlab.run_files.folder import RunFolder
from bertlab.run_files.weight_files import read_weights
from bertlab.tasks.rows import read_text
from bertlab.yaml_files import read_yaml

MUCH = 10**12


@contextmanager
def little_memory(at_most: int = 1 << 30) -> Iterator[None]:
    """Whatever takes more than ``at_most`` bytes on top of what this process has fails with MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + at_most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_little_memory_is_little() -> None:
    with little_memory(), pytest.raises(MemoryError):
        np.ones(1 << 28)


def safetensors(path: Path, header: bytes, length: int | None = None) -> Path:
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + b"\0" * 16)
    return path


@pytest.mark.parametrize(
    "write",
    [
        lambda path: safetensors(path, b"{}", MUCH),
        lambda path: safetensors(path, b"{}", 2**64 - 1),
        lambda path: safetensors(path, json.dumps({"w": {"dtype": "F32", "shape": [MUCH], "data_offsets": [0, 4 * MUCH]}}).encode()),
        lambda path: safetensors(path, json.dumps({"w": {"dtype": "F32", "shape": [MUCH], "data_offsets": [0, 16]}}).encode()),
        lambda path: safetensors(path, json.dumps({"w": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 0]}}).encode()),
        lambda path: safetensors(path, b'{"a":' * 20_000),
    ],
    ids=["header", "no header", "tensor", "shape", "overflow", "nested"],
)
def test_weights(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path / "model.safetensors")
    with little_memory(), pytest.raises(UserError, match=r"model\.safetensors"):
        read_weights(path)


@pytest.mark.parametrize("key", ["layers", "hidden", "intermediate", "positions", "vocab_size", "segments", "heads"])
@pytest.mark.parametrize("value", [MUCH, 10**7, -1, 2.5, None, "8", True, [8]])
def test_an_architecture(key: str, value: object, tmp_path: Path) -> None:
    vocabulary = small_vocabulary()
    run = RunFolder(write_run(tmp_path / "runs" / "pretrain-small-mlm_nsp-0123abcd", vocabulary, small_architecture(vocabulary)))
    run.architecture.write_text(json.dumps(json.loads(run.architecture.read_text()) | {key: value}))
    with little_memory(), pytest.raises(UserError):
        load_pretrained(str(run.path), tmp_path / "runs")


@pytest.mark.parametrize("shape", [(MUCH, 1, 4), (2**62, 2**62, 4), (3, 4), (2, 1, 4)])
def test_features(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        file.write(b"\0" * 48)
    with little_memory(), pytest.raises(UserError, match="are damaged"):
        FeatureSource(path, np.array([0, 3]))


def test_features_are_no_pickles(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.array([{}] * 3, dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="are damaged"):
        FeatureSource(tmp_path / "f.npy", np.array([0, 3]))


LITTLE = 1 << 22  # in place of what every file may hold: the tests are the faster


def bomb(suffix: str) -> bytes:
    """Zeros that unpack to far more than they should be allowed to."""
    size = 3 * LITTLE // 2
    if suffix == ".zst":
        return zstandard.compress(b"\0" * size)
    return (gzip.compress if suffix == ".gz" else bz2.compress)(b"\0" * size, 9)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_a_file_that_unpacks_without_end(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE", LITTLE)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(bomb(suffix))
    assert MOST_TIMES * path.stat().st_size < LITTLE
    sizes: list[int] = []
    with pytest.raises(OSError, match="unpacks to more than"):
        sizes.extend(map(len, chunks(str(path))))
    with pytest.raises(UserError, match=r"a\.\w+ cannot be read: it unpacks to more than"):
        read_text(path)


def test_little_comes_out_of_a_file_at_once(tmp_path: Path) -> None:
    """Also where the library does not bound it."""
    (tmp_path / "a.zst").write_bytes(zstandard.compress(b"\0" * FREE))
    assert max(map(len, chunks(str(tmp_path / "a.zst")))) <= 1 << 25


def test_a_file_of_few_bytes_may_unpack_to_many(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n" * (FREE // 8)))
    assert len(read_text(tmp_path / "a.gz")) == FREE // 4


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
YAML = {
    "aliases": (LAUGHS, "written out"),
    "itself": ("a: &a [*a]", "written out"),
    "nested": ("[" * 2_000, "nested too deeply"),
    "nested keys": ("{a: " * 2_000, "nested too deeply"),
    "a date": ("a: 2001-99-99", "month"),
    "a number": ("a: " + "9" * 5000, "digits"),
    "a tag": ("a: !!python/name:os.system ''", "could not determine a constructor"),
    "no text": ("\0", "special characters"),
}


@pytest.mark.parametrize("what", YAML)
def test_yaml(what: str, tmp_path: Path) -> None:
    text, said = YAML[what]
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with little_memory():
        with pytest.raises(UserError, match=said):
            read_yaml(path)
        with pytest.raises(UserError, match=r"a\.yaml"):
            load_grid(str(path))
        path.rename(tmp_path / "config.yaml")
        with pytest.raises(UserError, match=r"config\.yaml"):
            RunFolder(tmp_path).read_config()
