"""Who a run of a grid is before anything is prepared: the identity that its folder will have, as far as configurations tell it.

A run's own identity (``bertlab.training.identity``) needs the token store, the vocabulary and the weights that it starts from. Here
stand what these will be made of: the content of the corpus, the settings of the vocabulary, the key of the run that gives the weights. So
two runs have one key exactly when the same configuration, files and seeds make them, however they were written down.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from bertlab.config import CorpusConfig, PathsConfig, PretrainConfig, TokenizerConfig
from bertlab.data.schedule import plan_training
from bertlab.finetune_config import FinetuneConfig
from bertlab.models.architecture import Architecture
from bertlab.task_config import TaskConfig
from bertlab.training.finetune_identity import finetuning_identity
from bertlab.training.identity import Identity, canonical, pretraining_identity
from bertlab.validation import is_masked, segments_of

if TYPE_CHECKING:
    from bertlab.data.store import TokenStore
    from bertlab.interop.pretrained import Pretrained

T = TypeVar("T")

_OF_A_PLACE = ("name", "path", "files", "folders", "submission", "probe")  # of a task: where it lies, or said otherwise below


@dataclass(frozen=True)
class _Vocabulary:
    fingerprint: str


@dataclass(frozen=True)
class _Source:
    weight: float
    first_document: int = 0
    end_document: int = 0


@dataclass(frozen=True)
class _Store:
    """What a token store will be, by what it will be made of."""

    fingerprint: str
    sources: Sequence[_Source]
    vocabulary: _Vocabulary


@dataclass(frozen=True)
class _Weights:
    """What a pre-trained model will be, by the run that makes it."""

    fingerprint: str
    vocabulary: _Vocabulary


def key_of(meaning: Identity) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(json.dumps(canonical(meaning), separators=(",", ":")).encode()).hexdigest()[:16]


def shape_of(meaning: Identity, source: str | None) -> str:
    """The same for runs that differ in their seeds alone. ``source``: the shape of what the run starts from, and the step."""
    described = {key: value for key, value in meaning.items() if key not in ("seed", "init", "pretrained")}
    return key_of({**described, "source": source})


def architecture_of(config: PretrainConfig) -> Architecture:
    """The model that a configuration describes; a corpus with little text may have a smaller vocabulary."""
    return Architecture.of(config, config.tokenizer.vocab_size)


class Meanings:
    """The meanings of the runs of one plan. Each corpus, vocabulary and file is hashed once."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def pretraining(self, config: PretrainConfig, source: str | None = None) -> Identity:
        """All that a pretraining depends on. ``source``: the key of the one that it goes on from."""
        return pretraining_identity(
            config,
            architecture_of(config),
            plan_training(config),
            pair=segments_of(config) == "pair",
            masked=is_masked(config),
            store=cast("TokenStore", self._store(config)),
            init=source,
        )

    def finetuning(self, config: FinetuneConfig, pretraining: PretrainConfig, source: str) -> Identity:
        """All that a fine-tuning depends on. ``source``: the key of the run of ``pretraining``, and the step whose weights are taken."""
        given = architecture_of(pretraining)
        architecture = replace(
            given,
            dropout=given.dropout if config.dropout is None else config.dropout,
            attention_dropout=given.attention_dropout if config.attention_dropout is None else config.attention_dropout,
        )
        weights = _Weights(source, _Vocabulary(self.vocabulary(pretraining.corpus, pretraining.tokenizer, pretraining.paths)))
        return finetuning_identity(config, cast("Pretrained", weights), architecture, self.task(config.task, config.paths))

    def task(self, task: TaskConfig, paths: PathsConfig) -> str:
        """A hash of what a task's examples are made of: files by their content, a probe by its corpus.

        Raises:
            UserError: the task's files are not there.
        """
        described = {key: value for key, value in asdict(task).items() if key not in _OF_A_PLACE}
        if task.format == "probe":
            from bertlab.tasks.probes import build

            probe, corpus = task.probe, task.probe.corpus
            settings = {key: value for key, value in asdict(probe).items() if key not in ("corpus", "tokenizer")}
            settings |= _raised(version=build.VERSION)
            content: Any = [settings, self.corpus(corpus, paths), corpus.held_out, self.vocabulary(corpus, probe.tokenizer, paths)]
        elif task.format == "huggingface" and (folder := Path(str(task.dataset)).expanduser()).exists():
            del described["dataset"]  # the folder may lie anywhere
            content = self._once(f"{task.dataset!r} {paths!r}", lambda: _files_of_folder(folder, paths))
        elif task.format == "huggingface":
            content = [task.dataset, task.subset]
        else:
            content = self._once(f"{task!r} {paths!r}", lambda: _files(task, paths))
        return key_of({"task": described, "content": content})

    def corpus(self, corpus: CorpusConfig, paths: PathsConfig) -> str:
        """A hash of the text that there is to tokenise."""
        return self._once(f"{corpus!r} {paths!r}", lambda: _corpus(corpus, paths))

    def vocabulary(self, corpus: CorpusConfig, tokenizer: TokenizerConfig, paths: PathsConfig) -> str:
        """A hash of a given vocabulary, or of what one is trained on and how."""
        if tokenizer.path is not None:
            return self._once(repr(tokenizer), lambda: _given_vocabulary(tokenizer))
        from bertlab.data import vocabulary_training

        described = {"corpus": self.corpus(corpus, paths), "size": tokenizer.vocab_size, "lowercase": tokenizer.lowercase}
        return key_of({**described, **_raised(trainer=int(vocabulary_training.TRAINER_VERSION.partition("/")[0]))})

    def _store(self, config: PretrainConfig) -> _Store:
        from bertlab.data.pieces import sources_of

        vocabulary = self.vocabulary(config.corpus, config.tokenizer, config.paths)
        sources = [_Source(source.weight) for source in sources_of(config.corpus).values()]
        return _Store(self.corpus(config.corpus, config.paths), sources, _Vocabulary(vocabulary))

    def _once(self, key: str, make: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found


def _raised(**versions: int) -> dict[str, int]:
    """The versions of what makes examples and vocabularies, of those that were ever raised: what was made before is another thing then."""
    return {name: version for name, version in versions.items() if version > 1}


def _corpus(corpus: CorpusConfig, paths: PathsConfig) -> str:
    from bertlab.data.fingerprints import source_fingerprint
    from bertlab.data.pieces import sources_of

    filters = [[one.filter.duplicate_documents, one.filter.duplicate_lines] for one in (corpus, *sources_of(corpus).values())]
    return key_of({"source": source_fingerprint(corpus, paths), "filters": filters, "sentencex": metadata.version("sentencex")})


def _given_vocabulary(tokenizer: TokenizerConfig) -> str:
    from bertlab.data.tokenizer import given_vocabulary

    assert tokenizer.path is not None
    return given_vocabulary(tokenizer.path, tokenizer.lowercase).fingerprint


def _files_of_folder(folder: Path, paths: PathsConfig) -> dict[str, str]:
    """Name below ``folder`` → hash of the file, of all that there are; of a single file its own."""
    from bertlab.data.cache import cache_folder
    from bertlab.data.fingerprints import file_hash

    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else [folder]
    return {path.relative_to(folder).as_posix(): file_hash(str(path), cache_folder(paths)) for path in files}


def _files(task: TaskConfig, paths: PathsConfig) -> dict[str, str]:
    """Split → hash of its file, of the splits that a fine-tuning reads."""
    from bertlab.data.cache import cache_folder
    from bertlab.data.fingerprints import file_hash
    from bertlab.tasks.discovery import find_files

    wanted = ("train", "dev", *task.evaluate)
    return {split: file_hash(str(file), cache_folder(paths)) for split, file in find_files(task).items() if split in wanted}
