from __future__ import annotations

import bz2
import gzip
import json
import os
import stat
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from corpora import read_all, read_file
from hypothesis import given, settings
from hypothesis import strategies as st

from bertlab.config import CorpusConfig, FilterConfig
from bertlab.data import plain
from bertlab.data.documents import Problem, ReadingReport
from bertlab.errors import UserError

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def test_hard_wrapped_lines_are_joined_and_blank_lines_end_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_bytes(b"It was a dark\n  and stormy\nnight.\n \t\n\nThe end\n")
    assert read_file("text", tmp_path) == ([["It was a dark and stormy night.", "The end"]], {})


def test_text_split_by_line_keeps_its_lines_apart(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One here.\nTwo here.\n\nThree.")
    assert read_file("text", tmp_path, sentence_splitting="line")[0] == [["One here.", "Two here.", "Three."]]


def test_windows_files_read_as_others_do(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfOne\r\ntwo\r\n\r\nthree\r\n")
    assert read_file("text", tmp_path) == ([["One two", "three"]], {})


def test_sentences_with_blank_lines_of_spaces_and_tabs(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\n\nA one.\nA two.\n \t\r\n\nB one.\n")
    documents, report = read_all(CorpusConfig(kind="sentences", path=str(tmp_path)))
    assert [document.blocks for document in documents] == [["A one.", "A two."], ["B one."]]
    assert [document.origin for document in documents] == [f"{tmp_path}/a:3", f"{tmp_path}/a:7"]
    assert not report.counts


WIKI = """\
stray
<doc id="1" url="u" title="Salt &amp; "pepper"">
Salt & "pepper"

Salt is white. Pepper is not.
Salt & "pepper"
</doc>
<doc id="2" url="u" title="Redirect">
Redirect
</doc>
<doc id="3" url="u" title="Open">
First line is not the title.
<doc id="4" url="u" title="Last">
Last
No end.
"""


def test_wikiextractor(tmp_path: Path) -> None:
    (tmp_path / "AA").mkdir()
    (tmp_path / "AA" / "wiki_00").write_text(WIKI)
    documents, report = read_all(CorpusConfig(kind="wikiextractor", path=str(tmp_path)))
    # The title is dropped where it opens the article, and only there.
    assert [document.blocks for document in documents] == [
        ["Salt is white. Pepper is not.", 'Salt & "pepper"'],
        ["First line is not the title."],
        ["No end."],
    ]
    file = f"{tmp_path}/AA/wiki_00"
    assert report.examples == {
        Problem.OUTSIDE: [f"{file}:1"],
        Problem.EMPTY: [f"{file}:8"],
        Problem.UNCLOSED: [f"{file}:11", f"{file}:13"],
    }


def test_malformed_bytes_are_replaced_and_reported_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Käse isst\nman ".encode() + b"g\xe4rn.\nAnd \0more\0.\nAll the rest of it is quite well.")
    documents, report = read_all(CorpusConfig(kind="text", path=str(tmp_path)))
    assert documents[0].blocks == ["Käse isst man g\ufffdrn. And more. All the rest of it is quite well."]
    assert report.examples == {Problem.BAD_UTF8: [f"{tmp_path}/a.txt:2"], Problem.NUL: [f"{tmp_path}/a.txt:3"]}
    assert report.counts == {Problem.BAD_UTF8: 1, Problem.NUL: 1}


@pytest.mark.parametrize("content", ["Hello there, friends.".encode("utf-16"), bytes(range(256)) * 40])
def test_what_is_no_text_is_skipped_and_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "b.txt").write_text("Good.")
    assert read_file("text", tmp_path) == ([["Good."]], {Problem.NOT_TEXT: 1})


def test_empty_documents_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.txt").write_text(" \n\n")
    (tmp_path / "c.txt").write_text("Good.")
    assert read_file("text", tmp_path) == ([["Good."]], {Problem.EMPTY: 2})


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_first_bytes_of_an_archive_are_looked_at_as_those_of_a_plain_file(tmp_path: Path, suffix: str) -> None:
    records = "".join(f'{{"text": "{os.urandom(30).hex()}"}}\n' for _ in range(200))
    (tmp_path / f"a.jsonl{suffix}").write_bytes(COMPRESS[suffix](b"\xef\xbb\xbf" + records.encode()))
    (tmp_path / f"b.jsonl{suffix}").write_bytes(COMPRESS[suffix](records.encode("utf-16-le")))
    documents, counts = read_file("jsonl", tmp_path)
    assert (len(documents), counts) == (200, {Problem.NOT_TEXT: 1})


@pytest.mark.parametrize("suffix", COMPRESS)
def test_truncated_archives_give_what_they_have_and_are_reported(tmp_path: Path, suffix: str) -> None:
    text = "".join(f"Line {number} of it {os.urandom(30).hex()}.\n" for number in range(20000))
    packed = COMPRESS[suffix](text.encode())
    (tmp_path / f"a.txt{suffix}").write_bytes(packed[: len(packed) * 2 // 3])
    (tmp_path / "b.txt").write_text("Good.")
    documents, counts = read_file("text", tmp_path, sentence_splitting="line")
    assert counts == {Problem.UNREADABLE: 1}
    assert documents[-1] == ["Good."]
    lines = documents[0]
    assert len(lines) > 1000
    assert lines[:-1] == text.splitlines()[: len(lines) - 1]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_garbage_with_an_archives_suffix_is_reported(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.txt{suffix}").write_bytes(b"this is no archive at all, is it?")
    (tmp_path / "b.txt").write_text("Good.")
    assert read_file("text", tmp_path) == ([["Good."]], {Problem.UNREADABLE: 1})


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("kind", ["text", "sentences", "wikiextractor", "jsonl"])
def test_compressed_files_read_as_plain_ones_and_members_follow_each_other(tmp_path: Path, kind: str, suffix: str) -> None:
    name, content = {
        "text": ("a.txt", b"One\ntwo.\n\nThree.\n"),
        "sentences": ("a", b"One.\n\nTwo.\n"),
        "wikiextractor": ("a", WIKI.encode()),
        "jsonl": ("a.jsonl", b'{"text": "One."}\n{"text": "Two."}\n'),
    }[kind]
    for folder in ("plain", "packed"):
        (tmp_path / folder).mkdir()
    (tmp_path / "plain" / name).write_bytes(content)
    middle = len(content) // 2
    (tmp_path / "packed" / f"{name}{suffix}").write_bytes(COMPRESS[suffix](content[:middle]) + COMPRESS[suffix](content[middle:]))
    plainly = read_file(kind, tmp_path / "plain")
    assert plainly[0]
    assert read_file(kind, tmp_path / "packed") == plainly


def test_unreadable_file_is_counted_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "b.txt")  # opening it would wait for ever
    (tmp_path / "c.txt").write_text("Good.")
    assert stat.S_ISFIFO((tmp_path / "b.txt").stat().st_mode)
    documents, report = read_all(CorpusConfig(kind="text", path=str(tmp_path)))
    assert [document.blocks for document in documents] == [["Good."]]
    assert report.counts == {Problem.UNREADABLE: 2}
    assert "No such file" in report.lines()[0]
    assert "not a regular file" in report.lines()[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_forbidden_file_and_folder_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Secret.")
    (tmp_path / "a.txt").chmod(0)
    (tmp_path / "folder").mkdir(mode=0)
    (tmp_path / "z.txt").write_text("Good.")
    assert read_file("text", tmp_path) == ([["Good."]], {Problem.UNREADABLE: 2})


def test_lines_of_ten_megabytes_are_reported_and_kept(tmp_path: Path) -> None:
    word = b"word " * 2_000_000
    (tmp_path / "a.txt").write_bytes(b"First.\n" + word + b"\nLast.\n")
    documents, counts = read_file("text", tmp_path)
    assert counts == {Problem.LONG_LINE: 1}
    assert documents == [["First. " + word.decode().strip() + " Last."]]


def test_a_line_without_end_is_cut_in_bounded_memory_between_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertlab.data.lines.LONGEST_LINE", 1 << 20)
    monkeypatch.setattr("bertlab.data.lines.LONG_LINE", 1 << 18)
    monkeypatch.setattr("bertlab.data.plain.LARGEST_DOCUMENT", 1 << 19)
    text = "äß語" * 3_000_000  # 21 MB
    (tmp_path / "a.txt").write_text(text + "\nlast")
    del text
    corpus = CorpusConfig(kind="text", path=str(tmp_path))
    from bertlab.data.pieces import pieces
    from bertlab.data.readers import read

    report = ReadingReport()
    tracemalloc.start()
    characters = 0
    for document in read(pieces(corpus)[0], report):
        characters += sum(block.count("ä") + block.count("ß") + block.count("語") for block in document.blocks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert characters == 9_000_000
    assert report.counts[Problem.LONG_LINE] == 1
    assert Problem.BAD_UTF8 not in report.counts
    assert peak < 12e6


@pytest.mark.parametrize("count", [6, 7])
@pytest.mark.parametrize("kind", ["text", "sentences", "wikiextractor"])
def test_large_documents_are_cut_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, count: int) -> None:
    monkeypatch.setattr(plain, "LARGEST_DOCUMENT", 100)
    lines = [letter * 50 for letter in "abcdefg"]
    (tmp_path / "corpus").write_text(
        '<doc title="T">\n' * (kind == "wikiextractor") + "\n".join(lines[:count]) + "\n</doc>" * (kind == "wikiextractor")
    )
    documents, counts = read_file(kind, tmp_path)
    parts = [lines[first : min(first + 2, count)] for first in range(0, count, 2)]
    assert documents == ([[" ".join(part)] for part in parts] if kind == "text" else parts)
    assert counts == {Problem.CUT: count // 2}


def test_length_filters_count_words(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one two three\n\none two\nthree four\n\none\n\none two three four five\n")
    bounds = FilterConfig(min_words=2, max_words=4)
    documents, counts = read_file("sentences", tmp_path, filter=bounds)
    assert documents == [["one two three"], ["one two", "three four"]]
    assert counts == {Problem.TOO_SHORT: 1, Problem.TOO_LONG: 1}


@pytest.mark.parametrize(
    ("kind", "content", "line", "word"),
    [
        ("text", b"Good.\nB\xffad.", 2, "UTF-8"),
        ("text", b"Good.\nBa\0d.", 2, "NUL"),
        ("text", b"", 1, "without text"),
        ("wikiextractor", b'<doc title="a">\nx\n', 1, "closing"),
        ("jsonl", b'{"text": "x"}\n{"text": \n', 2, "JSON"),
        ("jsonl", b'{"text": "x"}\n{"text": 3}\n', 2, "without a text"),
    ],
)
def test_strict_stops_at_the_first_problem_and_says_where(tmp_path: Path, kind: str, content: bytes, line: int, word: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=rf"a\.jsonl:{line}: .*{word}.*corpus\.strict"):
        read_file(kind, tmp_path, strict=True)


def test_strict_lets_asked_for_omissions_pass(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n\none two\n")
    assert read_file("sentences", tmp_path, strict=True, filter=FilterConfig(min_words=2))[0] == [["one two"]]


def test_json_lines(tmp_path: Path) -> None:
    records = [
        json.dumps({"id": 1, "text": "Eins.\nZwei.\n\nDrei."}),
        "not json",
        "[1, 2]",
        "",
        json.dumps({"id": 2}),
        json.dumps({"text": None}),
        json.dumps({"text": 5}),
        '{"text": "half \\ud83d pair and \\u0000 zero"}',
        json.dumps({"text": "   "}),
        "[" * 100_000,
        '{"text": "\\ud83d\\ude00 whole pair"}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(records))
    (tmp_path / "notes.md").write_text("of no interest")
    documents, counts = read_file("jsonl", tmp_path)
    # The first text is hard-wrapped: short lines and a blank one.
    assert documents == [["Eins. Zwei.", "Drei."], ["half \ufffd pair and  zero"], ["\U0001f600 whole pair"]]
    assert counts == {Problem.BAD_RECORD: 3, Problem.NO_TEXT: 3, Problem.BAD_UTF8: 1, Problem.NUL: 1, Problem.EMPTY: 1}


def test_json_line_of_ten_megabytes_is_read(tmp_path: Path) -> None:
    text = "many words " * 1_000_000
    (tmp_path / "a.jsonl").write_text(json.dumps({"body": text}))
    documents, counts = read_file("jsonl", tmp_path, column="body")
    assert documents == [[text.strip()]]
    assert counts == {Problem.LONG_LINE: 1}


def test_paragraphs_of_a_record_are_its_lines_unless_it_is_hard_wrapped(tmp_path: Path) -> None:
    long = "This paragraph is one line, as collections from the web have them, and it is longer than a typed line would ever be in a book."
    web = f"Title\n\n{long}\nAnother."
    book = "A line of\na book.\n\nIts next\nparagraph."
    list_of_lines = "One.\nTwo.\nThree."
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in (web, book, list_of_lines)))
    assert read_file("jsonl", tmp_path)[0] == [
        ["Title", long, "Another."],
        ["A line of a book.", "Its next paragraph."],
        ["One.", "Two.", "Three."],
    ]
    assert read_file("jsonl", tmp_path, sentence_splitting="line")[0][1] == ["A line of", "a book.", "Its next", "paragraph."]


@pytest.mark.parametrize("strict", [False, True])
def test_missing_column_names_the_file_the_line_and_what_there_is(strict: bool, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('\n{"txt": "x", "id": 1}\n')
    with pytest.raises(UserError, match=r"a\.jsonl:2 has no column 'text'.*'txt', 'id'.*did you mean corpus\.column=txt"):
        read_file("jsonl", tmp_path, strict=strict)


def test_a_dotted_column_of_json_lines_reaches_into_objects_unless_a_key_is_spelled_so(tmp_path: Path) -> None:
    records = [{"meta": {"text": "inside"}}, {"meta": {"text": "no"}, "meta.text": "key"}, {"meta": "flat"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    documents, counts = read_file("jsonl", tmp_path, column="meta.text")
    assert documents == [["inside"], ["key"]]
    assert counts == {Problem.NO_TEXT: 1}


@pytest.mark.parametrize(("column", "offered"), [("meta.txt", "did you mean corpus.column=meta.text"), ("metas", "name one with")])
def test_a_column_without_text_is_not_offered(column: str, offered: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"meta": {"text": "x"}, "id": 1}\n')
    with pytest.raises(UserError, match=offered):
        read_file("jsonl", tmp_path, column=column)


@settings(max_examples=150)
@given(st.binary(max_size=400), st.sampled_from(["text", "sentences", "wikiextractor", "jsonl"]), st.sampled_from(["", *COMPRESS]))
def test_no_bytes_stop_a_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes, kind: str, suffix: str) -> None:
    file = tmp_path_factory.mktemp("junk") / f"a{suffix}"
    file.write_bytes(content)
    documents, counts = read_file(kind, file)
    assert documents or counts or not content.decode().removeprefix("\ufeff").strip()
    for blocks in documents:
        assert blocks
        for block in blocks:
            assert block.encode()  # no half surrogates, and none is empty
            assert "\0" not in block
            assert "\n" not in block


def test_reports_merge_in_order_and_survive_json() -> None:
    first, second = ReadingReport(), ReadingReport()
    for number in range(1, 3):
        first.add(Problem.BAD_UTF8, f"a:{number}")
    for number in range(1, 6):
        second.add(Problem.BAD_UTF8, f"b:{number}")
    second.add(Problem.EMPTY, "b:9", "why")
    first.merge(ReadingReport.from_dict(json.loads(json.dumps(second.to_dict()))))
    assert first.lines() == [
        "malformed UTF-8, replaced by U+FFFD: 7 × – a:1, a:2, b:1, …",
        "document without text, skipped: 1 × – b:9 (why)",
    ]


def test_books_lose_no_word(shared_data: Path) -> None:
    documents, report = read_all(CorpusConfig(kind="text", path=str(shared_data / "books")))
    files = sorted((shared_data / "books").iterdir())
    assert len(documents) == len(files)
    assert not report.counts
    for document, file in zip(documents, files, strict=True):
        assert " ".join(document.blocks).split() == file.read_text(encoding="utf-8").replace("\ufeff", "").split()


def test_wikipedia_has_every_document(shared_data: Path) -> None:
    documents, report = read_all(CorpusConfig(kind="wikiextractor", path=str(shared_data / "wikipedia")))
    marks = sum(file.read_bytes().count(b"<doc ") for file in (shared_data / "wikipedia").rglob("wiki_*"))
    assert len(documents) == marks
    assert not report.counts
    assert not any(block.startswith(("<doc ", "</doc>")) for document in documents for block in document.blocks)
