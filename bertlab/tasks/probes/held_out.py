"""Which documents of a corpus pre-training holds out, told from their text.

A token store holds out the documents with the smallest hashes, and the hashes are those of token ids: which documents they are depends on
the vocabulary. So a text is tokenised as pre-training did, and is held out exactly when its tokens are those of a document that the
store holds out.

With ``corpus.filter.duplicate_lines`` the store lacks paragraphs that occurred before, perhaps in a document that is trained on. Of a
document's text only the paragraphs are taken whose every sentence stands in held-out documents; they must be a held-out document once more.
What is taken is therefore never more than what the store holds out. It may be less: a document whose missing paragraph is kept in another
held-out document is not recognised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from bertlab.arrays import UInt64s
from bertlab.data.encoding import content_hash
from bertlab.data.store import HASH_TYPE, TOKENIZER, TokenStore, token_type
from bertlab.data.tokenizer import Vocabulary
from bertlab.data.words import WordTokenizer


@dataclass
class HeldOut:
    """The held-out documents of a token store, and the vocabulary that tells them."""

    tokenizer: Path
    documents: UInt64s  # (d,) the hashes of their tokens, ascending
    sentences: UInt64s  # (s,) the hashes of the tokens of each of their sentences, ascending; (0,) where no document lacks a paragraph

    @classmethod
    def of(cls, store: TokenStore, share: float, in_part: bool) -> HeldOut:
        """Those that ``store`` holds out when ``corpus.held_out`` is ``share``. ``in_part``: it may lack paragraphs of a document."""
        _, held = store.split(share)
        sentences = _sentences(store, held) if in_part else b""
        return cls(
            store.folder / TOKENIZER, np.unique(np.asarray(store.document_hashes)[held]), np.unique(np.frombuffer(sentences, HASH_TYPE))
        )

    def save(self, file: IO[bytes]) -> None:
        """Write it, for other processes to ``load``."""
        np.savez(file, tokenizer=np.array(str(self.tokenizer)), documents=self.documents, sentences=self.sentences)

    @classmethod
    def load(cls, path: Path) -> HeldOut:
        """The inverse of ``save``."""
        with np.load(path) as arrays:
            return cls(Path(str(arrays["tokenizer"])), arrays["documents"], arrays["sentences"])

    @cached_property
    def _tokenize(self) -> WordTokenizer:
        vocabulary = Vocabulary.load(self.tokenizer)
        return WordTokenizer(vocabulary, token_type(vocabulary.size))

    def part_of(self, blocks: list[list[str]]) -> list[int]:
        """Which of a document's blocks (each a list of sentences) are held out: all, some, or none where it is trained on."""
        ids = [[self._tokenize(sentence) for sentence in block] for block in blocks]
        if self._is_document(ids):
            return list(range(len(blocks)))
        if not self.sentences.size:
            return []
        here = [number for number, block in enumerate(ids) if any(block) and self._are_sentences(block)]
        return here if here and self._is_document([ids[number] for number in here]) else []

    def _is_document(self, ids: list[list[bytes]]) -> bool:
        return _holds(self.documents, content_hash(b"".join(b"".join(block) for block in ids)))

    def _are_sentences(self, ids: list[bytes]) -> bool:
        return all(_holds(self.sentences, content_hash(sentence)) for sentence in ids if sentence)


def _holds(hashes: UInt64s, wanted: bytes) -> bool:
    value = np.frombuffer(wanted, HASH_TYPE)[0]
    place = int(np.searchsorted(hashes, value))
    return place < hashes.size and bool(hashes[place] == value)


def _sentences(store: TokenStore, documents: NDArray[np.int64]) -> bytes:
    """The hashes of the sentences of ``documents``, one after the other."""
    found = bytearray()
    for document in documents:
        first, end = store.document_sentences[document], store.document_sentences[document + 1]
        offsets = np.asarray(store.sentence_offsets[first : end + 1])
        tokens = np.asarray(store.tokens[offsets[0] : offsets[-1]])
        for start, stop in pairwise((offsets - offsets[0]).tolist()):
            found += content_hash(tokens[start:stop].data)
    return bytes(found)
