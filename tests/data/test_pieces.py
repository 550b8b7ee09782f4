from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from corpora import read_all
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlab.config import CorpusConfig, FilterConfig
from bertlab.data.pieces import pieces
from bertlab.errors import UserError

JUNK = st.sampled_from([b"\xff", b"\0", b"\r", b" ", b"\t", b"", "\u00a0".encode(), b"\x0b", b"\x85", "é".encode()])
WORD = st.sampled_from([b"one", b"two.", b"drei", b"<doc>", b"</doc>"])
SENTENCE_LINE = st.lists(JUNK | WORD, max_size=4).map(b"".join)
WIKI_LINE = SENTENCE_LINE | st.sampled_from(
    [b'<doc id="1" title="T">', b'<doc id="2" title="two.">', b"</doc>", b"</doc>", b"two.", b'<d\0oc title="x">\r', b'<doc title="\xff">']
)
RECORD_LINE = st.sampled_from([b'{"text": "a b"}', b'{"text": "c"}\r', b"{", b"", b'{"x": 1}', b'{"text": "\xff"}', b'{"text": 1}'])


def parted_alike(kind: str, file: Path, size: int) -> int:
    corpus = CorpusConfig(kind=kind, path=str(file))
    whole = read_all(corpus, size=1 << 30)
    parted = read_all(corpus, size=size)
    assert [document.blocks for document in parted[0]] == [document.blocks for document in whole[0]]
    assert parted[1].counts == whole[1].counts
    assert parted[1].lines() == whole[1].lines()  # the same lines of the file, whatever the parts that they were seen in
    return len(pieces(corpus, size))


@settings(max_examples=300)
@given(data=st.data(), kind=st.sampled_from(["sentences", "wikiextractor", "jsonl"]), mark=st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_parting_a_file_anywhere_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str, mark: bytes
) -> None:
    line = {"sentences": SENTENCE_LINE, "wikiextractor": WIKI_LINE, "jsonl": RECORD_LINE}[kind]
    content = mark + b"\n".join(data.draw(st.lists(line, max_size=25)))
    if kind == "jsonl":
        content = b'{"text": "first"}\n' + content
    content += b"".join(b"\nenough that is text to be taken for a text file\n" for _ in range(3 if kind != "jsonl" else 0))
    file = tmp_path_factory.mktemp("parted") / "corpus"
    file.write_bytes(content)
    parted_alike(kind, file, data.draw(st.integers(1, len(content) + 5)))


def test_many_pieces_of_a_real_size_file(tmp_path: Path) -> None:
    file = tmp_path / "wiki"
    with file.open("w") as out:
        for number in range(3000):
            out.write(f'<doc id="{number}" url="" title="T{number}">\nT{number}\n\n' + f"Text of {number}.\n" * (number % 40) + "</doc>\n")
    assert parted_alike("wikiextractor", file, 50_000) > 10


def test_one_document_of_the_whole_file_is_one_piece_and_found_quickly(tmp_path: Path) -> None:
    file = tmp_path / "sentences"
    file.write_text("A sentence of a document that never ends.\n" * 50_000)
    assert len(pieces(CorpusConfig(kind="sentences", path=str(file)), size=1000)) == 1


def test_small_files_share_pieces_in_order(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_text(f"Number {number}. " * 10)
    corpus = CorpusConfig(kind="text", path=str(tmp_path))
    found = pieces(corpus, size=600)
    assert 5 <= len(found) <= 12
    assert [part.path for piece in found for part in piece.parts] == sorted(map(str, tmp_path.iterdir()))
    assert pickle.loads(pickle.dumps(found)) == found
    assert [document.blocks[0].split()[1] for document in read_all(corpus, 600)[0]] == [f"{number}." for number in range(30)]


def test_folders_are_searched_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b/z.txt", "b/a.txt", "a.txt", ".hidden.txt", ".git/x.txt", "b/.cache/y.txt", "c/d/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "c" / "loop").symlink_to(tmp_path)

    def names(path: str) -> list[str]:
        return [document.blocks[0] for document in read_all(CorpusConfig(kind="text", path=path))[0]]

    assert names(str(tmp_path)) == ["a.txt", "b/a.txt", "b/z.txt", "c/d/e.txt"]
    assert names(f"{tmp_path}/*/*.txt") == ["b/a.txt", "b/z.txt"]
    assert names(f"{tmp_path}/c/**/e.txt") == ["c/d/e.txt"]
    assert names(f"{tmp_path}/.hidden.txt") == [".hidden.txt"]


def test_linked_folders_are_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("Found.")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "link").symlink_to(tmp_path / "elsewhere")
    assert len(read_all(CorpusConfig(kind="text", path=str(tmp_path / "corpus")))[0]) == 1


def test_a_name_that_looks_like_a_glob_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("Here.")
    assert len(read_all(CorpusConfig(kind="text", path=str(tmp_path / "a[1].txt")))[0]) == 1


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("text", None, r"corpus=text needs corpus\.path"),
        ("text", "nowhere", "there is no such file or folder"),
        ("text", "no*where", "matches no file"),
        ("text", "empty", "holds no file"),
        ("jsonl", "full", r"no \.jsonl or \.ndjson or \.json file"),
        ("jsno", "full", "did you mean.*jsonl"),
        ("mixture", None, "has no sources"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, path: str | None, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("x")
    with pytest.raises(UserError, match=message):
        pieces(CorpusConfig(kind=kind, path=path))


def test_unknown_way_of_splitting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean library"):
        pieces(CorpusConfig(kind="text", path=str(tmp_path), sentence_splitting="libary"))


def test_mixture_reads_each_source_its_own_way_and_hands_down_bounds(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"body": "one two three"}) + "\n" + json.dumps({"body": "one"}))
    (tmp_path / "b.txt").write_text("one two")
    mixture = CorpusConfig(
        kind="mixture",
        filter=FilterConfig(min_words=2),
        sources={
            "web": CorpusConfig(kind="jsonl", path=str(tmp_path / "a.jsonl"), column="body"),
            "books": CorpusConfig(kind="text", path=str(tmp_path / "b.txt"), filter=FilterConfig(min_words=1), weight=2),
        },
    )
    assert [piece.source for piece in pieces(mixture)] == ["web", "books"]
    assert [document.blocks for document in read_all(mixture)[0]] == [["one two three"], ["one two"]]
    nested = CorpusConfig(kind="mixture", sources={"inner": mixture})
    with pytest.raises(UserError, match=r"sources\.inner is a mixture"):
        pieces(nested)


def test_compressed_files_are_not_parted(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 100_000))
    assert len(pieces(CorpusConfig(kind="jsonl", path=str(tmp_path)), size=10)) == 1


def test_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    assert read_all(CorpusConfig(kind="jsonl", path=str(tmp_path)))[0] == []
