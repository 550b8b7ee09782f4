from __future__ import annotations

import csv
import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertlab.errors import UserError
from bertlab.tasks.delimited import read_csv, read_tsv

# Whatever a cell of a TSV can hold: line ends of other systems than \n are text, save a carriage return at the end of a line.
CELL = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=("Cs",)), min_size=1, max_size=12)
ANYTHING = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)


def tables(cell: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[str]]]:
    width = st.integers(1, 4)
    return width.flatmap(lambda columns: st.lists(st.lists(cell, min_size=columns, max_size=columns), min_size=1, max_size=6))


@given(tables(CELL))
def test_a_tsv_comes_back_as_it_was_written(rows: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tsv"
        path.write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())
        table = read_tsv(path, header=False)
    if rows[0][0].startswith("\ufeff"):  # one byte order mark at the very start is none of the text
        rows[0][0] = rows[0][0].removeprefix("\ufeff")
        if rows[0] == [""]:
            rows.pop(0)
    assert [list(row.values.values()) for row in table.rows] == rows
    assert [row.number for row in table.rows] == list(range(len(rows)))


@given(tables(ANYTHING), st.sampled_from([",", ";", "|"]), st.sampled_from(["\n", "\r\n"]))
def test_a_csv_comes_back_as_the_standard_library_wrote_it(rows: list[list[str]], delimiter: str, end: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
        table = read_csv(path, False, delimiter)
        lines = path.read_bytes().decode("utf-8-sig").splitlines(keepends=True)
    assert [list(row.values.values()) for row in table.rows] == rows
    assert all(lines[row.line - 1].startswith('"') for row in table.rows if "\x0b" not in "".join(rows[0]) and len(lines) == len(rows))


def test_quotes_of_a_tsv_are_letters(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('a\tb\n"x\ty"\n""\t\'\n', encoding="utf-8")
    assert [row.values for row in read_tsv(tmp_path / "a.tsv", header=True).rows] == [{"a": '"x', "b": 'y"'}, {"a": '""', "b": "'"}]


def test_line_ends_byte_order_marks_and_compression_change_nothing(tmp_path: Path) -> None:
    plain = tmp_path / "a.tsv"
    plain.write_bytes(b"a\tb\n1\t2\n\n3\t4")
    (tmp_path / "b.tsv").write_bytes(b"\xef\xbb\xbfa\tb\r\n1\t2\r\n\r\n3\t4\r\n")
    (tmp_path / "c.tsv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    for name in ("a.tsv", "b.tsv", "c.tsv.gz"):
        table = read_tsv(tmp_path / name, header=True)
        assert [(row.line, row.number, dict(row.values)) for row in table.rows] == [
            (2, 0, {"a": "1", "b": "2"}),
            (4, 1, {"a": "3", "b": "4"}),
        ]


def test_a_quoted_field_may_hold_lines_and_the_next_row_knows_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\n"one\ntwo ""quoted""\n",1\nthree,0\n', encoding="utf-8")
    table = read_csv(tmp_path / "a.csv", header=True)
    assert [(row.line, row.values["text"]) for row in table.rows] == [(2, 'one\ntwo "quoted"\n'), (5, "three")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "a.tsv is empty"),
        (b"a\tb\n1\n", r"a\.tsv:2 has 1 column, not the 2 of the header \(a, b\)"),
        (b"a\tb\n1\t2\n1\t2\t3\n", r"a\.tsv:3 has 3 columns, not the 2"),
        (b"a\tb\n1\t\xff\n", r"a\.tsv:2 is not UTF-8 \(byte 0xff\)"),
        (b"a\ta\n1\t2\n", "names the column 'a' twice"),
    ],
    ids=["empty", "short", "long", "encoding", "doubled"],
)
def test_what_is_wrong_with_a_tsv_is_said_with_its_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.tsv").write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_tsv(tmp_path / "a.tsv", header=True)


def test_rows_of_a_wrong_width_can_be_left_out_and_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n1\t2\n3\n4\t5\n", encoding="utf-8")
    table = read_tsv(tmp_path / "a.tsv", header=True, skip_malformed=True)
    assert ([row.number for row in table.rows], table.malformed) == ([0, 2], 1)


def test_an_open_quote_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,b\n1,2\n"3,4\n5,6\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.csv:3 is not CSV: unexpected end of data"):
        read_csv(tmp_path / "a.csv", header=True)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.tsv cannot be read: No such file"):
        read_tsv(tmp_path / "nothing.tsv", header=True)
