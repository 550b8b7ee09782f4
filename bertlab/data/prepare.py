"""Raw text → vocabulary and token store, whatever of them is missing.

Everything is cached under a name that is the hash of what goes into it:

    <cache>/tokenizers/<hash>.json      a vocabulary
    <cache>/tokenizers/<hash>.<hash>.texts/ what was read for it, kept until the store is there, too
    <cache>/stores/<hash>/              a token store
    <cache>/stores/<hash>.<hash>.parts/ while a store is built: a folder for each finished piece of the corpus

A part and a store appear by being renamed, complete; so a build that was killed at any moment goes on with the pieces that are
missing. Pieces are tokenised by as many processes as there are cores, and joined in the corpus's order: neither their number nor a kill
can be seen in the result.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from bertlab.config import CorpusConfig, PathsConfig, TokenizerConfig
from bertlab.counting import counted
from bertlab.data import vocabulary_training
from bertlab.data.cache import cache_folder, refusals_told
from bertlab.data.compression import is_compressed
from bertlab.data.discovery import size_of
from bertlab.data.documents import ReadingReport
from bertlab.data.encoding import SUMMARY, EncodingTask, encode_piece
from bertlab.data.fingerprints import source_fingerprint
from bertlab.data.joining import JoiningTask, NamedPart, join_parts
from bertlab.data.kept_text import read_kept
from bertlab.data.lines import Part
from bertlab.data.made_once import to_be_made
from bertlab.data.pieces import COMPRESSION, PIECE_BYTES, Piece, pieces, sources_of
from bertlab.data.progress import progress_bar
from bertlab.data.readers import read
from bertlab.data.staging import staged
from bertlab.data.store import FORMAT, TokenStore, check_once, read_manifest
from bertlab.data.tokenizer import LONGEST_WORD, Vocabulary, given_vocabulary
from bertlab.data.vocabulary_training import (
    MOST_CHARACTERS,
    SampleTask,
    TrainingTask,
    may_lack_characters,
    merge_characters,
    most_characters,
    sample_piece,
    train_wordpiece,
)
from bertlab.data.workers import Task, Workers, available_cores
from bertlab.errors import UserError
from bertlab.files import sync_folder, write_atomically

Say = Callable[[str], None]
MANY_REPETITIONS = 0.1  # of the documents: from here on a warning is given
MANY_UNKNOWN = 0.02  # of the tokens: the same
LEAST_VOCABULARY = 16


def to_standard_error(line: str) -> None:
    """The default way of saying something to the user."""
    print(line, file=sys.stderr, flush=True)


def prepare(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    paths: PathsConfig | None = None,
    *,
    workers: int | None = None,
    progress: bool = True,
    say: Say = to_standard_error,
    at_most: Callable[[int], None] = lambda documents: None,
) -> TokenStore:
    """The token store of ``corpus``, with its vocabulary; both are made first where they are not in the cache.

    ``workers`` processes work on it (None: one a core). ``say`` gets one line at a time: what was odd in the corpus, its size, whether
    another process is waited for. ``at_most`` is told how many documents the corpus has at most, as soon as that is known: it may refuse
    them before hours of work. Safe to call from several processes at once, and to interrupt and kill: what is done is kept.
    UserError when the corpus has no text, a setting cannot be met, a process dies, or the disk is full.
    """
    preparation = Preparation(corpus, tokenizer, paths, workers or available_cores(), progress, say, at_most)
    try:
        with refusals_told(lambda: preparation.cache):
            store = preparation.store()
            return staged(store, paths.local, say) if paths is not None and paths.local is not None else store
    except KeyboardInterrupt:
        say("Stopped. What is done is kept: the same command goes on from there.")
        raise


@dataclass
class Preparation:
    """One call of ``prepare``."""

    corpus: CorpusConfig
    tokenizer: TokenizerConfig
    paths: PathsConfig | None
    workers: int
    progress: bool
    say: Say
    at_most: Callable[[int], None] = lambda documents: None

    @cached_property
    def cache(self) -> Path:
        """Where everything is kept."""
        return cache_folder(self.paths)

    @cached_property
    def source(self) -> str:
        """The fingerprint of the corpus's content."""
        return source_fingerprint(self.corpus, self.paths)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The units of work, in the corpus's order."""
        found = pieces(self.corpus)
        if not found:
            raise self.nothing()
        return found

    @cached_property
    def sizes(self) -> list[int]:
        """About how many bytes of text each piece holds."""
        return [piece_size(piece) for piece in self.pieces]

    @cached_property
    def text(self) -> dict[str, Any]:
        """What decides which sentences there are to tokenise, but for the filters of duplicates."""
        return {"source": self.source, "sentencex": metadata.version("sentencex")}

    @cached_property
    def filters(self) -> dict[str, list[bool]]:
        """For each source whether repeated documents, and repeated lines, are left out; a mixture's filters are its sources', too."""
        outer = self.corpus.filter
        return {
            name: [outer.duplicate_documents or own.filter.duplicate_documents, outer.duplicate_lines or own.filter.duplicate_lines]
            for name, own in sources_of(self.corpus).items()
        }

    def made_from(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """What the store's manifest says that it was made from."""
        return {**self.text, "filters": self.filters, "tokenizer": vocabulary.fingerprint}

    def store(self) -> TokenStore:
        """The store, built where it is missing."""
        vocabulary = self.vocabulary()
        if vocabulary.size < self.tokenizer.vocab_size and self.tokenizer.path is None:
            self.say(self._why_small(vocabulary))
        key = hash_of({"text": self.text, "filters": self.filters, "tokenizer": vocabulary.fingerprint, "format": FORMAT})
        folder = self.cache / "stores" / key
        with to_be_made(folder, self.say, lambda: self._tokenised(folder)) as missing:
            if missing:
                self._build(folder, self.vocabulary_file(), vocabulary)
        return self._opened(folder, vocabulary, new=missing)

    def _why_small(self, vocabulary: Vocabulary) -> str:
        """Why a trained vocabulary is smaller than it was to be: words ran out, of the characters that it has room for."""
        if may_lack_characters(vocabulary, self.tokenizer.vocab_size):
            wanted = self.tokenizer.vocab_size
            return f"The vocabulary has only {vocabulary.size:,} entries, not {wanted:,}: {_room_for_characters(wanted)}."
        return (
            f"The corpus has text for a vocabulary of only {vocabulary.size:,} entries, not tokenizer.vocab_size="
            f"{self.tokenizer.vocab_size}: every word that occurs twice has its own entry."
        )

    def _why_unknown(self, vocabulary: Vocabulary) -> str:
        """Why the vocabulary cannot write words of the corpus, and what to do, as the end of a sentence."""
        if self.tokenizer.path is not None:
            return "train one on the corpus (tokenizer=wordpiece), or give one for its language (tokenizer.path)"
        if may_lack_characters(vocabulary, self.tokenizer.vocab_size):
            return _room_for_characters(self.tokenizer.vocab_size)
        return (
            f"it is not trained on stretches of more than {LONGEST_WORD} characters without a space: put spaces between their words, or "
            "leave them out of the corpus"
        )

    def vocabulary(self) -> Vocabulary:
        """The vocabulary; of a given one no file is made, so that what is prepared can be used from a cache that cannot be written to."""
        if self.tokenizer.path is not None:
            return given_vocabulary(self.tokenizer.path, self.tokenizer.lowercase)
        return Vocabulary.load(self.vocabulary_file())

    def vocabulary_file(self) -> Path:
        """The vocabulary's tokenizer.json in the cache: a copy of the given one, or trained on the corpus where it is missing."""
        if self.tokenizer.path is not None:
            vocabulary = given_vocabulary(self.tokenizer.path, self.tokenizer.lowercase)
            path = self.cache / "tokenizers" / f"{vocabulary.fingerprint}.json"
            if not path.is_file():
                vocabulary.save(path)
            return path
        if self.tokenizer.vocab_size < LEAST_VOCABULARY:
            raise UserError(f"tokenizer.vocab_size={self.tokenizer.vocab_size} leaves no room for text: give at least {LEAST_VOCABULARY}.")
        path = self.cache / "tokenizers" / f"{self.training_key}.json"
        with to_be_made(path, self.say) as missing:
            if missing:
                self._train_vocabulary(path)
        return path

    @cached_property
    def training_key(self) -> str:
        """What a trained vocabulary depends on."""
        trainer = vocabulary_training.TRAINER_VERSION
        return hash_of({"text": self.text, "size": self.tokenizer.vocab_size, "lowercase": self.tokenizer.lowercase, "trainer": trainer})

    @cached_property
    def plan(self) -> str:
        """A hash of how the corpus is parted: what is kept of one piece is used again only for the same one."""
        return hash_of([[piece.source, repr(piece.parts)] for piece in self.pieces])

    def text_of(self, number: int) -> Path:
        """Where the text of a piece is kept once it has been read for the vocabulary."""
        return self.cache / "tokenizers" / f"{self.training_key}.{self.plan}.texts" / f"{number:06d}.jsonl"

    def _tell_of_files(self) -> None:
        """Each file of plain text is a document, so that their number is known before they are read."""
        if all(source.kind == "text" for source in sources_of(self.corpus).values()):
            self._tell(sum(len(piece.parts) for piece in self.pieces), self._report_of_few)

    def _tell(self, documents: int, met: Callable[[], ReadingReport]) -> None:
        """Tell how many documents there are at most; where they are refused, also what was ``met`` in reading them."""
        try:
            self.at_most(documents)
        except UserError as few:
            raise UserError(f"{few}{_met(met())}") from few

    def _report_of_few(self) -> ReadingReport:
        """What is met in reading files of which there are too few. Raises ``UserError`` where no text is in them."""
        report = ReadingReport()
        if not any(True for piece in self.pieces for _ in read(piece, report)):
            raise self.nothing(report)
        return report

    def _train_vocabulary(self, path: Path) -> None:
        self._tell_of_files()
        scratch = path.with_suffix(".sample")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            trained = self._trained(scratch)
            self._refuse_changed(self._forget_texts)
            write_atomically(path, trained + "\n")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _trained(self, scratch: Path) -> str:
        """A vocabulary trained on a sample of the corpus, of which each piece has its share, as JSON."""
        lowercase, size = self.tokenizer.lowercase, self.tokenizer.vocab_size
        share = vocabulary_training.SAMPLE_CHARACTERS / sum(self.sizes)
        samples = [
            SampleTask(piece, math.ceil(share * self.sizes[number]), scratch / f"{number:06d}.txt", self.text_of(number), lowercase)
            for number, piece in enumerate(self.pieces)
        ]
        sampled = self.work("Reading the corpus for the vocabulary", sample_piece, samples, self.sizes)
        characters = merge_characters([sampled[number].characters for number in range(len(samples))])
        if not len(characters.points):
            raise self.nothing(self._report_of_kept([sample.text for sample in samples]))
        self._tell(sum(each.documents for each in sampled.values()), lambda: self._report_of_kept([sample.text for sample in samples]))
        self.say(f"Training a vocabulary of {size:,} entries …")
        alphabet = vocabulary_training.choose_alphabet(characters, size)
        training = TrainingTask([sample.path for sample in samples], alphabet, size, lowercase)
        trained: str = self.work("Training the vocabulary", train_wordpiece, [training], [1])[0]
        return trained

    def _report_of_kept(self, texts: Sequence[Path]) -> ReadingReport:
        """What was met in reading pieces of which so little came that they were kept whole."""
        report = ReadingReport()
        for text, piece in zip(texts, self.pieces, strict=True):
            for _ in read_kept(text, piece, report):
                pass
        return report

    def _build(self, folder: Path, tokenizer: Path, vocabulary: Vocabulary) -> None:
        self._tell_of_files()
        parts_folder = self._parts_folder(folder)
        target = folder.with_name(f"{folder.name}.joining")
        for stale in (target, *parts_folder.glob(".*")):  # of a process that was killed
            shutil.rmtree(stale, ignore_errors=True)
        parts_folder.mkdir(exist_ok=True)
        parts = [parts_folder / f"{number:06d}" for number in range(len(self.pieces))]
        self._tokenise(parts, tokenizer)
        self._refuse_changed(lambda: self._clean(folder))
        named = [NamedPart(part, piece.source, *self.filters[piece.source]) for part, piece in zip(parts, self.pieces, strict=True)]
        target.mkdir()
        with progress_bar("Joining", sum(self.sizes), self.progress, self.say) as bar:
            join_parts(JoiningTask(named, tokenizer, vocabulary.size, vocabulary.unknown, target, self.made_from(vocabulary)), bar.advance)
        self._refuse_empty(target)
        os.rename(target, folder)
        sync_folder(folder.parent)
        self._clean(folder)

    def _refuse_changed(self, forget: Callable[[], None]) -> None:
        """UserError where the corpus is no longer what its fingerprint was taken of; ``forget`` removes what was kept under that."""
        if source_fingerprint(self.corpus, self.paths) != self.source:
            forget()
            raise UserError("The corpus's files changed while they were read: run the command again when they are complete.")

    def _tokenise(self, parts: list[Path], tokenizer: Path) -> None:
        """Make those of the ``parts`` that are missing."""
        missing = [number for number, part in enumerate(parts) if not (part / SUMMARY).is_file()]
        tasks = [EncodingTask(self.pieces[number], self.text_of(number), parts[number], tokenizer) for number in missing]
        self.work("Tokenising", encode_piece, tasks, [self.sizes[number] for number in missing])

    def _tokenised(self, folder: Path) -> str:
        """How far another process is that builds the store."""
        done = len(list(self._parts_folder(folder).glob(f"*/{SUMMARY}")))
        return f"{done:,} of {counted(len(self.pieces), 'piece')} of the corpus are tokenised" if done else ""

    def _parts_folder(self, folder: Path) -> Path:
        return folder.with_name(f"{folder.name}.{self.plan}.parts")

    def _clean(self, folder: Path) -> None:
        """Remove what was kept for making the store in ``folder``."""
        for parts in list(folder.parent.glob(f"{folder.name}.*.parts")):
            shutil.rmtree(parts, ignore_errors=True)
        if self.tokenizer.path is None:  # else they are of another process that may be training a vocabulary just now
            self._forget_texts()

    def _forget_texts(self) -> None:
        """Remove what was read for the vocabulary."""
        for texts in list(self.cache.glob(f"tokenizers/{self.training_key}.*.texts")):
            shutil.rmtree(texts, ignore_errors=True)

    def work(self, title: str, task: Task, items: Sequence[Any], sizes: Sequence[int]) -> dict[int, Any]:
        """Do ``task`` with all ``items`` in processes, under a progress bar; returns the results by the items' numbers."""
        order = sorted(range(len(items)), key=lambda number: -sizes[number])  # so that no core waits at the end for a long one
        results = {}
        with progress_bar(title, sum(sizes), self.progress, self.say) as bar, Workers(self.workers) as pool:
            for place, result in pool.run(task, [items[number] for number in order], bar.advance):
                results[order[place]] = result
                bar.finish(sizes[order[place]])
        return results

    def _refuse_empty(self, folder: Path) -> None:
        """UserError when the store in ``folder`` has no document; its report says why."""
        manifest = read_manifest(folder)
        if not manifest["documents"]:
            raise self.nothing(ReadingReport.from_dict(manifest["report"]))

    def nothing(self, report: ReadingReport | None = None) -> UserError:
        """The error of a corpus without any text."""
        where = f"corpus.path={self.corpus.path}" if self.corpus.path else f"corpus={self.corpus.kind}"
        return UserError(f"No text was found in {where}: check the path, corpus.kind and the filters.{_met(report) if report else ''}")

    def _refuse_problems(self, store: TokenStore) -> None:
        """UserError where a corpus that is to be read strictly was not as it should be when it was read for this store."""
        for name, source in sources_of(self.corpus).items():
            wrong = _report_of(name, store.manifest).wrong()
            if source.strict and wrong.counts:
                key = "corpus" if self.corpus.strict else f"corpus.sources.{name}"
                raise UserError(f"{key}.strict=true and the corpus has {'; '.join(wrong.lines())}. Repair it, or set {key}.strict=false.")

    def _opened(self, folder: Path, vocabulary: Vocabulary, new: bool) -> TokenStore:
        """The store in ``folder`` with the weights of this run's sources, after saying what is to be known of it.

        UserError where it is damaged, or another one was put in its place.
        """
        check_once(folder)
        store = TokenStore.open(folder)
        if (made_from := store.manifest.get("made_from", {})) != (expected := self.made_from(vocabulary)):
            other = "vocabulary" if made_from.get("tokenizer") != expected["tokenizer"] else "corpus"
            raise UserError(f"{folder} holds the token store of another {other}: delete the folder and run the same command again.")
        report = ReadingReport.from_dict(store.manifest["report"])
        self._tell(store.documents, lambda: report)
        self._refuse_problems(store)
        for line in description(store, report) if new else []:
            self.say(line)
        if store.manifest["repeated_documents"] > MANY_REPETITIONS * store.documents:
            self.say(
                f"Warning: {store.manifest['repeated_documents']:,} of the corpus's {store.documents:,} documents are exact repetitions of "
                "another one, which a model learns by heart: corpus.filter.duplicate_documents=true leaves them out."
            )
        if store.manifest.get("unknown_tokens", 0) > MANY_UNKNOWN * store.token_count:
            self.say(
                f"Warning: {store.manifest['unknown_tokens'] / store.token_count:.0%} of the corpus's tokens are [UNK], words that the "
                f"vocabulary cannot write: {self._why_unknown(vocabulary)}."
            )
        return store.weighted({name: source.weight for name, source in sources_of(self.corpus).items()})


def _room_for_characters(vocab_size: int) -> str:
    """What keeps a trained vocabulary from having all of a corpus's characters, and what to do, as the end of a sentence."""
    most = most_characters(vocab_size)
    if most == MOST_CHARACTERS:
        return (
            f"a trained one keeps only the {most:,} most frequent characters of the corpus, whatever its size; give one that has those of "
            "its language (tokenizer.path)"
        )
    return f"tokenizer.vocab_size={vocab_size} has room for only the {most:,} most frequent characters of the corpus; raise it"


def _report_of(source: str, manifest: dict[str, Any]) -> ReadingReport:
    """What was met in reading a source; of a store that was made before it said so, what was met in all of them."""
    if "reports" not in manifest:
        return ReadingReport.from_dict(manifest["report"])
    found = manifest["reports"].get(source)  # which is not there where it had nothing to be read
    return ReadingReport() if found is None else ReadingReport.from_dict(found)


def _met(report: ReadingReport) -> str:
    """What was odd in a corpus, as the last sentence of an error."""
    return f" Met there: {'; '.join(report.lines())}." if report.counts else ""


def description(store: TokenStore, report: ReadingReport) -> list[str]:
    """What a user is to know of a new store: what was odd in the corpus, what was left out, and how large it is."""
    read = store.manifest["read"]
    left_out = {
        ("sentence without any token", "sentences without any token"): read["empty_sentences"],
        ("document without any token", "documents without any token"): read["empty_documents"],
        ("repeated document, or of repeated lines only", "repeated documents, or of repeated lines only"): read["duplicate_documents"],
        ("repeated line or paragraph", "repeated lines or paragraphs"): read["duplicate_blocks"],
    }
    return [
        *(f"In the corpus: {line}" for line in report.lines()),
        *(f"Left out: {counted(count, one, many)}" for (one, many), count in left_out.items() if count),
        f"Corpus: {counted(store.documents, 'document')}, {counted(store.sentences, 'sentence')}, {counted(store.token_count, 'token')}"
        f" in {store.folder}",
    ]


def piece_size(piece: Piece) -> int:
    """About how many bytes of text a piece holds; at least 1."""
    if piece.corpus.kind in ("parquet", "huggingface"):
        return PIECE_BYTES
    return max(1, sum(_part_size(part) for part in piece.parts))


def _part_size(part: Part) -> int:
    if part.end is not None:
        return part.end - part.start
    return size_of(part.path) * (COMPRESSION if is_compressed(part.path) else 1) - part.start


def hash_of(value: Any) -> str:
    """A short hash of a JSON value."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=10).hexdigest()
