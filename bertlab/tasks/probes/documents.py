"""The documents that probes are made of: a sample of the corpus that depends on nothing but the texts and the probe's seed.

Every document has a random priority, a function of its text and the seed. The documents of the smallest priorities are taken, as many as
hold enough text, once among those that pre-training holds out and once among the others. So neither the order of the corpus, nor how it
is parted, nor the number of processes shows in the choice, memory is bounded by the text that is wanted, and copies of a document (but
for case and spacing) are one document.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from bertlab.config import CorpusConfig
from bertlab.data.documents import Document, ReadingReport
from bertlab.data.pieces import Piece, pieces
from bertlab.data.prepare import Say, piece_size
from bertlab.data.progress import progress_bar
from bertlab.data.randomness import derive
from bertlab.data.readers import read
from bertlab.data.sentences import split_sentences, splits_by_line
from bertlab.data.workers import Workers
from bertlab.files import written_atomically
from bertlab.tasks.probes.held_out import HeldOut

LEAST_DOCUMENTS = 64  # however long they are, so that a few novels do not make a task by themselves
MOST_CHARACTERS = 200_000  # of one document; of a longer one a part is taken
REPORT_EVERY = 500_000  # characters between reports of progress
_LAST = 1 << 64  # above every priority


@dataclass(frozen=True, slots=True)
class ProbeDocument:
    """A document, or a part of a very long one."""

    priority: int  # 64 bits; the order of documents
    hash: int  # 64 bits, of the text without regard to case and spacing
    held_out: bool  # from pre-training
    blocks: list[list[str]]  # paragraph → sentences, with single spaces between words

    @property
    def characters(self) -> int:
        """The length of its text."""
        return sum(len(sentence) for block in self.blocks for sentence in block)


class Sample:
    """The documents of the smallest priorities, as many as hold ``characters``; at least LEAST_DOCUMENTS."""

    def __init__(self, characters: int, bound: int = _LAST) -> None:
        """``bound``: no document of a higher priority can be in the sample."""
        self.bound = bound
        self._wanted = characters
        self._documents: list[ProbeDocument] = []
        self._held = 0  # characters

    def add(self, document: ProbeDocument) -> None:
        """Take ``document`` into account."""
        if document.priority > self.bound:
            return
        self._documents.append(document)
        self._held += document.characters
        if self._held > 2 * self._wanted and len(self._documents) > 2 * LEAST_DOCUMENTS:
            self._trim()

    def documents(self) -> list[ProbeDocument]:
        """The sample in the order of priorities."""
        self._trim()
        return list(self._documents)

    def _trim(self) -> None:
        kept: list[ProbeDocument] = []
        characters = 0
        for document in sorted(self._documents, key=lambda one: (one.priority, one.blocks)):
            if kept and kept[-1].hash == document.hash:  # a copy
                continue
            kept.append(document)
            characters += document.characters
            if characters >= self._wanted and len(kept) >= LEAST_DOCUMENTS:
                self.bound = document.priority
                break
        self._documents, self._held = kept, characters


@dataclass
class Bounds:
    """The highest priorities that can still be in the samples; they fall while the corpus is read, and each new task gets the latest."""

    held_out: int = _LAST
    other: int = _LAST


@dataclass(frozen=True)
class SampleTask:
    """Read ``piece`` and find the documents that may be in the samples of ``characters`` each."""

    piece: Piece
    characters: int
    seed: int
    held_out: Path | None  # a saved HeldOut; None: no document counts as held out
    bounds: Bounds = field(default_factory=Bounds)


def sample(
    corpus: CorpusConfig, characters: int, seed: int, held_out: Path | None, workers: int, progress: bool, say: Say
) -> list[ProbeDocument]:
    """The held-out documents of the sample, then the others, each in the order of their priorities."""
    found = pieces(corpus)
    sizes = [piece_size(piece) for piece in found]
    bounds = Bounds()
    samples = {True: Sample(characters), False: Sample(characters)}
    tasks = [SampleTask(piece, characters, seed, held_out, bounds) for piece in found]
    order = sorted(range(len(tasks)), key=lambda number: -sizes[number])  # so that no core waits at the end for a long one
    with progress_bar("Reading the corpus for probes", sum(sizes), progress, say) as bar, Workers(workers) as pool:
        for number, documents in pool.run(sample_piece, [tasks[number] for number in order], bar.advance):
            for document in documents:
                samples[document.held_out].add(document)
            bounds.held_out, bounds.other = samples[True].bound, samples[False].bound
            bar.finish(sizes[order[number]])
    return samples[True].documents() + samples[False].documents()


def sample_piece(task: SampleTask, progress: Callable[[int], None]) -> list[ProbeDocument]:
    """The work of one process: the samples of one piece."""
    samples = {True: Sample(task.characters, task.bounds.held_out), False: Sample(task.characters, task.bounds.other)}
    key = int(derive(task.seed, "documents"))
    characters = reported = 0
    for document in read(task.piece, ReadingReport(strict=task.piece.corpus.strict)):
        if taken := _taken(document, task, key):
            samples[taken.held_out].add(taken)
        characters += sum(map(len, document.blocks))
        if characters - reported >= REPORT_EVERY:
            progress(characters - reported)
            reported = characters
    progress(characters - reported)
    return samples[True].documents() + samples[False].documents()


@lru_cache(maxsize=1)
def _held_out(path: Path) -> HeldOut:
    """Kept from piece to piece."""
    return HeldOut.load(path)


def _taken(document: Document, task: SampleTask, key: int) -> ProbeDocument | None:
    by_line = splits_by_line(task.piece.corpus)
    blocks = [[block] if by_line else split_sentences(block) for block in document.blocks]
    held = _held_out(task.held_out).part_of(blocks) if task.held_out else []
    kept = held or list(range(len(blocks)))
    return probe_document(_joined(blocks, kept) if by_line else [blocks[number] for number in kept], bool(held), key)


def _joined(lines: list[list[str]], kept: list[int]) -> list[list[str]]:
    """The lines of a corpus with a sentence a line, those that follow one another as one paragraph."""
    joined: list[list[str]] = []
    for place, number in enumerate(kept):
        if place and kept[place - 1] == number - 1:
            joined[-1] += lines[number]
        else:
            joined.append(list(lines[number]))
    return joined


def probe_document(blocks: list[list[str]], held_out: bool, key: int) -> ProbeDocument | None:
    """The document of these sentences, of which a part is taken where it is very long; None where there is no text."""
    clean = [[spaced for sentence in block if (spaced := " ".join(sentence.split()))] for block in blocks]
    text = " ".join(sentence for block in clean for sentence in block).casefold()
    if not text:
        return None
    hashed = int.from_bytes(hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest(), "little")
    return ProbeDocument(int(derive(key, hashed)), hashed, held_out, _part(clean, int(derive(key, "part", hashed))))


def _part(blocks: list[list[str]], random: int) -> list[list[str]]:
    """The sentences that begin within MOST_CHARACTERS from a random one on; all of them in a document that is no longer than that."""
    lengths = [len(sentence) for block in blocks for sentence in block]
    start = random * max(0, sum(lengths) - MOST_CHARACTERS) >> 64
    part: list[list[str]] = []
    position = 0
    for block in blocks:
        taken = []
        for sentence in block:
            if start <= position < start + MOST_CHARACTERS:
                taken.append(sentence)
            position += len(sentence)
        if taken:
            part.append(taken)
    return part


def write_documents(path: Path, documents: Iterable[ProbeDocument]) -> None:
    """One JSON line a document, written atomically."""
    with written_atomically(path) as file:
        for one in documents:
            file.write(json.dumps([one.priority, one.hash, one.held_out, one.blocks]).encode() + b"\n")


def read_documents(path: Path) -> Iterator[ProbeDocument]:
    """The inverse of ``write_documents``."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield ProbeDocument(*json.loads(line))
