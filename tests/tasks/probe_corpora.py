"""What the tests of probes share: a corpus whose sentences are known, and the probes made of it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from bertlab.config import CorpusConfig, FilterConfig, PathsConfig, TokenizerConfig
from bertlab.task_config import ProbeConfig, TaskConfig
from bertlab.tasks.examples import TaskData
from bertlab.tasks.probes import build_probe
from bertlab.tasks.probes.build import PROBES

Documents = list[list[list[str]]]  # document → paragraph → sentences

_SYLLABLES = ["ba", "de", "ki", "lo", "mu", "na", "po", "ri", "sa", "te", "vo", "zu"]
_SMALL = ["the", "of", "and", "to", "in", "was", "with", "for"]


def invented(documents: int, seed: int = 0, paragraphs: int = 12) -> Documents:
    """Documents of invented words; some of them names that recur in their document, with capitals."""
    random_ = random.Random(seed)

    def word() -> str:
        return "".join(random_.choices(_SYLLABLES, k=random_.randint(2, 4)))

    def sentence(names: list[str]) -> str:
        words = [word().capitalize(), *(random_.choice([word(), word(), *_SMALL]) for _ in range(random_.randint(5, 14)))]
        for name in random_.sample(names, 2):
            words.insert(random_.randint(1, len(words) - 1), name)
        words.insert(random_.randint(2, len(words) - 1), random_.choice(_SMALL) + ",")
        return " ".join(words) + "."

    made = []
    for _ in range(documents):
        names = [random_.choice([str.capitalize, str.capitalize, str.upper, str.swapcase])(word() + word()) for _ in range(5)]
        made.append([[sentence(names) for _ in range(random_.randint(2, 6))] for _ in range(paragraphs)])
    return made


def write_corpus(path: Path, documents: Documents) -> Path:
    """One JSON line a document, paragraphs parted by blank lines."""
    texts = ["\n\n".join(" ".join(paragraph) for paragraph in document) for document in documents]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def probe_task(kind: str, path: Path, *, duplicate_lines: bool = False, held_out: float = 0.01, **settings: Any) -> TaskConfig:
    """The configuration of a probe of the corpus at ``path``."""
    corpus = CorpusConfig(kind="jsonl", path=str(path), held_out=held_out, filter=FilterConfig(duplicate_lines=duplicate_lines))
    given: dict[str, Any] = {"train": 120, "dev": 40, "test": 40, "documents": "any", "tokenizer": TokenizerConfig(vocab_size=400)}
    return TaskConfig(
        name=kind, kind=PROBES[kind].kind, format="probe", probe=ProbeConfig(kind=kind, corpus=corpus, **{**given, **settings})
    )


def built(task: TaskConfig, cache: Path, workers: int = 1) -> TaskData:
    """The probe, quietly."""
    return build_probe(task, PathsConfig(cache=str(cache)), workers=workers, progress=False, say=lambda _: None)


def sentences_in(example: Any) -> list[str]:
    """Everything that an example shows, as the texts of its fields."""
    if hasattr(example, "words"):
        return [" ".join(example.before + example.words)]
    fields = [getattr(example, name, None) for name in ("text", "pair", "question", "context")]
    return [field for field in fields if field] + list(getattr(example, "choices", ()))


def document_of(example: Any) -> str:
    """The document's hash, which an example's id begins with."""
    return str(example.id).split("-")[0]
