"""Training a WordPiece vocabulary on a corpus, to the same byte each time.

``tokenizers`` alone does not do that: its trainer numbers the pieces that are a single continuing character (``##c``) in the order of a
hash map, breaks ties among rare characters in that order too, and the order decides later ties. So the characters are counted
here, those that the vocabulary keeps are chosen here, and both their forms (``c`` and ``##c``) go to the trainer as if they were special
tokens, sorted. What is left to the trainer, merging the most frequent pairs with ties broken by number, is deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordPieceTrainer

from bertlab.data.documents import Document, ReadingReport
from bertlab.data.kept_text import keep_text
from bertlab.data.pieces import Piece
from bertlab.data.readers import read
from bertlab.data.tokenizer import CONTINUATION, LONGEST_WORD, SPECIAL_TOKENS, Vocabulary, normalizer, wordpiece

TRAINER_VERSION = f"1/{metadata.version('tokenizers')}"
SAMPLE_CHARACTERS = 200_000_000  # of the corpus that a vocabulary is trained on: enough for rare words, a few minutes, under 2 GB
MOST_CHARACTERS = 1000  # different ones that a vocabulary keeps, as in the released BERT's
LEAST_FREQUENCY = 2  # a pair of pieces that occurs only once is no pattern
BATCH_CHARACTERS = 1_000_000
CODE_POINTS = 0x110000
OVERLONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")  # would be [UNK] (or is a URL or encoded data, and would fill the alphabet)


@dataclass(frozen=True)
class SampleTask:
    """Take a sample of at most ``share`` characters of ``piece`` and write it, normalised, to ``path``.

    A piece that fits wholly is kept at ``text`` as it was read.
    """

    piece: Piece
    share: int
    path: Path
    text: Path
    lowercase: bool


@dataclass(frozen=True)
class Characters:
    """Which characters a text has, how often, and whether any of their occurrences continues a word: three arrays (C,)."""

    points: NDArray[np.int64]
    counts: NDArray[np.int64]
    continuing: NDArray[np.bool_]


@dataclass(frozen=True)
class Sampled:
    """What a piece holds: the characters of its sample, and how many documents there are in all."""

    characters: Characters
    documents: int


def sample_piece(task: SampleTask, progress: Callable[[int], None]) -> Sampled:
    """Write the sample of one piece and count its characters; the work of one process."""
    counter = CharacterCounter()
    clean = normalizer(task.lowercase)
    texts, documents = _sample_texts(task, progress)
    with task.path.open("w", encoding="utf-8", newline="\n") as file:
        for text in _batches(texts):
            normalized = OVERLONG.sub(" ", clean.normalize_str(text).replace("\n", " ")) + "\n"
            counter.add(normalized)
            file.write(normalized)
    return Sampled(counter.result(), documents)


def _sample_texts(task: SampleTask, progress: Callable[[int], None]) -> tuple[list[str], int]:
    """The texts of the sample, of ``share`` characters at most, and the documents of the piece; it is kept if they are all of it."""
    report = ReadingReport(strict=task.piece.corpus.strict)
    documents, stride, count = _spread_sample(read(task.piece, report), task.share, progress)
    texts = [" ".join(document.blocks) for document in documents]
    if len(texts) == 1:
        texts = [texts[0][: task.share]]
    if stride == 1:
        keep_text(task.text, documents, report)
    return texts, count


def _spread_sample(documents: Iterable[Document], share: int, progress: Callable[[int], None]) -> tuple[list[Document], int, int]:
    """Every k-th of the documents, of about ``share`` characters at most (or a single one of them), k, and how many there are in all.

    Every document at first; whenever the share is exceeded, every second one of those kept goes, and from then on half as many come.
    """
    kept: list[Document] = []
    lengths: list[int] = []
    total, stride, count = 0, 1, 0
    for number, document in enumerate(documents):
        length = sum(map(len, document.blocks))
        progress(length)
        count += 1
        if number % stride:
            continue
        kept.append(document)
        lengths.append(length)
        total += length
        while total > share and len(kept) > 1:
            # The numbers of those kept are the multiples of the stride.
            kept, lengths, stride = kept[::2], lengths[::2], stride * 2
            total = sum(lengths)
    return kept, stride, count


def _batches(texts: list[str]) -> Iterator[str]:
    """The texts joined to about BATCH_CHARACTERS each: the trainer shares out lines, and so the lines must not be huge."""
    batch: list[str] = []
    length = 0
    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= BATCH_CHARACTERS:
            yield " ".join(batch)
            batch, length = [], 0
    yield " ".join(batch)


class CharacterCounter:
    """Counts the characters of normalised text and finds those that continue a word, as BERT's pre-tokeniser cuts words."""

    def __init__(self) -> None:
        self._counts = np.zeros(CODE_POINTS, dtype=np.int64)
        self._continuing = np.zeros(CODE_POINTS, dtype=np.bool_)
        # Whether a character lies inside words, asked of the pre-tokeniser itself on its first occurrence, so that the two agree.
        self._joins = np.zeros(CODE_POINTS, dtype=np.bool_)
        self._pre_tokenizer = BertPreTokenizer()

    def add(self, text: str) -> None:
        """Count ``text``."""
        points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        counts = np.bincount(points, minlength=CODE_POINTS)
        for point in np.flatnonzero((counts > 0) & (self._counts == 0)):
            self._joins[point] = len(self._pre_tokenizer.pre_tokenize_str("a" + chr(point) + "a")) == 1
        self._counts += counts
        joins = self._joins[points]
        self._continuing[points[1:][joins[1:] & joins[:-1]]] = True

    def result(self) -> Characters:
        """What was counted, white space left out."""
        points = np.array([p for p in np.flatnonzero(self._counts) if not chr(p).isspace()], dtype=np.int64)
        return Characters(points, self._counts[points], self._continuing[points])


def merge_characters(parts: list[Characters]) -> Characters:
    """The characters of several texts together."""
    counts = np.zeros(CODE_POINTS, dtype=np.int64)
    continuing = np.zeros(CODE_POINTS, dtype=np.bool_)
    for part in parts:
        counts[part.points] += part.counts
        continuing[part.points] |= part.continuing
    points = np.flatnonzero(counts)
    return Characters(points, counts[points], continuing[points])


def most_characters(vocab_size: int) -> int:
    """How many characters a vocabulary keeps at most: with their ``##`` forms two thirds of it, so that there is room for words."""
    return min(MOST_CHARACTERS, (vocab_size - len(SPECIAL_TOKENS)) // 3)


def may_lack_characters(vocabulary: Vocabulary, vocab_size: int) -> bool:
    """Whether a trained vocabulary has all the characters that it has room for, so that the corpus may have others."""
    return sum(len(token) == 1 for token in vocabulary.tokenizer.get_vocab()) >= most_characters(vocab_size)


def choose_alphabet(characters: Characters, vocab_size: int) -> list[str]:
    """The single-character pieces of a vocabulary: the most frequent characters (ties by code point), then their ``##`` forms."""
    frequent = np.lexsort((characters.points, -characters.counts))[: most_characters(vocab_size)]
    chosen = np.sort(frequent)  # back to the order of code points
    continuing = chosen[characters.continuing[chosen]]
    return [chr(p) for p in characters.points[chosen]] + [CONTINUATION + chr(p) for p in characters.points[continuing]]


@dataclass(frozen=True)
class TrainingTask:
    """Train a vocabulary of ``vocab_size`` entries on normalised text files."""

    files: list[Path]
    alphabet: list[str]
    vocab_size: int
    lowercase: bool


def train_wordpiece(task: TrainingTask, progress: Callable[[int], None]) -> str:
    """Train, and return the tokenizer as JSON; the work of one process.

    The vocabulary: special tokens, single characters, continuing characters, merged pieces by their frequency. Fewer than
    ``vocab_size`` entries when no pair of pieces is left that occurs twice.
    """
    seeds = [*SPECIAL_TOKENS, *task.alphabet]
    trainee = Tokenizer(WordPiece(unk_token="[UNK]"))
    trainee.pre_tokenizer = BertPreTokenizer()
    characters = [token for token in task.alphabet if not token.startswith(CONTINUATION)]
    trainer = WordPieceTrainer(
        vocab_size=task.vocab_size,
        min_frequency=LEAST_FREQUENCY,
        show_progress=False,
        special_tokens=seeds,
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        continuing_subword_prefix=CONTINUATION,
    )
    trainee.train([str(path) for path in task.files], trainer)
    ids: dict[str, Any] = trainee.get_vocab()
    tokens = sorted(ids, key=ids.__getitem__)
    if tokens[: len(seeds)] != seeds or any(len(t) == 3 and t.startswith(CONTINUATION) for t in tokens[len(seeds) :]):
        raise RuntimeError(
            "the trainer of this version of tokenizers numbers characters by itself: the vocabulary would not be reproducible"
        )
    return wordpiece(tokens, task.lowercase).to_str()
