"""Readers of records with a text column: JSON lines and Parquet."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from bertlab.config import CorpusConfig
from bertlab.data.compression import READ_ERRORS, chunks, is_compressed
from bertlab.data.documents import Document, Problem, ReadingReport
from bertlab.data.lines import Part, lines, reason, without_nul
from bertlab.errors import UserError, nearest

WRAPPED_WIDTH = 100  # characters; a text with blank lines and no line longer than this is hard-wrapped
_ROWS = 256  # of a Parquet file decoded at once
_ABSENT = object()


def read_jsonl(part: Part, corpus: CorpusConfig, report: ReadingReport) -> Iterator[Document]:
    """One document a line: the value of ``corpus.column`` of a JSON object; a dotted name reaches into objects, as in a task's files.

    Raises UserError where the first object of a file lacks the column; later ones are counted and skipped.
    """
    seen = part.start > 0
    for number, line in lines(part, report):
        if not line or line.isspace():
            continue
        where = part.place(number)
        record = _json_object(line)
        if record is None:
            report.add(Problem.BAD_RECORD, where)
            continue
        value = _value(record, corpus.column)
        if value is _ABSENT and not seen:
            raise missing_column(corpus.column, where, list(record), _names_of_texts(record))
        seen = True
        if (document := document_of(None if value is _ABSENT else value, where, corpus, report)) is not None:
            yield document


def _value(record: dict[str, Any], column: str) -> object:
    """What a record has under a name, which may be dotted unless a key is spelled so; ``_ABSENT`` where there is no such thing."""
    if column in record:
        return record[column]
    value: Any = record
    for part in column.split("."):
        if not isinstance(value, dict) or part not in value:
            return _ABSENT
        value = value[part]
    return value


def _names_of_texts(record: dict[str, Any]) -> list[str]:
    """The names, dotted inside objects, under which a record holds texts."""
    names, left = [], list(record.items())
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{name}.{key}", inner) for key, inner in value.items()]
        elif isinstance(value, str):
            names.append(name)
    return names


def _json_object(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def missing_column(column: str, where: str, present: list[str], texts: list[str]) -> UserError:
    """The error for a text column that is not there; ``texts`` are the names that hold texts, of which one may be offered."""
    offered = nearest(column, texts, 1)
    hint = f"; did you mean corpus.column={offered[0]}?" if offered else "; name one with corpus.column=…"
    return UserError(f"{where} has no column {column!r}: its columns are {', '.join(map(repr, present)) or 'none'}{hint}")


def missing_arrow_column(column: str, where: str, schema: Any) -> UserError:
    """The same of an Arrow ``schema``, whose columns have nothing inside that could be named."""
    error = missing_column(column, where, schema.names, [field.name for field in schema if _is_text(field.type)])
    inside = column.partition(".")[0] in schema.names
    return UserError(f"{error} (what is inside a column can be named in JSON lines alone)") if inside else error


def document_of(value: object, where: str, corpus: CorpusConfig, report: ReadingReport) -> Document | None:
    """The document that a record's text makes; None, and a line in the report, for what is no text."""
    if isinstance(value, bytes):
        value = _decoded(value, where, report)
    if not isinstance(value, str):
        report.add(Problem.NO_TEXT, where, "" if value is None else f"a {type(value).__name__}")
        return None
    text = without_nul(_without_surrogates(value, where, report), where, report)
    return Document(where, blocks_of(text, joined=corpus.sentence_splitting != "line"))


def _decoded(value: bytes, where: str, report: ReadingReport) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        report.add(Problem.BAD_UTF8, where)
        return value.decode(errors="replace")


def _without_surrogates(text: str, where: str, report: ReadingReport) -> str:
    # JSON can spell half a surrogate pair ("\ud800"), which no encoding can write.
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        report.add(Problem.BAD_UTF8, where, "half a surrogate pair")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def blocks_of(text: str, joined: bool = True) -> list[str]:
    """The paragraphs of a text that came in one string.

    Collections write a paragraph as one line, with or without blank lines between; scanned and typed books come hard-wrapped. With
    ``joined``, a text that has blank lines and no line longer than 100 characters is taken as hard-wrapped, and its lines are joined.
    """
    stripped = [line.strip() for line in text.split("\n")]
    if not joined or all(stripped) or max(map(len, stripped)) > WRAPPED_WIDTH:
        return [line for line in stripped if line]
    paragraphs: list[list[str]] = [[]]
    for line in stripped:
        if line:
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return [" ".join(paragraph) for paragraph in paragraphs if paragraph]


def read_parquet(part: Part, corpus: CorpusConfig, report: ReadingReport) -> Iterator[Document]:
    """One document a row, in the row groups from ``start`` to ``end``; places are numbers of rows in the file."""
    import pyarrow as pa

    try:
        with _plain_file(part.path) as file:
            yield from _rows(file, part, corpus, report)
    except (*READ_ERRORS, pa.ArrowException, UnicodeDecodeError) as error:  # the last of damaged names of columns
        report.add(Problem.UNREADABLE, part.path, reason(error))


def _plain_file(path: str) -> IO[bytes]:
    """The file, for reading at any position: of a compressed one an unnamed temporary copy."""
    if not is_compressed(path):
        return open(path, "rb")
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    for chunk in chunks(path):
        copy.write(chunk)
    copy.seek(0)
    return copy


def _rows(file: IO[bytes], part: Part, corpus: CorpusConfig, report: ReadingReport) -> Iterator[Document]:
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    if corpus.column not in parquet.schema_arrow.names:
        raise missing_arrow_column(corpus.column, part.path, parquet.schema_arrow)
    groups = range(part.start, parquet.num_row_groups if part.end is None else part.end)
    row = 1 + sum(parquet.metadata.row_group(group).num_rows for group in range(part.start))
    for batch in parquet.iter_batches(_ROWS, row_groups=list(groups), columns=[corpus.column], use_threads=False):
        for value in texts_of(batch.column(0), part.path, corpus.column):
            document = document_of(value, f"{part.path}:{row}", corpus, report)
            row += 1
            if document is not None:
                yield document


def texts_of(column: Any, path: str, name: str) -> list[bytes | None]:
    """The values of an Arrow column of texts as bytes, which a malformed one survives; a UserError where it holds something else."""
    import pyarrow as pa

    kind = _kind_of(column.type)
    if pa.types.is_null(kind):
        return [None] * len(column)
    if not _is_text(kind):
        raise UserError(f"{path}: the column {name!r} holds {kind}, not texts; name another with corpus.column=…")
    values: list[bytes | None] = column.cast(kind).cast(pa.large_binary()).to_pylist()
    return values


def _kind_of(arrow_type: Any) -> Any:
    """The type of the values, of a dictionary those that it numbers."""
    import pyarrow as pa

    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def _is_text(arrow_type: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(_kind_of(arrow_type)) for test in tests)


def row_groups(path: str) -> list[int] | None:
    """The sizes in bytes of a plain Parquet file's row groups; None where it cannot be told."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if is_compressed(path):
        return None
    try:
        metadata = pq.read_metadata(path)
    except (*READ_ERRORS, pa.ArrowException, UnicodeDecodeError):
        return None
    return [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]
