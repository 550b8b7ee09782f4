"""What of a corpus a run was not trained on: all of it, as far as is known, or the documents that the run itself held out.

Files are compared by their bytes, and documents by their token ids: text that was compressed, converted or put into other files since is
other files, but the same documents. Where it was cut into other documents it is not recognised, so what is told is what was compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertlab.config import PathsConfig, PretrainConfig
from bertlab.counting import counted
from bertlab.data.cache import cache_folder
from bertlab.data.fingerprints import share_text
from bertlab.data.store import MANIFEST, TokenStore, fingerprint_of, read_manifest
from bertlab.errors import UserError
from bertlab.run_files.folder import RunFolder, find_checkpoint
from bertlab.training.identity import read_identity
from bertlab.training.progress import say


@dataclass(frozen=True)
class Acquaintance:
    """What a pre-training is known to have been trained on of a corpus."""

    files: bool  # some of its files, or perhaps: nothing tells
    documents: int | None = None  # so many of its documents; None where they were not, or cannot be, compared

    def __bool__(self) -> bool:
        return self.files or bool(self.documents)


def other_text(run: RunFolder, config: PretrainConfig, store: TokenStore) -> str | None:
    """What makes ``config``'s corpus another text than ``run``, and what it started from, was trained on; None where nothing does.

    ``store`` was made of that corpus. What is not known for sure is said. A model of which no pre-training is here has seen whatever it has
    seen, so for it no text is another.
    """
    found = [_acquaintance(training, config, store) for training in _trainings(run, config.paths.runs_folder)]
    if not found or any(found):
        return None
    if any(each.documents is None for each in found):
        return "no file of this text was trained on (whether its documents were is not known: no token store of the training is here)"
    return "no file and no whole document of this text was trained on"


def doubts_of_held_out(run: RunFolder, config: PretrainConfig, store: TokenStore) -> list[str]:
    """Why ``run``, or what it started from, may have been trained on documents that ``config`` holds out of its corpus; a sentence each.

    Held out are the documents with the smallest hashes, so of the same documents a smaller share lies within a larger one. Of others, be it
    a part of the files, some more of them or the same ones read otherwise, it is not known which ones a run held out.

    Raises:
        UserError: a smaller ``corpus.held_out`` would do.
    """
    doubts = []
    for training in _trainings(run, config.paths.runs_folder):
        known = _acquaintance(training, config, store)
        if known.documents:
            doubts.append(
                f"{training.name} was trained on {known.documents:,} of the {counted(store.documents, 'document')} of this corpus:"
                " documents that are held out here may be among them."
            )
        if not known.files:
            continue
        own, content = training.read_config().corpus, _content(training)
        read_alike = replace(own, held_out=config.corpus.held_out, strict=config.corpus.strict) == config.corpus
        if not (content == store.fingerprint or (content is None and read_alike)):
            changed = "is not what it was then" if read_alike else "has other files too, lacks some of them, or is read otherwise"
            doubts.append(
                f"{training.name} was trained on files of this corpus, which {changed}: documents that are held out here may have been"
                " trained on there."
            )
        elif config.corpus.held_out > own.held_out:
            raise UserError(
                f"With corpus.held_out={config.corpus.held_out:g}, documents that {training.name} was trained on would count as held out:"
                f" it held out {own.held_out:g} of this corpus, so set corpus.held_out={own.held_out:g} or less."
            )
    return doubts


def _trainings(run: RunFolder, runs: Path) -> Iterator[RunFolder]:
    """The pre-trainings that the weights of ``run`` have been through, as far as they are here, the newest first."""
    if run.task.is_file():
        before: str | None = run.read_finetune_config().checkpoint
    else:
        yield run
        before = run.read_config().init
    if before is None:
        return
    try:
        earlier = find_checkpoint(before, runs)[0]
    except UserError:
        say(f"{run.name} started from {before}, which is no run here: it is not known whether that was trained on this text.")
        return
    yield from _trainings(earlier, runs)


def _acquaintance(run: RunFolder, config: PretrainConfig, store: TokenStore) -> Acquaintance:
    own, content, here = run.read_config().corpus, _content(run), True
    if own == config.corpus or content == store.fingerprint:
        return Acquaintance(files=True)
    try:
        shared = share_text(own, config.corpus, config.paths)
    except UserError:  # files are not where they were; a finished run has their fingerprint, which is of all of them together
        shared, here = content is None, False
    if shared:
        return Acquaintance(files=True)
    documents = _documents_trained_on(run, config, store)
    if documents is None and not here:
        say(f"The text of {run.name} is not here any more: as a whole it differs from this text, but single files may be the same.")
    return Acquaintance(files=False, documents=documents)


def _documents_trained_on(run: RunFolder, config: PretrainConfig, store: TokenStore) -> int | None:
    """How many documents of ``store`` a pre-training was trained on; None where it has no store in the cache, or one of other token ids."""
    identity = read_identity(run)
    own = None if identity is None else _kept_store(str(identity["corpus"]["content"]), config.paths)
    if identity is None or own is None or own.vocabulary.fingerprint != store.vocabulary.fingerprint:
        return None
    trained_on, _ = own.split(identity["corpus"]["held_out"])
    return int(np.isin(store.document_hashes, own.document_hashes[trained_on]).sum())


def _kept_store(content: str, paths: PathsConfig) -> TokenStore | None:
    """The store of this content, where it is in the cache."""
    for manifest in sorted((cache_folder(paths) / "stores").glob(f"*/{MANIFEST}")):
        with suppress(UserError):  # it is damaged, or of another version
            if fingerprint_of(read_manifest(manifest.parent)) == content:
                return TokenStore.open(manifest.parent)
    return None


def _content(run: RunFolder) -> str | None:
    """The fingerprint of the store that a pre-training was trained on; None where nothing whole says so."""
    identity = read_identity(run)
    return None if identity is None else str(identity["corpus"]["content"])
