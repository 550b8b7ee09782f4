"""Reader of words in columns, as the CoNLL shared tasks have them: a word a line, blank lines between sentences."""

from __future__ import annotations

from pathlib import Path

from bertlab.counting import counted
from bertlab.errors import UserError
from bertlab.tasks.rows import Row, Table, read_text, text_lines

DOCUMENT_MARK = "-DOCSTART-"


def read_conll(path: Path) -> Table:
    """A row a sentence: the k-th column of its lines as the list ``str(k)``.

    Columns are parted by a tab where the line has one, else by spaces. A line of blanks and tabs ends a sentence; a line that begins
    with -DOCSTART- ends it too, and begins a document.

    Raises:
        UserError: a line has fewer or more columns than the first one; no sentence is there.
    """
    sentences: list[tuple[int, int, list[list[str]]]] = []  # line, document, words
    document, width, width_line, is_open = 0, 0, 0, False
    for line, text in enumerate(text_lines(read_text(path)), 1):
        columns = _columns(text)
        if not any(columns):
            is_open = False
        elif columns[0].startswith(DOCUMENT_MARK):
            document, is_open = document + 1, False
        else:
            width, width_line = (width, width_line) if width else (len(columns), line)
            if len(columns) != width or not columns[0]:
                raise _wrong_line(f"{path}:{line}", columns, width, width_line)
            if not is_open:
                sentences.append((line, document, []))
            sentences[-1][2].append(columns)
            is_open = True
    if not sentences:
        raise UserError(f"{path} holds no sentence.")
    names = [str(number) for number in range(width)]
    rows = [
        Row(line, number, {name: list(column) for name, column in zip(names, zip(*words, strict=True), strict=True)}, inside)
        for number, (line, inside, words) in enumerate(sentences)
    ]
    return Table(str(path), names, rows, by_word=True)


def _columns(line: str) -> list[str]:
    if "\t" in line:
        return [column.strip(" ") for column in line.split("\t")]
    return [column for column in line.split(" ") if column]  # other white space may be part of a word


def _wrong_line(where: str, columns: list[str], width: int, width_line: int) -> UserError:
    if len(columns) == width:
        return UserError(f"{where} has no word before its first tab.")
    found = counted(len(columns), "column")
    return UserError(f"{where} has {found}, not {width} as in line {width_line}: a word and its columns stand on a line of their own.")
