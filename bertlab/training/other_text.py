"""What of a corpus a run was not trained on: all of it, where it is other text; else the documents that the run itself held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bertlab.config import PretrainConfig
from bertlab.data.fingerprints import share_text
from bertlab.errors import UserError
from bertlab.run_files.folder import RunFolder, find_checkpoint
from bertlab.training.identity import read_identity
from bertlab.training.progress import say

if TYPE_CHECKING:
    from bertlab.data.store import TokenStore


def is_other_text(run: RunFolder, config: PretrainConfig, store: TokenStore) -> bool:
    """Whether ``run``, and what it started from as far as that is here, was trained on no file of ``config``'s corpus.

    ``store`` was made of that corpus. What is not known for sure is said. A model of which no pre-training is here has seen whatever it has
    seen, so for it no text is another.
    """
    trainings = list(_trainings(run, config.paths.runs_folder))
    return bool(trainings) and not any(_knows(training, config, store) for training in trainings)


def doubts_of_held_out(run: RunFolder, config: PretrainConfig, store: TokenStore) -> list[str]:
    """Why ``run``, or what it started from, may have been trained on documents that ``config`` holds out of its corpus; a sentence each.

    Held out are the documents with the smallest hashes, so of the same documents a smaller share lies within a larger one. Of others, be it
    a part of the files, some more of them or the same ones read otherwise, it is not known which ones a run held out.

    Raises:
        UserError: a smaller ``corpus.held_out`` would do.
    """
    doubts = []
    for training in _trainings(run, config.paths.runs_folder):
        if not _knows(training, config, store):
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
                f"With corpus.held_out={config.corpus.held_out:g} documents would count as held out that {training.name} was trained on:"
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
        say(f"What {run.name} started from, {before}, is no run that is here: whether it was trained on this text is not known.")
        return
    yield from _trainings(earlier, runs)


def _knows(run: RunFolder, config: PretrainConfig, store: TokenStore) -> bool:
    """Whether a pre-training had a file of the corpus, or may have had one."""
    own = run.read_config().corpus
    if own == config.corpus:
        return True
    try:
        return share_text(own, config.corpus, config.paths)
    except UserError:  # files are not where they were; a finished run has their fingerprint, which is of all of them together
        if _content(run) in (None, store.fingerprint):
            return True
        say(f"What {run.name} was trained on is not here any more: as a whole it is another text than this; single files may be the same.")
        return False


def _content(run: RunFolder) -> str | None:
    """The fingerprint of the store that a pre-training was trained on; None where nothing whole says so."""
    identity = read_identity(run)
    return None if identity is None else str(identity["corpus"]["content"])
