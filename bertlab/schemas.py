"""What a verb is configured by: the dataclass that its YAML files are checked against, and the file that names the default choices.

Everything between the command line and a checked configuration is told which of these it works for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

import bertlab.finetune_validation
import bertlab.validation
from bertlab.config import PretrainConfig
from bertlab.finetune_config import FinetuneConfig

C = TypeVar("C")


@dataclass(frozen=True)
class Schema(Generic[C]):
    """One kind of configuration."""

    name: str  # of the file in conf/ that names the default choice of every group
    config: type[C]
    validate: Callable[[C], list[str]]  # refuses what cannot be meant; returns warnings
    words: Mapping[str, tuple[str, ...]]  # key → the words that it can hold
    required: Mapping[str, str] = field(default_factory=dict)  # key without a default → what to give, for the message

    @property
    def node(self) -> str:
        """The name under which YAML files find the dataclass."""
        return f"{self.name}_schema"

    @property
    def sections(self) -> frozenset[str]:
        """The keys at the top."""
        return frozenset(field.name for field in fields(self.config))  # type: ignore[arg-type]  # a dataclass, which types cannot say


PRETRAIN = Schema("pretrain", PretrainConfig, bertlab.validation.validate, bertlab.validation.WORDS)
FINETUNE = Schema(
    "finetune",
    FinetuneConfig,
    bertlab.finetune_validation.validate,
    bertlab.finetune_validation.WORDS,
    {
        "task": "the name of a task",
        "checkpoint": "a run's id, its folder, an exported folder or a Hugging Face folder",
    },
)


def schema_of(verb: str) -> Schema[Any]:
    """The configuration that a verb takes."""
    return FINETUNE if verb in ("finetune", "score") else PRETRAIN


def belongs(group: str, schema: Schema[Any]) -> bool:
    """Whether a group of choices is one of ``schema``: its own, or one that no other configuration has (a user's ``experiment``)."""
    section = group.split("/")[0]
    return section in schema.sections or not any(section in other.sections for other in (PRETRAIN, FINETUNE))
