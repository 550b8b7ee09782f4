"""Rows of a file: what every reader gives out, each value under its column's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertlab.data.compression import READ_ERRORS, chunks
from bertlab.errors import UserError, nearest


@dataclass(slots=True)
class Row:
    """One row, its place for messages, and its values."""

    line: int  # in the file, from 1; the first one where a row has several
    number: int  # among the rows of the file, from 0, those left out counted too
    values: Mapping[str, Any]
    document: int = 0  # rows of one document have the same number; of columns of words


@dataclass
class Table:
    """The rows of a file, or of a data set that is no file."""

    path: str
    names: list[str]  # of the columns; where the file does not name them their numbers from 0
    rows: list[Row]
    by_word: bool = False  # a line is a word: the k-th word of a row stands k lines below the row's line
    malformed: int = 0  # rows that were left out because they have too few or too many columns

    def where(self, row: Row, word: int = 0) -> str:
        """The place of a row, or of a word in it, for messages."""
        return f"{self.path}:{row.line + (word if self.by_word else 0)}"

    def has(self, column: str) -> bool:
        """Whether there is such a column; of a dotted name, whether there is one that may hold the object."""
        return column in self.names or ("." in column and column.split(".")[0] in self.names)

    def check_column(self, column: str, key: str) -> None:
        """Refuse a ``column`` that is not there. ``key`` is where the configuration names it.

        Raises:
            UserError: with the columns that are there.
        """
        if self.has(column):
            return
        alike = nearest(column, self.names, 1)
        hint = f"; did you mean {key}={alike[0]!r}?" if alike else f"; name another with {key}=…"
        present = ", ".join(map(repr, self.names))
        numbered = " (numbers, for task.header is false)" if self.names == [str(number) for number in range(len(self.names))] else ""
        raise UserError(f"{self.path} has no column {column!r}: its columns are {present}{numbered}{hint}")

    def value(self, row: Row, column: str) -> Any:
        """What a row has in a column; a dotted name reaches into an object of JSON.

        Raises:
            UserError: this row lacks the column.
        """
        values: Any = row.values
        if column in values:
            return values[column]
        for part in column.split("."):
            if not isinstance(values, Mapping) or part not in values:
                raise UserError(f"{self.where(row)} has no {column!r}: it has {', '.join(map(repr, row.values))}.")
            values = values[part]
        return values


@dataclass
class Reading:
    """What is to be said about a reading."""

    left_out: dict[str, int] = field(default_factory=dict)  # why → rows
    counted: dict[str, int] = field(default_factory=dict)  # what is odd about rows that were taken → how many
    notes: list[str] = field(default_factory=list)  # sentences

    def leave_out(self, why: str, count: int = 1) -> None:
        """Count rows that are not taken."""
        if count:
            self.left_out[why] = self.left_out.get(why, 0) + count

    def note(self, what: str, count: int) -> None:
        """Count what is odd."""
        self.counted[what] = self.counted.get(what, 0) + count

    def sentences(self) -> list[str]:
        """Everything that a run's output should carry, besides what was left out."""
        return [*self.notes, *(f"{what} ({count:,})" for what, count in self.counted.items())]


def read_text(path: Path) -> str:
    """The text of a file, decompressed where its suffix says so, without a byte order mark.

    Raises:
        UserError: it cannot be read, or is not UTF-8; with the line.
    """
    try:
        content = b"".join(chunks(str(path)))
    except READ_ERRORS as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"{content[error.start]:#04x}"
        raise UserError(f"{path}:{line} is not UTF-8 (byte {byte}): convert the file, with iconv for instance.") from error


def parse_json(text: str) -> Any:
    """The value that JSON spells. Half a surrogate pair, which no encoding can write, becomes the replacement character.

    Raises:
        ValueError: it is not JSON, or nested without end.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return _without_surrogates(value) if "\\ud" in text or "\\uD" in text else value


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(entry) for entry in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(entry) for key, entry in value.items()}
    return value


def text_lines(text: str) -> list[str]:
    """The lines of a text. Only line feeds end a line, with a carriage return before them or not: other separators are text."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines
