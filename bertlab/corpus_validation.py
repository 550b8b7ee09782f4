"""What cannot be meant of a corpus is refused here, wherever in a configuration it stands."""

from __future__ import annotations

import glob
import math
import os
from pathlib import Path

from bertlab.config import CorpusConfig
from bertlab.errors import UserError, unknown

CORPUS_KINDS = ("builtin", "text", "sentences", "wikiextractor", "jsonl", "parquet", "huggingface", "mixture")
SENTENCE_SPLITTINGS = ("auto", "library", "line")

_HEEDED_BY = {"column": ("jsonl", "parquet", "huggingface"), "split": ("huggingface",), "subset": ("huggingface",)}


def check_corpus(corpus: CorpusConfig, key: str) -> None:
    """Refuse what cannot be read; ``key`` is ``corpus``, or where else a corpus stands. Raises ``UserError``."""
    for name, known in (("kind", CORPUS_KINDS), ("sentence_splitting", SENTENCE_SPLITTINGS)):
        if (value := getattr(corpus, name)) not in known:
            raise unknown(f"{key}.{name}", value, known)
    if not 0 < corpus.held_out < 1:
        raise UserError(
            f"{key}.held_out={corpus.held_out} must be more than 0 and less than 1: it is the share of documents kept for validation."
        )
    if not (math.isfinite(corpus.weight) and corpus.weight > 0):
        raise UserError(f"{key}.weight={corpus.weight} must be more than 0: to read nothing from a source, leave it out.")
    _check_reading(corpus, key)
    _check_filter(corpus, key)
    _check_sources(corpus, key)
    _check_path(corpus, key)


def _check_reading(corpus: CorpusConfig, key: str) -> None:
    """What only some readers heed is not given to others."""
    default = CorpusConfig()
    for name, kinds in _HEEDED_BY.items():
        value = getattr(corpus, name)
        if value != getattr(default, name) and corpus.kind not in kinds:
            whose = " and ".join(f"{key}.kind={kind}" for kind in kinds)
            hint = f"give it to the sources, as {key}.sources.NAME.{name}" if corpus.kind == "mixture" else "leave it out"
            raise UserError(f"{key}.{name}={value} is for {whose} only: {hint}.")
    if corpus.kind == "mixture" and corpus.sentence_splitting != "auto":
        raise UserError(
            f"Every source splits sentences its own way: set {key}.sources.NAME.sentence_splitting={corpus.sentence_splitting}."
        )


def _check_filter(corpus: CorpusConfig, key: str) -> None:
    least, most = corpus.filter.min_words, corpus.filter.max_words
    for name, value in (("min_words", least), ("max_words", most)):
        if value is not None and value < 0:
            raise UserError(f"{key}.filter.{name}={value} must be 0 or more.")
    if least is not None and most is not None and least > most:
        raise UserError(f"{key}.filter.min_words={least} is more than {key}.filter.max_words={most}: no document would be left.")


def _check_sources(corpus: CorpusConfig, key: str) -> None:
    if corpus.kind != "mixture":
        if corpus.sources:
            raise UserError(f"{key}.sources is given, but {key}.kind={corpus.kind}: only corpus=mixture has sources.")
        return
    if not corpus.sources:
        raise UserError(f"{key}=mixture needs sources, as in '{key}.sources.wiki={{kind: wikiextractor, path: DIR, weight: 1}}'.")
    for name, source in corpus.sources.items():
        if source.kind == "mixture":
            raise UserError(f"{key}.sources.{name} is a mixture itself: list its sources in {key}.sources.")
        if source.held_out != CorpusConfig().held_out:
            raise UserError(f"{key}.sources.{name}.held_out={source.held_out}: one share holds for the whole mixture: set {key}.held_out.")
        check_corpus(source, f"{key}.sources.{name}")


def _check_path(corpus: CorpusConfig, key: str) -> None:
    if corpus.kind in ("builtin", "mixture"):
        if corpus.path is not None:
            raise UserError(
                f"{key}.path={corpus.path} is given, but {key}.kind={corpus.kind} reads no path: say what the files are,"
                f" as in {key}=text (or {_others('builtin', 'mixture', 'text')})."
            )
        return
    if not corpus.path:
        raise UserError(f"{key}.kind={corpus.kind} needs {key}.path: a file, a folder or a glob.")
    if corpus.kind != "huggingface" and not _is_there(corpus.path):
        raise UserError(f"{key}.path={corpus.path}: there is no such file or folder (seen from {Path.cwd()}).")


def _others(*excluded: str) -> str:
    return ", ".join(kind for kind in CORPUS_KINDS if kind not in excluded)


def _is_there(path: str) -> bool:
    expanded = os.path.expanduser(path)  # unlike pathlib's, it and exists() raise nothing
    return os.path.exists(expanded) or next(glob.iglob(expanded, recursive=True), None) is not None
