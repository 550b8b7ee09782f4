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
from pathlib import Path
from typing import IO, Any

import numpy as np

from bertlab.data.documents import Document, ReadingReport
from bertlab.data.kept_text import read_kept
from bertlab.data.pieces import Piece
from bertlab.data.sentences import split_sentences, splits_by_line
from bertlab.data.store import token_type
from bertlab.data.tokenizer import Vocabulary
from bertlab.data.words import WordTokenizer
from bertlab.files import sync_folder, write_json

REPORT_EVERY = 500_000  # characters between reports of progress
HASH_BYTES = 8
LONGEST_SENTENCE = 100_000  # characters; only a line of a corpus that is split by line can be longer, and is cut

# The files of a part. Lengths, not offsets: parts are joined without looking at each other.
TOKENS = "tokens.bin"  # as in the store
SENTENCE_TOKENS = "sentence_tokens.bin"  # int32, tokens of each sentence
BLOCK_SENTENCES = "block_sentences.bin"  # int32, sentences of each block
BLOCK_HASHES = "block_hashes.bin"  # uint64, content hash of each block
DOCUMENT_BLOCKS = "document_blocks.bin"  # int32, blocks of each document
DOCUMENT_HASHES = "document_hashes.bin"  # uint64, content hash of each document
FILES = (TOKENS, SENTENCE_TOKENS, BLOCK_SENTENCES, BLOCK_HASHES, DOCUMENT_BLOCKS, DOCUMENT_HASHES)
LENGTH_TYPE = np.dtype("<i4")
SUMMARY = "summary.json"  # written last
COUNTS = ("characters", "tokens", "sentences", "blocks", "documents", "empty_sentences", "empty_documents")  # in the summary


@dataclass(frozen=True)
class EncodingTask:
    """Tokenise ``piece`` with the vocabulary at ``tokenizer`` and write the part into ``folder``.

    Its text is at ``text`` if it was kept there.
    """

    piece: Piece
    text: Path
    folder: Path
    tokenizer: Path


def content_hash(ids: bytes | memoryview) -> bytes:
    """The 64-bit hash of the bytes of a text's ids, as the bytes of a little-endian uint64."""
    return hashlib.blake2b(ids, digest_size=HASH_BYTES).digest()


@lru_cache(maxsize=1)
def _tokenizer(path: Path) -> tuple[WordTokenizer, np.dtype[Any]]:
    """Kept from piece to piece, with the words that it has met."""
    vocabulary = Vocabulary.load(path)
    dtype = token_type(vocabulary.size)
    return WordTokenizer(vocabulary, dtype), dtype


def encode_piece(task: EncodingTask, progress: Callable[[int], None]) -> None:
    """Write the part of one piece. The folder appears when it is complete, never before; one that is there already is left alone."""
    corpus = task.piece.corpus
    report = ReadingReport(strict=corpus.strict)
    by_line = splits_by_line(corpus)
    with _new_folder(task.folder) as folder:
        with ExitStack() as stack:
            writer = _PartWriter(folder, stack, *_tokenizer(task.tokenizer))
            reported = 0
            for document in read_kept(task.text, task.piece, report):
                writer.add(document, by_line)
                if (characters := writer.counts["characters"]) - reported >= REPORT_EVERY:
                    progress(characters - reported)
                    reported = characters
            progress(writer.counts["characters"] - reported)
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
    """Tokenises documents and appends them to the files of a part."""

    def __init__(self, folder: Path, stack: ExitStack, tokenize: WordTokenizer, dtype: np.dtype[Any]) -> None:
        self._files: dict[str, IO[bytes]] = {name: stack.enter_context((folder / name).open("wb")) for name in FILES}
        self._tokenize = tokenize
        self._id_bytes = dtype.itemsize
        self.counts = dict.fromkeys(COUNTS, 0)

    def add(self, document: Document, by_line: bool) -> None:
        """Write a document: its sentences, blocks and itself, but for those without a token."""
        sentence_tokens: list[int] = []
        block_sentences: list[int] = []
        block_hashes: list[bytes] = []
        document_hash = hashlib.blake2b(digest_size=HASH_BYTES)
        for block in document.blocks:
            texts = _cut(block) if by_line else split_sentences(block)
            sentences = [ids for text in texts if (ids := self._tokenize(text))]
            self.counts["empty_sentences"] += len(texts) - len(sentences)
            self.counts["characters"] += len(block)
            if sentences:
                ids = b"".join(sentences)
                self._files[TOKENS].write(ids)
                document_hash.update(ids)
                sentence_tokens += [len(sentence) // self._id_bytes for sentence in sentences]
                block_sentences.append(len(sentences))
                block_hashes.append(content_hash(ids))
        self._end_document(sentence_tokens, block_sentences, block_hashes, document_hash.digest())

    def _end_document(
        self, sentence_tokens: list[int], block_sentences: list[int], block_hashes: list[bytes], document_hash: bytes
    ) -> None:
        if not block_sentences:
            self.counts["empty_documents"] += 1
            return
        self._write_lengths(SENTENCE_TOKENS, sentence_tokens)
        self._write_lengths(BLOCK_SENTENCES, block_sentences)
        self._write_lengths(DOCUMENT_BLOCKS, [len(block_sentences)])
        self._files[BLOCK_HASHES].write(b"".join(block_hashes))
        self._files[DOCUMENT_HASHES].write(document_hash)
        self.counts["documents"] += 1
        self.counts["blocks"] += len(block_sentences)
        self.counts["sentences"] += len(sentence_tokens)
        self.counts["tokens"] += sum(sentence_tokens)

    def _write_lengths(self, name: str, lengths: list[int]) -> None:
        self._files[name].write(np.array(lengths, dtype=LENGTH_TYPE).data)


def _cut(sentence: str) -> list[str]:
    """A sentence, or, where it is longer than LONGEST_SENTENCE, its parts, cut after a space if there is one."""
    parts: list[str] = []
    start = 0
    while len(sentence) - start > LONGEST_SENTENCE:
        end = sentence.rfind(" ", start, start + LONGEST_SENTENCE) + 1 or start + LONGEST_SENTENCE
        parts.append(sentence[start:end])
        start = end
    return [*parts, sentence[start:]]
