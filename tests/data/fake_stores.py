"""A token store in memory with the attributes that sampling reads, so that its tests need no files and no tokenizer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

PAD, UNKNOWN, CLS, SEP, MASK = range(5)
FIRST_ORDINARY = 5


@dataclass
class FakeVocabulary:
    size: int
    pad: int = PAD
    unknown: int = UNKNOWN
    cls: int = CLS
    sep: int = SEP
    mask: int = MASK
    starts_word: np.ndarray = field(default=None)

    def __post_init__(self):
        if self.starts_word is None:
            self.starts_word = np.ones(self.size, np.bool_)

    @property
    def ordinary(self):
        return np.arange(FIRST_ORDINARY, self.size)


@dataclass
class FakeSource:
    name: str
    first_document: int
    end_document: int
    weight: float


@dataclass
class FakeStore:
    tokens: np.ndarray
    sentence_offsets: np.ndarray
    document_sentences: np.ndarray
    vocabulary: FakeVocabulary
    sources: list
    held_out: np.ndarray

    @property
    def documents(self):
        return self.document_sentences.size - 1

    @property
    def document_offsets(self):
        return self.sentence_offsets[self.document_sentences]

    def split(self, held_out):
        return np.setdiff1d(np.arange(self.documents), self.held_out), self.held_out

    def document_of(self, token):
        """The document that each token (by its place in the store) belongs to."""
        return np.searchsorted(self.document_offsets, token, side="right") - 1


def make_store(documents, vocabulary_size=None, weights=None, held_out=(), tokens=None, starts_word=None):
    """``documents``: for each its sentences' sizes in tokens. The tokens, unless given, count upwards: each tells its place.

    ``weights``: (documents, weight) of each source.
    """
    sizes = np.array([size for sentences in documents for size in sentences], np.int64)
    sentence_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    document_sentences = np.concatenate([[0], np.cumsum([len(sentences) for sentences in documents])]).astype(np.int64)
    if tokens is None:
        tokens = np.arange(FIRST_ORDINARY, FIRST_ORDINARY + sentence_offsets[-1], dtype=np.uint32)
    size = vocabulary_size or int(tokens.max(initial=0)) + 1
    edges = np.cumsum([0] + [count for count, _ in weights]) if weights else [0, len(documents)]
    sources = [
        FakeSource(str(n), int(first), int(end), weight)
        for n, (first, end, (_, weight)) in enumerate(zip(edges[:-1], edges[1:], weights or [(0, 1.0)], strict=True))
    ]
    vocabulary = FakeVocabulary(size, starts_word=starts_word)
    return FakeStore(tokens, sentence_offsets, document_sentences, vocabulary, sources, np.array(held_out, np.int64))


def random_documents(seed, count, sentences=(1, 30), words=(3, 40)):
    """Sizes of the sentences of ``count`` documents."""
    generator = np.random.default_rng(seed)
    return [generator.integers(*words, size=generator.integers(*sentences)).tolist() for _ in range(count)]
