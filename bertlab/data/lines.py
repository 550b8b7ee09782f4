"""Lines of text out of files, whatever the files hold: the one place where a file's bytes become characters.

Work goes on in blocks of whole lines: a block that is sound is decoded and split at once, and only a block with something wrong in it is
looked at line by line. Memory is bounded by the block or by the longest line, which is cut at 64 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from bertlab.data.compression import READ_ERRORS, chunks
from bertlab.data.documents import Problem, ReadingReport, place

LONG_LINE = 1 << 22  # bytes; longer lines are reported
LONGEST_LINE = 1 << 26  # bytes; longer lines are cut
BLANKS = " \t\r\f\v"  # what a blank line may hold, besides NULs
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NO_TEXT_SHARE = 0.3  # of a file's first bytes that may be NULs or malformed; past it the file is taken for something else than text


@dataclass(frozen=True)
class Part:
    """What one reader reads in one go: a file, or from ``start`` to ``end`` of it (bytes; row groups or rows where the reader says so)."""

    path: str
    start: int = 0
    end: int | None = None

    def place(self, line: int) -> str:
        """The place of the part's line ``line``, counted from 1, for messages."""
        return place(self.path, line, self.start)


def lines(part: Part, report: ReadingReport) -> Iterator[tuple[int, str]]:
    """The numbered lines of a part, from 1 and without line ends, malformed bytes replaced and NULs dropped.

    What is wrong goes to the report. A file that cannot be read (on) ends early. An empty file has one empty line, one that cannot be
    read has none. A line of more than 64 MiB comes in several parts that carry the same number.
    """
    number, number_of_long = 1, 0
    block = None
    try:
        for block in _whole_lines(_text_only(part)):
            raw = block.split(b"\n")
            if not raw[-1]:
                raw.pop()
            if len(block) > LONG_LINE:
                number_of_long = _report_long(raw, number, number_of_long, part, report)
            yield from enumerate(_decoded(block, raw, number, part, report), number)
            number += block.count(b"\n")
        if block is None:
            yield number, ""
    except _NotTextError:
        report.add(Problem.NOT_TEXT, part.path)
    except READ_ERRORS as error:
        report.add(Problem.UNREADABLE, part.place(number), reason(error))


class _NotTextError(Exception):
    pass


def reason(error: Exception) -> str:
    """Why reading failed, in a few words and without the path, which the report names anyway."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _text_only(part: Part) -> Iterator[bytes]:
    """The bytes of a part, without the byte order mark. Raises _NotTextError for a part of a file that does not start as text."""
    stream = chunks(part.path, part.start, part.end)
    whole = not part.start and part.end is None
    head = next(stream if whole else chunks(part.path), b"")  # the same bytes for every part of a file
    malformed = head.decode(errors="replace").count("\ufffd") + head.count(b"\0")
    if malformed > _NO_TEXT_SHARE * len(head):
        raise _NotTextError
    if part.start:
        return stream
    first = head if whole else next(stream, b"")
    return chain([first.removeprefix(_BYTE_ORDER_MARK)], stream)


def _whole_lines(stream: Iterator[bytes]) -> Iterator[bytes]:
    """The stream in blocks that end where a line ends, or in the midst of one that is longer than LONGEST_LINE."""
    held: list[bytes] = []
    size, failure = 0, None
    try:
        for chunk in stream:
            cut = chunk.rfind(b"\n") + 1
            if not cut and size + len(chunk) >= LONGEST_LINE:
                cut = _character_end(chunk)
            if cut:
                yield b"".join([*held, chunk[:cut]])
                held, size = [], 0
            held.append(chunk[cut:])
            size += len(chunk) - cut
    except READ_ERRORS as error:
        failure = error
    if size:
        yield b"".join(held)
    if failure:
        raise failure


def _character_end(chunk: bytes) -> int:
    """Where ``chunk`` can be cut, at its end or up to three bytes before, without cutting a UTF-8 character."""
    for cut in range(len(chunk) - 1, max(len(chunk) - 4, 0), -1):
        if chunk[cut] & 0xC0 != 0x80:  # no continuation byte: a character starts here
            return cut
    return len(chunk)


def _report_long(raw: list[bytes], number: int, reported: int, part: Part, report: ReadingReport) -> int:
    """Report the long lines among ``raw``, each once; returns the number of the last one reported."""
    for index, line in enumerate(raw, number):
        if len(line) > LONG_LINE and index != reported:
            report.add(Problem.LONG_LINE, part.place(index))
            reported = index
    return reported


def _decoded(block: bytes, raw: list[bytes], number: int, part: Part, report: ReadingReport) -> list[str]:
    try:
        text = block.decode()
    except UnicodeDecodeError:
        sound = False
    else:
        sound = "\0" not in text
    if sound:
        decoded = text.split("\n")
        return decoded if decoded[-1] else decoded[:-1]
    return [_repaired(line, part.place(index), report) for index, line in enumerate(raw, number)]


def _repaired(line: bytes, where: str, report: ReadingReport) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        report.add(Problem.BAD_UTF8, where)
        text = line.decode(errors="replace")
    return without_nul(text, where, report)


def without_nul(text: str, where: str, report: ReadingReport) -> str:
    """``text`` with its NUL characters dropped, and reported if there are any."""
    if "\0" not in text:
        return text
    report.add(Problem.NUL, where)
    return text.replace("\0", "")
