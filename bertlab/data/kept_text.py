"""The documents of a piece as they were read, kept on disk between training the vocabulary and tokenising with it.

Some corpora take longer to read than to tokenise (the builtin one parses 100 MB of Python), so they are read once. One JSON line a
document, the list of its blocks; the last line is the report of the reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from bertlab.data.documents import Document, ReadingReport
from bertlab.data.pieces import Piece
from bertlab.data.readers import read
from bertlab.files import written_atomically


def keep_text(path: Path, documents: Iterable[Document], report: ReadingReport) -> None:
    """Write all documents of a piece to ``path``, atomically."""
    with written_atomically(path) as file:
        for document in documents:
            file.write(json.dumps(document.blocks).encode() + b"\n")
        file.write(json.dumps(report.to_dict()).encode() + b"\n")


def read_kept(path: Path, piece: Piece, report: ReadingReport) -> Iterator[Document]:
    """The documents of ``piece``, from ``path`` if they were kept there, else from the corpus; ``report`` is the same at the end."""
    try:
        file = path.open(encoding="utf-8")
    except FileNotFoundError:
        yield from read(piece, report)
        return
    with file:
        for line in file:
            value = json.loads(line)
            if isinstance(value, list):
                yield Document("", value)
            else:
                report.merge(ReadingReport.from_dict(value))
