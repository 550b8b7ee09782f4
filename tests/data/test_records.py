from __future__ import annotations

import builtins
import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import read_all, read_file

from bertlab.config import CorpusConfig, PathsConfig
from bertlab.data import hub, huggingface
from bertlab.data.documents import Problem
from bertlab.data.fingerprints import source_fingerprint
from bertlab.data.pieces import pieces
from bertlab.errors import UserError

TEXTS = [f"Text number {number}." for number in range(1000)]


def write_parquet(path: Path, texts: Any = None, **options: Any) -> None:
    column = pa.array(TEXTS) if texts is None else texts
    pq.write_table(pa.table({"id": range(len(column)), "text": column}), path, **options)


def test_a_parquet_file_with_a_damaged_name_of_a_column_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path)
    whole = path.read_bytes()
    footer = whole.rindex(b"ARROW:schema")
    path.write_bytes(whole[:footer].replace(b"text", b"\x80ext") + whole[footer:])
    documents, report = read_all(CorpusConfig(kind="parquet", path=str(path)))
    assert not documents
    assert report.counts == {Problem.UNREADABLE: 1}


def test_what_is_inside_a_parquet_column_cannot_be_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"meta": [{"text": "x"}], "words": ["y"]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"are 'meta', 'words'; name one .* \(what is inside a column can be named in JSON lines alone\)"):
        read_file("parquet", tmp_path, column="meta.text")


def test_parquet_row_groups_are_pieces_in_order(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", row_group_size=150)
    corpus = CorpusConfig(kind="parquet", path=str(tmp_path))
    assert len(pieces(corpus, size=1)) == 7
    for size in (1, 5000, 1 << 30):
        documents, report = read_all(corpus, size)
        assert [document.blocks for document in documents] == [[text] for text in TEXTS]
        assert [document.origin for document in documents] == [f"{tmp_path}/a.parquet:{row}" for row in range(1, 1001)]
        assert not report.counts


def test_parquet_compressed_from_outside(tmp_path: Path) -> None:
    write_parquet(tmp_path / "plain")
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    assert read_file("parquet", tmp_path)[0] == [[text] for text in TEXTS]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()])
def test_parquet_columns_of_every_kind_of_text(tmp_path: Path, kind: pa.DataType) -> None:
    write_parquet(tmp_path / "a.parquet", pa.array(["One.", None, "Two."]).cast(kind))
    assert read_file("parquet", tmp_path) == ([["One."], ["Two."]], {Problem.NO_TEXT: 1})


def test_malformed_text_in_parquet_is_repaired(tmp_path: Path) -> None:
    bad = pa.array([b"g\xe4rn", b"a\0b"], pa.binary())
    column = pa.StringArray.from_buffers(2, bad.buffers()[1], bad.buffers()[2])
    write_parquet(tmp_path / "a.parquet", column)
    assert read_file("parquet", tmp_path) == ([["g\ufffdrn"], ["ab"]], {Problem.BAD_UTF8: 1, Problem.NUL: 1})


def test_damaged_parquet_is_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    write_parquet(tmp_path / "b.parquet")
    whole = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "c.parquet.gz").write_bytes(gzip.compress(whole)[:-20])
    documents, counts = read_file("parquet", tmp_path)
    assert len(documents) == 1000
    assert counts == {Problem.UNREADABLE: 2}


def test_parquet_without_the_column_or_with_numbers_in_it(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet has no column 'txt': its columns are 'id', 'text'; did you mean corpus\.column=text"):
        read_file("parquet", tmp_path, column="txt")
    with pytest.raises(UserError, match="'id' holds int64, not texts"):
        read_file("parquet", tmp_path, column="id")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    rows = datasets.Dataset.from_dict({"text": [*TEXTS, None], "id": list(range(1001))})
    datasets.DatasetDict({"train": rows, "test": rows.select(range(3))}).save_to_disk(str(tmp_path / "saved"))
    rows.to_json(str(tmp_path / "json" / "train.jsonl"))
    return tmp_path


def test_saved_dataset_is_read_in_rows(saved: Path) -> None:
    corpus = CorpusConfig(kind="huggingface", path=str(saved / "saved"))
    assert len(pieces(corpus, size=5000)) > 3
    for size in (5000, None):
        documents, report = read_all(corpus, size)
        assert [document.blocks for document in documents] == [[text] for text in TEXTS]
        assert report.counts == {Problem.NO_TEXT: 1}
    assert documents[7].origin == f"{saved}/saved:8"
    assert len(read_file("huggingface", saved / "saved", split="test")[0]) == 3


def test_rows_in_memory_have_their_own_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library may read small sets into memory (HF_DATASETS_IN_MEMORY_MAX_SIZE): then no file of them can be hashed."""
    monkeypatch.setattr(datasets.config, "IN_MEMORY_MAX_SIZE", 1 << 30)
    sets = {
        "a": ["One.", "Two.", None],
        "a again": ["One.", "Two.", None],
        "other words": ["One.", "Ten.", None],
        "another order": ["Two.", "One.", None],
        "words that moved": ["One.T", "wo.", None],
        "an empty text": ["One.", "Two.", ""],
    }
    found = {}
    for name, texts in sets.items():
        datasets.Dataset.from_dict({"text": texts, "id": range(3)}).save_to_disk(str(tmp_path / name))
        corpus = CorpusConfig(kind="huggingface", path=str(tmp_path / name))
        assert huggingface.arrow_files(corpus) == []
        found[name] = source_fingerprint(corpus, PathsConfig(cache=str(tmp_path / "cache")))
    assert found.pop("a again") == found["a"]
    assert len(set(found.values())) == 5


def test_folder_of_files_is_loaded_by_the_library(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", saved / "cache")
    assert len(read_file("huggingface", saved / "json", split="train[:10]")[0]) == 10


def test_what_a_dataset_lacks_is_said(saved: Path) -> None:
    with pytest.raises(UserError, match="did you mean train"):
        read_file("huggingface", saved / "saved", split="tain")
    with pytest.raises(UserError, match="its columns are 'text', 'id'"):
        read_file("huggingface", saved / "saved", column="body")


def test_dataset_that_cannot_be_had_is_one_sentence() -> None:
    with pytest.raises(UserError) as caught:
        read_file("huggingface", "bertlab-tests/no-such-data-set")
    assert "corpus.path=bertlab-tests/no-such-data-set: the data set cannot be loaded" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_hub_that_does_not_answer_is_told_at_once_in_a_sentence(tmp_path: Path) -> None:
    """The library itself would ask six times, and print each time that it does."""
    program = (
        "from bertlab.data.hub import open_dataset; from bertlab.errors import UserError\n"
        "try: open_dataset('corpus.path', 'someone/something', None)\n"
        "except UserError as error: print(error)"
    )
    without_proxies = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    nobody = {**without_proxies, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=nobody, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout == (
        "corpus.path=someone/something: the data set cannot be loaded (the hub does not answer, and the cache does not have it); "
        "without internet, give a folder.\n"
    )


def test_without_the_hub_the_cache_is_asked_and_the_settings_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def settings() -> tuple[bool, bool]:
        return datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE

    seen = []
    before = settings()
    monkeypatch.setattr(hub, "_hub_answers", lambda: False)
    monkeypatch.setattr(datasets, "load_dataset", lambda *words, **more: seen.append((words, settings())) or "cached")
    assert hub.open_dataset("corpus.path", "someone/something", "en") == "cached"
    assert seen == [(("someone/something", "en"), (True, True))]
    assert settings() == before
    monkeypatch.setattr(hub, "_hub_answers", lambda: True)
    hub.open_dataset("corpus.path", "someone/something", "en")
    assert seen[-1][1] == before


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_datasets(name: str, *rest: Any) -> Any:
        if name == "datasets":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_datasets)
    huggingface._open.cache_clear()
    with pytest.raises(UserError, match=r"pip install 'bertlab\[huggingface\]'"):
        read_file("huggingface", "some/set")
