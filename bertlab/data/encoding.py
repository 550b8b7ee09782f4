"""One piece of a corpus → a part of the token store: the work of one process, in bounded memory."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertlab.data.documents import Document, ReadingReport
from bertlab.data.pieces import Piece
from bertlab.data.readers import read
from bertlab.data.sentences import split_sentences, splits_by_line
from bertlab.data.store import token_type
from bertlab.data.tokenizer import Vocabulary
from bertlab.files import sync_folder, write_json

BATCH_SENTENCES = 2048  # tokenised at once: enough for the threads, and a few MB
BATCH_CHARACTERS = 1_000_000
LONGEST_SENTENCE = 100_000  # characters; only a line of a corpus that is split by line can be longer, and is cut

# The files of a part. Lengths, not offsets: parts are joined without looking at each other.
TOKENS = "tokens.bin"  # as in the store
SENTENCE_TOKENS = "sentence_tokens.bin"  # int32, tokens of each sentence
BLOCK_SENTENCES = "block_sentences.bin"  # int32, sentences of each block
BLOCK_HASHES = "block_hashes.bin"  # uint64, content hash of each block
DOCUMENT_BLOCKS = "document_blocks.bin"  # int32, blocks of each document
DOCUMENT_HASHES = "document_hashes.bin"  # uint64, content hash of each document
LENGTH_TYPE = np.dtype("<i4")
SUMMARY = "summary.json"  # written last
COUNTS = ("characters", "tokens", "sentences", "blocks", "documents", "empty_sentences", "empty_documents")  # in the summary


@dataclass(frozen=True)
class EncodingTask:
    """Tokenise ``piece`` with the vocabulary at ``tokenizer`` and write the part into ``folder``."""

    piece: Piece
    folder: Path
    tokenizer: Path


def content_hash(tokens: NDArray[Any]) -> bytes:
    """The 64-bit hash of a text's tokens, as the bytes of a little-endian uint64."""
    return hashlib.blake2b(tokens.tobytes(), digest_size=8).digest()


@lru_cache(maxsize=1)
def _encoder(path: Path) -> tuple[Tokenizer, np.dtype[Any]]:
    vocabulary = Vocabulary.load(path)
    return vocabulary.plain_encoder(), token_type(vocabulary.size)


def encode_piece(task: EncodingTask, progress: Callable[[int], None]) -> None:
    """Write the part of one piece. The folder appears when it is complete, never before; one that is there already is left alone."""
    encoder, dtype = _encoder(task.tokenizer)
    report = ReadingReport(strict=task.piece.corpus.strict)
    with _new_folder(task.folder) as folder, ExitStack() as stack:
        writer = _PartWriter(folder, stack, encoder, dtype, progress)
        for document in read(task.piece, report):
            writer.add(document, task.piece)
        writer.flush()
        write_json(folder / SUMMARY, {"report": report.to_dict(), "counts": writer.counts})


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    temporary.mkdir()
    try:
        yield temporary
        sync_folder(temporary)
        if not folder.exists():
            os.rename(temporary, folder)
            sync_folder(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class _PartWriter:
    """Collects sentences, tokenises them in batches and appends the results to the files of a part."""

    def __init__(self, folder: Path, stack: ExitStack, encoder: Tokenizer, dtype: np.dtype[Any], progress: Callable[[int], None]) -> None:
        names = (TOKENS, SENTENCE_TOKENS, BLOCK_SENTENCES, BLOCK_HASHES, DOCUMENT_BLOCKS, DOCUMENT_HASHES)
        self._files: dict[str, IO[bytes]] = {name: stack.enter_context((folder / name).open("wb")) for name in names}
        self._encoder = encoder
        self._dtype = dtype
        self._progress = progress
        self._texts: list[str] = []
        self._characters = 0  # of the texts
        self._blocks: list[tuple[int, bool]] = []  # of the texts: how many sentences, and whether the document ends with the block
        self._hash = hashlib.blake2b(digest_size=8)  # of the document that is being written
        self._document_blocks = 0  # of it
        self.counts = dict.fromkeys(COUNTS, 0)

    def add(self, document: Document, piece: Piece) -> None:
        """Take a document."""
        by_line = splits_by_line(piece.corpus)
        for block in document.blocks:
            sentences = _cut(block) if by_line else split_sentences(block)
            self._texts += sentences
            self._characters += len(block)
            self._blocks.append((len(sentences), False))
            if len(self._texts) >= BATCH_SENTENCES or self._characters >= BATCH_CHARACTERS:
                self.flush()
        self._blocks.append((0, True))

    def flush(self) -> None:
        """Tokenise and write what has been collected."""
        lengths, tokens = self._encode()
        self._write_blocks(lengths, tokens)
        self._files[TOKENS].write(tokens.data)
        self._files[SENTENCE_TOKENS].write(lengths[lengths > 0].astype(LENGTH_TYPE).data)
        self.counts["characters"] += self._characters
        self.counts["tokens"] += len(tokens)
        self.counts["sentences"] += int(np.count_nonzero(lengths))
        self.counts["empty_sentences"] += int(np.count_nonzero(lengths == 0))
        self._progress(self._characters)
        self._texts, self._blocks, self._characters = [], [], 0

    def _encode(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The tokens of each text (n,), and all tokens after one another; in slices, because one block can be any number of texts."""
        lengths, tokens = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=self._dtype)]
        for texts in _slices(self._texts):
            ids = [encoding.ids for encoding in self._encoder.encode_batch_fast(texts, add_special_tokens=False)]
            lengths.append(np.fromiter(map(len, ids), dtype=np.int64, count=len(ids)))
            tokens.append(np.fromiter(chain.from_iterable(ids), dtype=self._dtype, count=int(lengths[-1].sum())))
        return np.concatenate(lengths), np.concatenate(tokens)

    def _write_blocks(self, lengths: NDArray[np.int64], tokens: NDArray[Any]) -> None:
        """Write sizes and hashes of the blocks, and of the documents that end with one of them. Those without a token are left out."""
        token_starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        filled = np.concatenate([[0], np.cumsum(lengths > 0)]).tolist()  # sentences with a token before each sentence
        sizes: list[int] = []
        hashes: list[bytes] = []
        at = 0
        for sentences, ends_document in self._blocks:
            end = at + sentences
            if filled[end] > filled[at]:
                block = tokens[token_starts[at] : token_starts[end]]
                sizes.append(filled[end] - filled[at])
                hashes.append(content_hash(block))
                self._hash.update(block)
                self._document_blocks += 1
            if ends_document:
                self._end_document()
            at = end
        self.counts["blocks"] += len(sizes)
        self._files[BLOCK_SENTENCES].write(np.array(sizes, dtype=LENGTH_TYPE).data)
        self._files[BLOCK_HASHES].write(b"".join(hashes))

    def _end_document(self) -> None:
        if self._document_blocks:
            self._files[DOCUMENT_BLOCKS].write(self._document_blocks.to_bytes(LENGTH_TYPE.itemsize, "little"))
            self._files[DOCUMENT_HASHES].write(self._hash.digest())
            self.counts["documents"] += 1
        else:
            self.counts["empty_documents"] += 1
        self._hash = hashlib.blake2b(digest_size=8)
        self._document_blocks = 0


def _cut(sentence: str) -> list[str]:
    """A sentence, or, where it is longer than LONGEST_SENTENCE, its parts, cut after a space if there is one."""
    parts: list[str] = []
    start = 0
    while len(sentence) - start > LONGEST_SENTENCE:
        end = sentence.rfind(" ", start, start + LONGEST_SENTENCE) + 1 or start + LONGEST_SENTENCE
        parts.append(sentence[start:end])
        start = end
    return [*parts, sentence[start:]]


def _slices(texts: list[str]) -> Iterator[list[str]]:
    """The texts in slices of bounded size."""
    start = characters = 0
    for end, text in enumerate(texts):
        if end - start >= BATCH_SENTENCES or characters >= BATCH_CHARACTERS:
            yield texts[start:end]
            start, characters = end, 0
        characters += len(text)
    yield texts[start:]
