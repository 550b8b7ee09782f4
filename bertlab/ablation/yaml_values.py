"""Values out of a YAML file of a person's own, each checked: a mistake is one sentence that names the file and the key."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bertlab.errors import UserError, unknown
from bertlab.groups import choices, default_choices
from bertlab.overrides import parse_override, prepare_overrides
from bertlab.resources import conf_folder
from bertlab.schemas import Schema, belongs
from bertlab.yaml_files import read_nodes, read_yaml, refuse_overrides_of_code

# What a table's file cannot override, since the command or the plan decides it.
DECIDED = {
    "seed": "seeds: {vary: …, count: …} says which seeds there are",
    "scale": "--scale says it",
    "budget": "budget: 2 in a row is twice the table's budget, and the command says how much that is",
    "init": "of: ROW starts a row from another one's pre-training",
    "checkpoint": "the plan knows which pre-training a fine-tuning starts from",
    "weights": "random: true is a row with random weights",
    "task": "a column says task: NAME",
    "logger": "the command says it",
    "paths": "the command says it",
    "recipe": "--scale says it",
}
_DECIDED_WHOLLY = ("budget", "logger", "paths")  # with every key inside


def load_yaml(path: Path) -> Any:
    """The content of a YAML file in which no key stands twice."""
    _refuse_repeated_keys(path, read_nodes(path), set())
    return read_yaml(path)


def _refuse_repeated_keys(path: Path, node: Any, seen: set[int]) -> None:
    if node is None or id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = str(key.value)
            if name in first:
                raise UserError(f"{path}:{line}: {name!r} is given twice (first in line {first[name]}): keep one.")
            first[name] = line
            _refuse_repeated_keys(path, value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_repeated_keys(path, value, seen)


class Values:
    """The values of the file ``path``."""

    def __init__(self, path: Path, config_dir: Path | None) -> None:
        self.path, self.config_dir = path, config_dir
        self.folders = [*([config_dir] if config_dir else []), conf_folder()]
        self.groups = choices(self.folders)

    def mapping(self, value: Any, where: str, known: Sequence[str] | None) -> Mapping[str, Any]:
        """A mapping, whose keys are all ``known`` (None: any)."""
        if not isinstance(value, Mapping):
            raise self.error(where, f"takes a mapping like {{{(known or ('name',))[0]}: …}}, not {value!r}")
        for key in value:
            if known is not None:
                self.known(where, "key", str(key), known)
        return value

    def named(self, top: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
        """A mapping that is not empty."""
        found = self.mapping(top.get(key) or {}, where, None)
        if not found:
            raise self.error(where, f"is empty: a table has {key}, as in {key}: {{NAME: {{…}}}}")
        return found

    def text(self, found: Mapping[str, Any], key: str, where: str) -> str | None:
        """Text, or None where the key is absent."""
        value = found.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
            raise self.error(where, f"takes text, not {value!r}")
        return None if value is None else str(value)

    def flag(self, found: Mapping[str, Any], key: str, where: str) -> bool:
        """True or false."""
        value = found.get(key, False)
        if not isinstance(value, bool):
            raise self.error(where, f"takes true or false, not {value!r}")
        return value

    def positive(self, found: Mapping[str, Any], key: str, where: str, default: float) -> float:
        """A number above 0."""
        value = found.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self.error(where, f"takes a number above 0, not {value!r}")
        return float(value)

    def word(self, found: Mapping[str, Any], key: str, where: str, known: Sequence[str], default: str) -> str:
        """One of the ``known`` words."""
        value = found.get(key, default)
        self.known(where, "word", str(value), known)
        return str(value)

    def names(self, found: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        """A list of names, or a single one."""
        value = found.get(key)
        if value is None:
            return ()
        listed = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in listed):
            raise self.error(where, f"takes a list of names, not {value!r}")
        return tuple(str(each) for each in listed)

    def words(
        self, found: Mapping[str, Any], key: str, where: str, schema: Schema[Any], decided: Container[str] = DECIDED
    ) -> tuple[str, ...]:
        """Overrides: each is read, and its key, choice and value are checked. ``decided``: what they cannot set."""
        value = found.get(key) or []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error(
                where, f"takes a list of overrides like [objective=ltr] (in quotes where they hold a comma or a colon), not {value!r}"
            )
        groups = {group: files for group, files in self.groups.items() if belongs(group, schema)}
        try:
            refuse_overrides_of_code(value)
            for each in value:
                _refuse_decided(each, decided)
            prepare_overrides(value, schema, groups, default_choices(self.folders, schema.name), multirun=False)
        except UserError as error:
            raise self.error(where, str(error)) from error
        return tuple(value)

    def known(self, where: str, what: str, word: str, names: Any) -> None:
        """Refuse a ``word`` that is none of the ``names``."""
        if word not in names:
            raise self.error(where, str(unknown(what, word, names)))

    def error(self, where: str, what: str) -> UserError:
        """A sentence that begins with the file and the key."""
        return UserError(f"{self.path}: {where + ': ' if where else ''}{what if what.endswith('?') else what.rstrip('.') + '.'}")


def _refuse_decided(word: str, decided: Container[str]) -> None:
    key = parse_override(word).key_or_group
    section = key.split(".")[0]
    if section in decided and (key == section or section in _DECIDED_WHOLLY):
        raise UserError(f"{word!r} cannot be set there: {DECIDED[section]}.")
