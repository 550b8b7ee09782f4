"""Readers of tables with a row a line: TSV, where every character but tab and line feed is text, and CSV with its quotes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from bertlab.counting import counted
from bertlab.errors import UserError
from bertlab.tasks.rows import Row, Table, read_text, text_lines

_LONGEST_FIELD = 1 << 27  # characters; the csv module's own limit is 131,072


def read_tsv(path: Path, header: bool, skip_malformed: bool = False) -> Table:
    """A table of tab-separated columns. Quotes are literal characters, as in GLUE's files, and blank lines are left out.

    Raises:
        UserError: the file is empty, or a row has too few or too many columns (unless ``skip_malformed``).
    """
    lines = enumerate(text_lines(read_text(path)), 1)
    fields = ((number, line.split("\t")) for number, line in lines if line)
    return _table(path, fields, header, skip_malformed, "tab")


def read_csv(path: Path, header: bool, delimiter: str = ",", skip_malformed: bool = False) -> Table:
    """A table of CSV (RFC 4180): a quoted field may hold delimiters, line ends and doubled quotes. Blank lines are left out.

    Raises:
        UserError: as ``read_tsv``; a quote that is not closed.
    """
    if len(delimiter) != 1:
        raise UserError(f"task.delimiter={delimiter!r}: it takes one character.")
    return _table(path, _csv_rows(path, delimiter), header, skip_malformed, repr(delimiter))


def _csv_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise UserError(f"{path}:{line} is not CSV: {error}; a quote may be unclosed or undoubled.") from error
        if fields is None:
            return
        if fields:
            yield line, fields
        line = reader.line_num + 1


def _table(path: Path, lines: Iterable[tuple[int, list[str]]], header: bool, skip_malformed: bool, delimiter: str) -> Table:
    numbered = iter(lines)
    first = next(numbered, None)
    if first is None:
        raise UserError(f"{path} is empty.")
    names = first[1] if header else [str(number) for number in range(len(first[1]))]
    _refuse_doubled_names(path, names)
    table = Table(str(path), names, [])
    number = 0
    for line, fields in [] if header else [first]:
        table.rows.append(Row(line, number, dict(zip(names, fields, strict=True))))
        number += 1
    for line, fields in numbered:
        if len(fields) == len(names):
            table.rows.append(Row(line, number, dict(zip(names, fields, strict=True))))
        elif skip_malformed:
            table.malformed += 1
        else:
            raise _wrong_width(f"{path}:{line}", len(fields), names, first[0], header, delimiter)
        number += 1
    return table


def _refuse_doubled_names(path: Path, names: list[str]) -> None:
    doubled = next((name for index, name in enumerate(names) if name and name in names[:index]), None)
    if doubled is not None:
        raise UserError(f"{path}:1 names the column {doubled!r} twice; if the file has no header, set task.header=false.")


def _wrong_width(where: str, found: int, names: list[str], first: int, header: bool, delimiter: str) -> UserError:
    expected = f"the {len(names)} of the header ({', '.join(names)})" if header else f"{len(names)} as in line {first}"
    cause = "a line end or a missing" if found < len(names) else "an unexpected"
    return UserError(
        f"{where} has {counted(found, 'column')}, not {expected}: {cause} {delimiter} in a text?"
        " task.skip_malformed_rows=true leaves such rows out."
    )
