"""Reader of JSON lines: an object a line, with columns of texts, numbers and lists."""

from __future__ import annotations

from pathlib import Path

from bertlab.errors import UserError
from bertlab.tasks.rows import Row, Table, parse_json, read_text, text_lines


def read_jsonl(path: Path) -> Table:
    """The objects of a file as rows; the columns are those of the first one. Blank lines are left out.

    Raises:
        UserError: a line is no JSON object, or there is none.
    """
    rows: list[Row] = []
    for line, text in enumerate(text_lines(read_text(path)), 1):
        if not text.strip():
            continue
        try:
            values = parse_json(text)
        except ValueError as error:
            raise UserError(f"{path}:{line} is not JSON ({error}): expected an object a line.") from error
        if not isinstance(values, dict):
            raise UserError(f'{path}:{line} holds a {_kind(values)}: expected an object, as in {{"text": …, "label": …}}.')
        rows.append(Row(line, len(rows), values))
    if not rows:
        raise UserError(f"{path} is empty.")
    return Table(str(path), list(rows[0].values), rows)


def _kind(value: object) -> str:
    return "list" if isinstance(value, list) else "null" if value is None else f"{type(value).__name__}"
