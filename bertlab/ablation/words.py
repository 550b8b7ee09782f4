"""Overrides of a plan's runs, put together from several places: the scale, the table, the command, the row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from bertlab.config import CorpusConfig, TokenizerConfig
from bertlab.overrides import text_of

_SETTLED_BY_WEIGHTS = ("model", "backbone", "norm", "objective", "tokenizer")


def merged(*parts: Iterable[str]) -> list[str]:
    """All words; of those for one key the last. One budget replaces another."""
    found: dict[str, str] = {}
    for word in (word for part in parts for word in part):
        key = key_of_word(word)
        key = "budget" if key.split(".")[0] == "budget" else key
        found.pop(key, None)
        found[key] = word
    return list(found.values())


def key_of_word(word: str) -> str:
    """What a word sets."""
    return word.lstrip("+~").partition("=")[0]


def section_of(word: str) -> str:
    """The part of the configuration that a word sets, or sets something in."""
    return key_of_word(word).split(".")[0].split("/")[0]


def without_settled(words: Iterable[str]) -> list[str]:
    """The words without those on what a checkpoint settles when a pretraining goes on from it."""
    return [word for word in words if section_of(word) not in _SETTLED_BY_WEIGHTS]


def probe_words(corpus: CorpusConfig, tokenizer: TokenizerConfig, sizes: dict[str, int]) -> list[str]:
    """A probe on the corpus of the pretraining, with its held-out documents and so many examples in each split."""
    sources = {name: dict(_changed(source)) for name, source in corpus.sources.items()}
    values = {
        # These have other values in the probe's file, so they are said in any case.
        "kind": corpus.kind,
        "held_out": corpus.held_out,
        **{key: value for key, value in _changed(corpus) if key != "filter"},
        **{f"filter.{key}": value for key, value in _changed(corpus.filter)},
    }
    words = [f"task.probe.corpus.{key}={text_of(value)}" for key, value in values.items() if key != "sources"]
    words += [f"task.probe.corpus.sources={text_of(sources)}"] if sources else []
    words += [f"task.probe.tokenizer.{field.name}={text_of(getattr(tokenizer, field.name))}" for field in fields(tokenizer)]
    return words + [f"task.probe.{split}={count}" for split, count in sizes.items()]


def _changed(section: Any) -> Iterator[tuple[str, Any]]:
    """What differs from the defaults, as plain values."""
    standard = type(section)()
    for field in fields(section):
        value = getattr(section, field.name)
        if value != getattr(standard, field.name):
            yield field.name, dict(_changed(value)) if is_dataclass(value) else value
