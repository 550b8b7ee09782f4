"""The ``key=value`` arguments of a command: checked against what exists, and put into the form that Hydra takes.

Hydra's own parser reads them, so that the grammar is Hydra's; what is added is that a mistake becomes one sentence, and four
conveniences: one budget replaces another, a whole number may be written 1e6, text may look like a number (a run's ``0123e456``), and
the sources of a mixture need no ``+``.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, Quote, QuotedString
from hydra.errors import HydraException

from bertlab.config import BudgetConfig
from bertlab.errors import UserError, unknown
from bertlab.keys import bare_type, check_key, check_value, leaf_keys, open_root, with_whole_numbers
from bertlab.schemas import Schema

_GRAMMAR = frozenset("'\"[]{}(),\\$")  # what has a meaning in a value

BUDGETS = tuple(field.name for field in fields(BudgetConfig))


def prepare_overrides(
    arguments: Iterable[str], schema: Schema[Any], groups: Mapping[str, Collection[str]], chosen: Collection[str], multirun: bool
) -> list[str]:
    """The overrides as Hydra shall read them.

    Args:
        arguments: ``key=value``, ``+key=value``, ``++key=value``, ``~key`` as the user wrote them.
        schema: what is configured.
        groups: group → its choices.
        chosen: the groups of which a choice is made already.
        multirun: whether several values for one key are meant.

    Raises:
        UserError: a malformed override, an unknown key or choice, a value of the wrong type, several values without ``-m``.
    """
    overrides = [parse_override(argument) for argument in arguments]
    for override in overrides:
        _check(override, schema, groups, multirun)
    inside = [override for override in overrides if open_root(override.key_or_group, schema.config) and not override.is_delete()]
    written = [_written(override, schema, groups, chosen) for override in overrides if override not in inside]
    return written + _merged(inside, schema) + _other_budgets(overrides)


def parse_override(argument: str) -> Override:
    """One override, read by Hydra's grammar.

    Raises:
        UserError: it is none.
    """
    if "=" not in argument and not argument.startswith("~"):
        raise UserError(f"{argument!r} is not of the form key=value (as in model=tiny or budget.steps=1000).")
    key, _, value = argument.partition("=")
    if not value.isascii() and not _GRAMMAR & set(value):
        argument = f"{key}={text_of(value)}"  # Hydra's grammar knows no letter beyond ASCII but in quotes
    try:
        override = OverridesParser.create().parse_override(argument)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets without end
        raise UserError(f"Cannot read the value of {key!r}: {' '.join(str(error).split())}.") from error
    except HydraException as error:
        hint = f"write '{key}=\"{value}\"' if the value is text" if value else "write key=value"
        raise UserError(f"Cannot read {argument!r} ({error}); {hint}.") from error
    if not override.key_or_group:
        raise UserError(f"{argument!r} names no key before its '='.")
    return override


def values_of(override: Override) -> list[Any]:
    """The value of an override, or all the values of a sweep that can be listed; empty where they cannot (globs, intervals)."""
    value = override.value()
    if not override.is_sweep_override():
        return [value]
    if not override.is_discrete_sweep() or not isinstance(value, ChoiceSweep):
        return []
    return [entry.text if isinstance(entry, QuotedString) else entry for entry in value.list]


def _check(override: Override, schema: Schema[Any], groups: Mapping[str, Collection[str]], multirun: bool) -> None:
    key = override.key_or_group
    if key.split(".")[0] == "hydra" or key.split("/")[0] == "hydra":
        return
    if override.is_sweep_override() and not multirun:
        raise UserError(f"{override.input_line!r} gives several values: add -m to run one after the other, or write {key}=[…] for a list.")
    if override.is_delete():
        if key not in groups:
            check_key(key, schema.config)
        return
    for value in values_of(override):
        if key in groups and not isinstance(value, Mapping):
            _check_choice(key, value, groups[key])
        elif "/" in key:
            raise unknown("group", key, groups)
        else:
            _check_value(key, value, schema, groups)


def _check_choice(group: str, value: Any, choices: Collection[str]) -> None:
    for choice in value if isinstance(value, list) else [value]:
        if "${" not in str(choice) and str(choice) not in choices:
            raise unknown(group, "null" if choice is None else str(choice), choices)


def _check_value(key: str, value: Any, schema: Schema[Any], groups: Mapping[str, Collection[str]]) -> None:
    if "." not in key and key not in schema.sections:
        alike = [known for known in leaf_keys(schema.config) if known.split(".")[-1] == key]
        raise unknown("key", key, alike or schema.sections | set(groups))
    check_value(key, value, check_key(key, schema.config), schema.config)


def _written(override: Override, schema: Schema[Any], groups: Collection[str], chosen: Collection[str]) -> str:
    """An override as text for Hydra: as the user wrote it, but that ``+`` may stand before what exists, and the type decides.

    1e6 is a whole number where one is meant, and a number is text where text is meant.
    """
    line = str(override.input_line)
    key = override.key_or_group
    if key in chosen and override.is_add() and override.package is None:
        return line.removeprefix("+")  # another choice can only replace the one that is made
    if key in groups or override.is_delete() or key.startswith("hydra"):
        return line
    if override.is_add():
        line = "+" + line
    values, (name, _, written) = values_of(override), line.partition("=")
    kind = check_key(key, schema.config)
    whole = _typed_values(override, schema)
    if [*map(repr, whole)] != [*map(repr, values)]:
        return f"{name}={','.join(map(text_of, whole))}"
    if bare_type(kind) is str and any(isinstance(value, int | float) for value in values):
        return f"{name}={','.join(_quoted(word.strip()) for word in written.split(','))}"
    return line


def _typed_values(override: Override, schema: Schema[Any]) -> list[Any]:
    """``values_of``, with 1e3 as 1000 where a whole number is meant."""
    kind = check_key(override.key_or_group, schema.config)
    return [with_whole_numbers(value, kind) for value in values_of(override)]


def _quoted(word: str) -> str:
    """A number, true or false in quotes; what is neither stays as it is."""
    try:
        float(word)
    except ValueError:
        return text_of(word) if word.lower() in ("true", "false") else word
    return text_of(word)


def _other_budgets(overrides: list[Override]) -> list[str]:
    """The budgets that a given one replaces: a scale sets one of the three, and exactly one can hold."""
    given: set[str] = set()
    replaces = False
    for override in overrides:
        for key, value in [(override.key_or_group, value) for value in values_of(override)]:
            entries = value if key == "budget" and isinstance(value, Mapping) else {key.removeprefix("budget."): value}
            named = {name for name in entries if name in BUDGETS and key.split(".")[0] == "budget"}
            given |= named
            replaces |= any(entries[name] is not None for name in named)
    return [f"budget.{name}=null" for name in BUDGETS if name not in given] if replaces else []


def _merged(overrides: list[Override], schema: Schema[Any]) -> list[str]:
    """Overrides inside a mapping with names of the user's choice, as one override of that mapping.

    OmegaConf checks types there only when mappings are merged at the mapping itself, so ``corpus.sources.wiki.path=X`` becomes
    ``++corpus.sources={wiki: {path: X}}``; several are one, because a sweep keeps but one override a key.
    """
    merged = []
    roots = [str(open_root(override.key_or_group, schema.config)) for override in overrides]
    for root in dict.fromkeys(roots):
        within = [override for override, its_root in zip(overrides, roots, strict=True) if its_root == root]
        nested = [[_nest(override.key_or_group, root, value) for value in _typed_values(override, schema)] for override in within]
        if wrong := [override.input_line for override, values in zip(within, nested, strict=True) if not all(map(_is_mapping, values))]:
            raise UserError(f"{wrong[0]!r}: {root} takes a mapping, as in {root}={{NAME: {{…}}}}.")
        combined = [_deep_merge(combination) for combination in itertools.product(*nested)]
        merged.append(f"++{root}=" + ",".join(text_of(value) for value in combined))
    return merged


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _nest(key: str, root: str, value: Any) -> Any:
    for name in reversed(key.removeprefix(root).split(".")[1:]):
        value = {name: value}
    return value


def _deep_merge(values: Iterable[Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for value in values:
        for name, entry in value.items():
            both = isinstance(entry, Mapping) and isinstance(result.get(name), Mapping)
            result[name] = _deep_merge([result[name], entry]) if both else entry
    return result


def text_of(value: Any) -> str:
    """A value in Hydra's grammar, as ``parse_override`` reads it."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{text_of(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(entry) for entry in value) + "]"
    if isinstance(value, str):
        return QuotedString(value, Quote.single).with_quotes()
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else repr(value)
