"""A small vocabulary and what the tests of inputs share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertlab.data.tokenizer import SPECIAL_TOKENS, Vocabulary, wordpiece
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import TaskData
from bertlab.tasks.featurise import featurise
from bertlab.tasks.inputs import Inputs

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = [
    "the",
    "an",
    "house",
    "##s",
    "un",
    "##afford",
    "##able",
    "naive",
    "cafe",
    "日",
    "本",
    "語",
    "☃",
    "한",
    "##ᆫ",
    "ß",
    "e",
    "mask",
    "sep",
]
PIECES = [*WORDS, *LETTERS, *("##" + letter for letter in LETTERS), *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~–—’“”"]
TOKENS = [*SPECIAL_TOKENS, *dict.fromkeys(PIECES)]


def small_vocabulary(lowercase: bool = True) -> Vocabulary:
    """Single letters and a few words, so that most words have several sub-tokens."""
    return Vocabulary(wordpiece(TOKENS, lowercase), "a test")


def write_vocabulary(path: Path) -> str:
    """The small vocabulary as a vocab.txt."""
    path.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return str(path)


def inputs_of(
    examples: Sequence[Any], kind: str, vocabulary: Vocabulary | None = None, cache: Path | None = None, **options: Any
) -> Inputs:
    """The examples featurised as the split "train" of a task with these ``options``."""
    data = TaskData(kind, {"train": list(examples)}, [], "fingerprint")
    return featurise(data, "train", TaskConfig(kind=kind, **options), vocabulary or small_vocabulary(), cache, progress=False)


def rows(inputs: Inputs) -> list[list[int]]:
    """The ids of each sequence."""
    return [inputs.tokens[first:end].tolist() for first, end in itertools.pairwise(inputs.offsets)]


def segments(inputs: Inputs) -> list[list[int]]:
    """The segments of each sequence."""
    return [[0] * boundary + [1] * (length - boundary) for boundary, length in zip(inputs.boundaries, inputs.lengths, strict=True)]
