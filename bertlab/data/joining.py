"""The parts of a corpus → one token store: joined in the corpus's order, without the repetitions that are not wanted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from bertlab.data import encoding, store
from bertlab.data.documents import ReadingReport
from bertlab.data.duplicates import first_occurrences
from bertlab.data.mapping import mapped
from bertlab.files import sync_folder

CHUNK_TOKENS = 1 << 22  # held in memory at once, on average
CHUNK_DOCUMENTS = 4096


class Part:
    """What ``encode_piece`` wrote for one piece. d documents, b blocks, s sentences, n tokens.

    An array is memory-mapped when it is asked for, not before: a corpus has thousands of parts, and a process may have 1,024 files open.
    """

    def __init__(self, folder: Path, token_type: np.dtype[Any]) -> None:
        self.summary: dict[str, Any] = json.loads((folder / encoding.SUMMARY).read_text(encoding="utf-8"))
        self._folder, self._token_type = folder, token_type

    def tokens(self) -> NDArray[Any]:
        """The ids: (n,)."""
        return mapped(self._folder / encoding.TOKENS, self._token_type)

    def sentence_tokens(self) -> NDArray[Any]:
        """Tokens of each sentence: (s,)."""
        return mapped(self._folder / encoding.SENTENCE_TOKENS, encoding.LENGTH_TYPE)

    def block_sentences(self) -> NDArray[Any]:
        """Sentences of each block: (b,)."""
        return mapped(self._folder / encoding.BLOCK_SENTENCES, encoding.LENGTH_TYPE)

    def document_blocks(self) -> NDArray[Any]:
        """Blocks of each document: (d,)."""
        return mapped(self._folder / encoding.DOCUMENT_BLOCKS, encoding.LENGTH_TYPE)

    def document_hashes(self) -> NDArray[Any]:
        """The content hash of each document: (d,)."""
        return mapped(self._folder / encoding.DOCUMENT_HASHES, store.HASH_TYPE)


@dataclass
class Chunk:
    """Some documents of a part: d documents, b blocks, s sentences, n tokens."""

    tokens: NDArray[Any]  # (n,)
    sentence_tokens: NDArray[Any]  # (s,)
    block_sentences: NDArray[Any]  # (b,)
    document_blocks: NDArray[Any]  # (d,)
    document_hashes: NDArray[Any]  # (d,)

    def keep(self, kept_blocks: NDArray[np.bool_]) -> Chunk:
        """The chunk with only the blocks (b,) that are to be kept, and without the documents that lose them all."""
        kept_sentences = np.repeat(kept_blocks, self.block_sentences)
        document_of_block = np.repeat(np.arange(len(self.document_blocks)), self.document_blocks)
        blocks = np.bincount(document_of_block[kept_blocks], minlength=len(self.document_blocks))
        remaining = Chunk(
            tokens=self.tokens[np.repeat(kept_sentences, self.sentence_tokens)],
            sentence_tokens=self.sentence_tokens[kept_sentences],
            block_sentences=self.block_sentences[kept_blocks],
            document_blocks=blocks[blocks > 0],
            document_hashes=self.document_hashes[blocks > 0],
        )
        remaining.hash_again((blocks != self.document_blocks)[blocks > 0])
        return remaining

    def sentences_of_documents(self) -> NDArray[np.int64]:
        """How many sentences each document has: (d,)."""
        return np.asarray(np.add.reduceat(self.block_sentences, starts(self.document_blocks), dtype=np.int64))

    def hash_again(self, changed: NDArray[np.bool_]) -> None:
        """Give new content hashes to the ``changed`` documents (d,)."""
        if not changed.any():
            return
        ends = np.cumsum(self.sentence_tokens, dtype=np.int64)[np.cumsum(self.sentences_of_documents()) - 1]
        begins = np.concatenate([[0], ends[:-1]])
        hashes = [encoding.content_hash(self.tokens[begins[d] : ends[d]].data) for d in np.flatnonzero(changed)]
        self.document_hashes = self.document_hashes.copy()
        self.document_hashes[changed] = np.frombuffer(b"".join(hashes), dtype=store.HASH_TYPE)


def starts(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Where each of the runs of these ``lengths`` (k,) starts: (k,)."""
    result: NDArray[np.int64] = np.cumsum(lengths, dtype=np.int64) - lengths
    return result


def chunks(part: Part) -> Iterator[Chunk]:
    """The part in pieces of whole documents."""
    all_tokens, all_sentence_tokens, all_block_sentences = part.tokens(), part.sentence_tokens(), part.block_sentences()
    all_document_blocks, all_hashes = part.document_blocks(), part.document_hashes()
    documents = len(all_document_blocks)
    size = max(1, min(CHUNK_DOCUMENTS, CHUNK_TOKENS * documents // max(1, len(all_tokens))))
    block = sentence = token = 0
    for first in range(0, documents, size):
        document_blocks = all_document_blocks[first : first + size]
        block_sentences = all_block_sentences[block : block + int(document_blocks.sum())]
        sentence_tokens = all_sentence_tokens[sentence : sentence + int(block_sentences.sum())]
        tokens = all_tokens[token : token + int(sentence_tokens.sum(dtype=np.int64))]
        yield Chunk(tokens, sentence_tokens, block_sentences, document_blocks, all_hashes[first : first + size])
        block, sentence, token = block + len(block_sentences), sentence + len(sentence_tokens), token + len(tokens)


class HashedFile:
    """A binary file that is hashed while it is written and flushed to the disk at the end."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.bytes = 0
        self._file: IO[bytes] = path.open("wb")
        self._hash = hashlib.blake2b(digest_size=16)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def write(self, values: NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Append ``values`` as ``dtype``."""
        data = np.ascontiguousarray(values, dtype=dtype).data
        self._file.write(data)
        self._hash.update(data)
        self.bytes += data.nbytes

    def entry(self) -> dict[str, Any]:
        """The file's size and hash, for the manifest."""
        return {"bytes": self.bytes, "blake2b": self._hash.hexdigest()}


class StoreWriter:
    """Writes the arrays of a token store chunk by chunk."""

    def __init__(self, folder: Path, token_type: np.dtype[Any], unknown: int, stack: ExitStack) -> None:
        self.token_type = token_type
        self.unknown, self.unknown_tokens = unknown, 0
        self.tokens = self.sentences = self.documents = 0
        self._files = {name: stack.enter_context(HashedFile(folder / name)) for name in store.FILES if name != store.TOKENIZER}
        for name in (store.SENTENCE_OFFSETS, store.DOCUMENT_SENTENCES):
            self._files[name].write(np.zeros(1), store.OFFSET_TYPE)

    def write(self, chunk: Chunk) -> None:
        """Append the documents of ``chunk``."""
        if not len(chunk.document_blocks):
            return
        sentence_ends = self.tokens + np.cumsum(chunk.sentence_tokens, dtype=np.int64)
        document_ends = self.sentences + np.cumsum(chunk.sentences_of_documents())
        self._files[store.TOKENS].write(chunk.tokens, self.token_type)
        self._files[store.SENTENCE_OFFSETS].write(sentence_ends, store.OFFSET_TYPE)
        self._files[store.DOCUMENT_SENTENCES].write(document_ends, store.OFFSET_TYPE)
        self._files[store.DOCUMENT_HASHES].write(chunk.document_hashes, store.HASH_TYPE)
        self.tokens += len(chunk.tokens)
        self.unknown_tokens += int(np.count_nonzero(chunk.tokens == self.unknown))
        self.sentences += len(chunk.sentence_tokens)
        self.documents += len(chunk.document_blocks)

    def entries(self) -> dict[str, Any]:
        """Sizes and hashes of the files."""
        return {name: file.entry() for name, file in self._files.items()}


@dataclass(frozen=True)
class NamedPart:
    """An encoded piece: its folder, its source's name, and what is left out of it."""

    folder: Path
    source: str  # parts of a source stand together
    duplicate_documents: bool  # leave out documents that occur in the corpus before
    duplicate_lines: bool  # leave out blocks that occur in the corpus before


@dataclass(frozen=True)
class JoiningTask:
    """Join ``parts``, in the corpus's order, to a store in the empty folder ``target``."""

    parts: list[NamedPart]
    tokenizer: Path
    vocab_size: int
    unknown: int  # the id of [UNK]
    target: Path
    made_from: dict[str, Any]  # for the store's manifest


def join_parts(task: JoiningTask, progress: Callable[[int], None]) -> None:
    """Write the store, its manifest last; ``progress`` gets the characters of each part. The caller renames the folder into place."""
    dtype = store.token_type(task.vocab_size)
    parts = [Part(part.folder, dtype) for part in task.parts]
    counts = total_counts(parts)
    shutil.copyfile(task.tokenizer, task.target / store.TOKENIZER)
    sources: dict[str, list[int]] = {}
    with ExitStack() as stack:
        writer = StoreWriter(task.target, dtype, task.unknown, stack)
        repeated_blocks = 0
        for part, named, (kept, repeated) in zip(parts, task.parts, _kept_blocks(parts, task.parts), strict=True):
            first = writer.documents
            repeated_blocks += repeated
            _write_part(writer, part, kept)
            sources.setdefault(named.source, [first, first])[1] = writer.documents
            progress(part.summary["counts"]["characters"])
    counts |= {"duplicate_blocks": repeated_blocks, "duplicate_documents": counts["documents"] - writer.documents}
    files = writer.entries() | {store.TOKENIZER: store.file_entry(task.target / store.TOKENIZER)}
    manifest = {
        "format": store.FORMAT,
        "documents": writer.documents,
        "sentences": writer.sentences,
        "tokens": writer.tokens,
        "unknown_tokens": writer.unknown_tokens,
        "token_type": dtype.str,
        "sources": [{"name": name, "first_document": first, "end_document": end} for name, (first, end) in sources.items()],
        "read": counts,
        "repeated_documents": int(np.count_nonzero(~first_occurrences([task.target / store.DOCUMENT_HASHES]))),
        "report": merged_report(parts).to_dict(),
        "reports": {name: merged_report(_of_source(name, parts, task.parts)).to_dict() for name in sources},
        "made_from": task.made_from,
        "files": files,
    }
    store.write_manifest(task.target, manifest)
    sync_folder(task.target)


def total_counts(parts: list[Part]) -> dict[str, int]:
    """The sums of what was counted in reading the parts."""
    return {name: sum(part.summary["counts"][name] for part in parts) for name in encoding.COUNTS}


def _of_source(name: str, parts: list[Part], named: list[NamedPart]) -> list[Part]:
    return [part for part, each in zip(parts, named, strict=True) if each.source == name]


def merged_report(parts: list[Part]) -> ReadingReport:
    """The report on all that the parts were read from."""
    report = ReadingReport()
    for part in parts:
        report.merge(ReadingReport.from_dict(part.summary["report"]))
    return report


def _kept_blocks(parts: list[Part], named: list[NamedPart]) -> Iterator[tuple[NDArray[np.bool_] | None, int]]:
    """Which blocks of each part are kept, (b,) or None for all of them, and how many repeat others in documents that do not."""
    documents = blocks = None
    if any(name.duplicate_documents for name in named):
        documents = first_occurrences([name.folder / encoding.DOCUMENT_HASHES for name in named])
    # The text of a repeated document has been seen, so its blocks count as seen too: the two filters need not know of each other.
    if any(name.duplicate_lines for name in named):
        blocks = first_occurrences([name.folder / encoding.BLOCK_HASHES for name in named])
    document = block = 0
    for part, name in zip(parts, named, strict=True):
        document_blocks, block_count = part.document_blocks(), part.summary["counts"]["blocks"]
        kept, repeated = np.ones(block_count, dtype=np.bool_), 0
        if documents is not None and name.duplicate_documents:
            kept &= np.repeat(documents[document : document + len(document_blocks)], document_blocks)
        if blocks is not None and name.duplicate_lines:
            new = blocks[block : block + block_count]
            repeated = int(np.count_nonzero(kept & ~new))
            kept &= new
        document, block = document + len(document_blocks), block + block_count
        yield (None if kept.all() else kept), repeated


def _write_part(writer: StoreWriter, part: Part, kept: NDArray[np.bool_] | None) -> None:
    block = 0
    for chunk in chunks(part):
        end = block + len(chunk.block_sentences)
        writer.write(chunk if kept is None or kept[block:end].all() else chunk.keep(kept[block:end]))
        block = end
