"""A probe's examples, made from its corpus or found in the cache.

    <cache>/probes/<hash>.documents.jsonl   the sample of documents, which several probes share
    <cache>/probes/<kind>-<hash>.jsonl      the examples

A name is the hash of what goes into the file. A file appears complete or not at all, and of several processes one makes it while the
others wait.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from bertlab.config import CorpusConfig, PathsConfig, TokenizerConfig
from bertlab.counting import counted
from bertlab.data import vocabulary_training
from bertlab.data.cache import cache_folder, refusals_told
from bertlab.data.fingerprints import source_fingerprint
from bertlab.data.made_once import to_be_made
from bertlab.data.pieces import sources_of
from bertlab.data.prepare import Say, hash_of, prepare, to_standard_error
from bertlab.data.randomness import derive
from bertlab.data.tokenizer import given_vocabulary
from bertlab.data.workers import available_cores
from bertlab.errors import UserError, unknown
from bertlab.files import written_atomically
from bertlab.task_config import ProbeConfig, TaskConfig
from bertlab.tasks.examples import Answer, ChoiceExample, Example, SpanExample, TaggingExample, TaskData, TextExample
from bertlab.tasks.probes import bigram_shift, continuation, recurring_span, sentence_order, splits, truecasing
from bertlab.tasks.probes.documents import ProbeDocument, read_documents, sample, write_documents
from bertlab.tasks.probes.held_out import HeldOut
from bertlab.tasks.probes.probe import Probe, draw
from bertlab.tasks.probes.splits import Supply
from bertlab.tasks.probes.stretches import sources

VERSION = 1  # raised when the same corpus comes to give other examples
CHARACTERS = 1500  # of text that is read for an example: not all of it can be used
FEWEST = 20  # examples of a split, unless fewer are asked for
DOCUMENTS = ("auto", "held_out", "any")
SPLITS = ("train", "dev", "test")
PROBES: dict[str, Probe] = {
    "bigram_shift": bigram_shift.PROBE,
    "sentence_order": sentence_order.PROBE,
    "continuation": continuation.PROBE,
    "recurring_span": recurring_span.PROBE,
    "truecasing": truecasing.PROBE,
}


def build_probe(
    task: TaskConfig, paths: PathsConfig, *, workers: int | None = None, progress: bool = True, say: Say = to_standard_error
) -> TaskData:
    """The train, dev and test splits of the probe that ``task.probe`` describes; made first where they are not in the cache.

    ``workers`` processes read the corpus (None: one a core); their number does not show in the examples. ``notes`` of the result say
    whether they are of held-out documents, and ``left_out`` how many of the examples asked for the corpus has no text for.
    UserError when a setting does not exist, or the corpus has too little text.
    """
    building = Building(task.probe, paths, workers or available_cores(), progress, say)
    if building.maker.kind != task.kind:
        raise UserError(f"task.kind={task.kind}, but the examples of task.probe.kind={task.probe.kind} are of kind {building.maker.kind}.")
    with refusals_told(lambda: building.cache):
        return building.task()


@dataclass
class Building:
    """One call of ``build_probe``."""

    probe: ProbeConfig
    paths: PathsConfig
    workers: int
    progress: bool
    say: Say

    @cached_property
    def maker(self) -> Probe:
        """The probe's own part."""
        if self.probe.kind not in PROBES:
            raise unknown("task.probe.kind", self.probe.kind, PROBES)
        return PROBES[self.probe.kind]

    @cached_property
    def corpus(self) -> CorpusConfig:
        """Where the text comes from; the builtin corpus without repeated paragraphs, as ``corpus=builtin`` of pre-training reads it."""
        corpus = self.probe.corpus
        if corpus.kind != "builtin":
            return corpus
        return replace(corpus, filter=replace(corpus.filter, duplicate_lines=True))

    @cached_property
    def wanted(self) -> dict[str, int]:
        """How many examples each split is to have."""
        found = {name: int(getattr(self.probe, name)) for name in SPLITS}
        if wrong := [name for name, number in found.items() if number < self.maker.outcomes]:
            raise UserError(
                f"task.probe.{wrong[0]}={found[wrong[0]]} is too few: give at least {self.maker.outcomes}, one example of each kind."
            )
        return found

    @cached_property
    def cache(self) -> Path:
        """Where the files are."""
        return cache_folder(self.paths) / "probes"

    @cached_property
    def made_from(self) -> dict[str, Any]:
        """What decides the sample of documents."""
        probe = self.probe
        if probe.documents not in DOCUMENTS:
            raise unknown("task.probe.documents", probe.documents, DOCUMENTS)
        return {
            "version": VERSION,
            "source": source_fingerprint(self.corpus, self.paths),
            "sentencex": metadata.version("sentencex"),
            "held_out": None if probe.documents == "any" else self._held_out_by(),
            "characters": CHARACTERS * sum(self.wanted.values()),
            "seed": probe.seed,
        }

    def _filters(self) -> list[list[bool]]:
        """Whether repeated documents, and repeated lines, are left out: of the corpus, and of each of its sources."""
        corpora = (self.corpus, *sources_of(self.corpus).values())
        return [[one.filter.duplicate_documents, one.filter.duplicate_lines] for one in corpora]

    def _held_out_by(self) -> list[Any]:
        """What decides which documents are held out."""
        return [self.corpus.held_out, self._filters(), vocabulary_key(self.probe.tokenizer)]

    def task(self) -> TaskData:
        """The examples, made where they are missing."""
        name = hash_of({**self.made_from, "documents": self.probe.documents, "wanted": self.wanted})
        path = self.cache / f"{self.probe.kind}-{name}.jsonl"
        with to_be_made(path, self.say) as missing:
            if missing:
                self._write(path)
        return read_examples(path, self.maker)

    def _documents(self) -> list[ProbeDocument]:
        """The sample of documents, read from the corpus where it is not in the cache."""
        path = self.cache / f"{hash_of(self.made_from)}.documents.jsonl"
        with to_be_made(path, self.say) as missing:
            if missing:
                found = sample(
                    self.corpus,
                    self.made_from["characters"],
                    self.probe.seed,
                    self._held_out(path.with_suffix(".npz")),
                    self.workers,
                    self.progress,
                    self.say,
                )
                write_documents(path, found)
                path.with_suffix(".npz").unlink(missing_ok=True)
        return list(read_documents(path))

    def _held_out(self, path: Path) -> Path | None:
        """The held-out documents of pre-training, saved as ``path``; None where it does not matter which they are."""
        if self.probe.documents == "any":
            return None
        store = prepare(self.corpus, self.probe.tokenizer, self.paths, workers=self.workers, progress=self.progress, say=self.say)
        with written_atomically(path) as file:
            HeldOut.of(store, self.corpus.held_out, in_part=any(lines for _, lines in self._filters())).save(file)
        return path

    def _write(self, path: Path) -> None:
        parted, notes = self._parted(self._supplies())
        found: dict[str, list[Example]] = {name: self._examples(name, parted.get(name, [])) for name in SPLITS}
        self._refuse_too_few(found)
        left_out = {
            f"{name} examples that the corpus has no text for": self.wanted[name] - len(examples)
            for name, examples in found.items()
            if len(examples) < self.wanted[name]
        }
        with written_atomically(path) as file:
            file.write(json.dumps({"left_out": left_out, "notes": notes}).encode() + b"\n")
            for name, examples in found.items():
                for one in examples:
                    file.write(json.dumps({"split": name, **asdict(one)}, ensure_ascii=False).encode(errors="replace") + b"\n")

    def _supplies(self) -> list[Supply]:
        """What every document of the sample has to offer."""
        documents = self._documents()
        self.say(f"Making the examples of {self.probe.kind} …")
        return [
            Supply(source.document.hash, source.document.held_out, candidates)
            for source in sources(documents)
            if (candidates := self.maker.candidates(source, self._key(source.document.hash)))
        ]

    def _parted(self, supplies: Sequence[Supply]) -> tuple[dict[str, list[Supply]], list[str]]:
        """The documents of each split, and what is to be said of them."""
        corpus = self.corpus
        if self.probe.documents != "any":
            parted = splits.by_held_out(supplies, self.wanted)
            have = {name: sum(len(one.candidates) for one in parted.get(name, [])) for name in SPLITS}
            if self.probe.documents == "held_out" or all(have[name] >= splits.ENOUGH * self.wanted[name] for name in ("dev", "test")):
                return parted, [_of_held_out(parted)]
            note = (
                f"The examples are of documents that pre-training may have seen: those that corpus.held_out={corpus.held_out} keeps from "
                f"it give {counted(have['dev'], 'example')} for dev and {have['test']:,} for test only. Pre-train with a larger "
                "corpus.held_out and give task.probe.corpus.held_out the same."
            )
        else:
            note = "The examples are of all documents alike, whether or not pre-training has seen them (task.probe.documents=any)."
        everything = sorted(supplies, key=lambda one: draw(1 << 64, self.probe.seed, "split", one.document))
        return splits.evenly(everything, self.wanted), [note]

    def _examples(self, name: str, supplies: list[Supply]) -> list[Example]:
        """The examples of a split in random order, with equally many of each outcome."""
        chosen = [
            (supply.document, number, candidate)
            for supply, share in splits.taken(supplies, self.wanted[name])
            for number, candidate in supply.candidates[:share]
        ]
        chosen.sort(key=lambda one: draw(1 << 64, self._key(one[0]), "outcome", one[1]))
        chosen = chosen[: len(chosen) - len(chosen) % self.maker.outcomes]
        outcomes = [place % self.maker.outcomes for place in range(len(chosen))]
        made = [
            self.maker.example(f"{document:016x}-{number}", candidate, outcome, self._key(document))
            for (document, number, candidate), outcome in zip(chosen, outcomes, strict=True)
        ]
        return sorted(made, key=lambda one: draw(1 << 64, self.probe.seed, "example", one.id))

    def _key(self, document: int) -> int:
        """The key of all random choices in a document."""
        return int(derive(self.probe.seed, self.probe.kind, document))

    def _refuse_too_few(self, found: dict[str, list[Example]]) -> None:
        """UserError for a split with next to no examples."""
        few = [name for name in SPLITS if len(found[name]) < min(FEWEST, self.wanted[name] - self.wanted[name] % self.maker.outcomes)]
        if not few:
            return
        corpus = self.corpus
        where = f"corpus.path={corpus.path}" if corpus.path else f"corpus.kind={corpus.kind}"
        remedy = (
            f"hold out more of it (corpus.held_out={corpus.held_out} when pre-training, the same in task.probe.corpus), or take "
            "task.probe.documents=any"
            if self.probe.documents == "held_out"
            else "give more text, in sentences of 5 to 40 words and in more documents"
        )
        raise UserError(
            f"task.probe.{where} gives {len(found[few[0]])} examples of {self.probe.kind} for {few[0]}, too few to measure anything: "
            f"{remedy}."
        )


def vocabulary_key(tokenizer: TokenizerConfig) -> list[Any]:
    """What decides which vocabulary pre-training has."""
    if tokenizer.path is not None:
        return [given_vocabulary(tokenizer.path, tokenizer.lowercase).fingerprint]
    return [tokenizer.vocab_size, tokenizer.lowercase, vocabulary_training.TRAINER_VERSION]


def _of_held_out(parted: dict[str, list[Supply]]) -> str:
    if all(one.held_out for one in parted["train"]):
        return "The examples are of documents that pre-training holds out."
    return (
        "The examples of dev and test are of documents that pre-training holds out; those of train are of others, which it may have seen."
    )


def read_examples(path: Path, maker: Probe) -> TaskData:
    """The task that was written to ``path``."""
    found: dict[str, list[Any]] = {name: [] for name in SPLITS}
    with path.open("rb") as file:
        fingerprint = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        file.seek(0)
        said = json.loads(file.readline())
        for line in file:
            values = json.loads(line)
            found[values.pop("split")].append(_example(maker.kind, values))
    return TaskData(maker.kind, found, list(maker.labels), fingerprint, left_out=said["left_out"], notes=said["notes"])


def _example(kind: str, values: dict[str, Any]) -> Example:
    if kind == "classification":
        return TextExample(**values)
    if kind == "choice":
        return ChoiceExample(**{**values, "choices": tuple(values["choices"])})
    if kind == "span":
        return SpanExample(**{**values, "answers": tuple(Answer(**answer) for answer in values["answers"])})
    sequences = {name: tuple(values[name]) for name in ("words", "tags", "before", "after")}
    return TaggingExample(id=values["id"], **sequences)
