"""What readers give out: documents, and a report of everything in the input that was not as it should be.

A place in the input is written ``file:line``. A part that starts inside a large file does not know how many lines lie before it, and
counting them for every document would read the file again and again; there a place is written ``file@byte:line`` with the lines counted
from that byte, and ``resolved`` turns it into ``file:line`` when a person is to read it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from bertlab.errors import UserError

EXAMPLES = 3  # kept of each kind of problem


@dataclass
class Document:
    """A text whose sentences belong together, in order.

    ``blocks`` are paragraphs still to be split into sentences, or sentences already: ``sentences.splits_by_line`` knows which.
    ``origin`` is the place where the document starts, for messages.
    """

    origin: str
    blocks: list[str]


class Problem(StrEnum):
    """A kind of problem; the value is what a person reads."""

    BAD_UTF8 = "malformed UTF-8, replaced by U+FFFD"
    NUL = "NUL characters, dropped"
    LONG_LINE = "line of more than 4 MiB"
    UNREADABLE = "file that could not be read, or not to its end"
    NOT_TEXT = "file that is not UTF-8 text, skipped"
    BAD_RECORD = "line that is not a JSON object, skipped"
    NO_TEXT = "record without a text in the column, skipped"
    UNCLOSED = "document without a closing </doc>"
    OUTSIDE = "line outside of any <doc>, skipped"
    EMPTY = "document without text, skipped"
    SYNTAX = "Python file that could not be parsed, skipped"
    CUT = "document of more than 64 MiB, cut into several"
    TOO_SHORT = "document shorter than corpus.filter.min_words, left out"
    TOO_LONG = "document longer than corpus.filter.max_words, left out"


ASKED_FOR = frozenset({Problem.CUT, Problem.TOO_SHORT, Problem.TOO_LONG})  # nothing is wrong with the input: strict reading goes on


@dataclass
class ReadingReport:
    """How often each kind of problem was met, and the first few places of each.

    With ``strict`` the first problem of the input raises a UserError instead of being counted. Reports of several pieces are merged in
    the order of the pieces, so that the examples do not depend on how the work was parted.
    """

    strict: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, problem: Problem, place: str, detail: str = "") -> None:
        """Count one ``problem`` at ``place`` (``file:line``); ``detail`` says more, as far as it helps."""
        if self.strict and problem not in ASKED_FOR:
            what = f"{problem} ({detail})" if detail else str(problem)
            raise UserError(
                f"{resolved(place)}: {what}. corpus.strict=true stops here; repair the file, or go on with corpus.strict=false."
            )
        self.counts[problem] = self.counts.get(problem, 0) + 1
        examples = self.examples.setdefault(problem, [])
        if len(examples) < EXAMPLES:
            examples.append(f"{place} ({detail})" if detail else place)

    def merge(self, other: ReadingReport) -> None:
        """Add the counts and examples of ``other``, which read later parts of the corpus."""
        for problem, count in other.counts.items():
            self.counts[problem] = self.counts.get(problem, 0) + count
            examples = self.examples.setdefault(problem, [])
            examples.extend(other.examples.get(problem, [])[: EXAMPLES - len(examples)])

    def wrong(self) -> ReadingReport:
        """The same without what the configuration asked for."""
        return ReadingReport(counts={p: n for p, n in self.counts.items() if p not in ASKED_FOR}, examples=self.examples)

    def lines(self) -> list[str]:
        """One readable line a kind of problem, the most frequent first; empty when all was well."""
        order = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return [self._line(problem, count) for problem, count in order]

    def _line(self, problem: str, count: int) -> str:
        places = [resolved(example) for example in self.examples.get(problem, [])]
        more = ", …" if count > len(places) else ""
        return f"{problem}: {count:,} × – {', '.join(places)}{more}"

    def to_dict(self) -> dict[str, Any]:
        """The counts and examples as JSON values."""
        return {"counts": dict(self.counts), "examples": {problem: list(places) for problem, places in self.examples.items()}}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> ReadingReport:
        """The inverse of ``to_dict``."""
        return ReadingReport(
            counts={str(problem): int(count) for problem, count in values["counts"].items()},
            examples={str(problem): list(places) for problem, places in values["examples"].items()},
        )


def place(path: str, line: int, start: int = 0) -> str:
    """How line ``line`` (from 1) after byte ``start`` (where a line starts) of a file is written."""
    return f"{path}@{start}:{line}" if start else f"{path}:{line}"


_IN_PIECE = re.compile(r"^(?P<path>.+)@(?P<start>\d+):(?P<line>\d+)(?P<rest> .*)?$", re.DOTALL)
_CHUNK = 1 << 22


def resolved(written: str) -> str:
    """``file@byte:line`` as ``file:line``, by counting the lines before that byte; anything else as it is."""
    match = _IN_PIECE.match(written)
    if not match:
        return written
    try:
        before = _line_ends(Path(match["path"]), int(match["start"]))
    except OSError:
        return written
    return f"{match['path']}:{before + int(match['line'])}{match['rest'] or ''}"


def _line_ends(path: Path, end: int) -> int:
    count = 0
    with path.open("rb") as file:
        while end > 0 and (chunk := file.read(min(end, _CHUNK))):
            count += chunk.count(b"\n")
            end -= len(chunk)
    return count
