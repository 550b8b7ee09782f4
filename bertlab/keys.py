"""The keys that a configuration has, with their types, read off the dataclasses; Hydra is not needed."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from bertlab.errors import UserError, unknown

_TYPE_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def check_key(key: str, schema: type) -> Any:
    """The type of a dotted ``key`` of the dataclass ``schema``.

    Raises:
        UserError: no such key; the sentence offers the nearest ones.
    """
    kind: Any = schema
    parts = key.split(".")
    for depth, part in enumerate(parts):
        inner = _member(bare_type(kind), part)
        if inner is None:
            raise _unknown_key(key, parts[:depth], bare_type(kind), schema)
        kind = inner
    return kind


def check_value(key: str, value: Any, kind: Any, schema: type) -> None:
    """Refuse a ``value`` (of YAML's types) that a key of type ``kind``, one of ``schema``, cannot take.

    Raises:
        UserError: names the key, what it takes, and what was given.
    """
    if value is None:
        if not _takes_none(kind):
            raise UserError(f"{key} cannot be null: it takes {words_for(kind)}.")
        return
    if isinstance(value, str) and "${" in value:
        return  # an interpolation: its value is known only once the configuration is composed
    bare = bare_type(kind)
    if is_dataclass(bare) or get_origin(bare) is dict:
        _check_mapping(key, value, bare, schema)
    elif get_origin(bare) is list:
        if not isinstance(value, list):
            raise UserError(f"{key} takes {words_for(kind)}, not {shown(value)}.")
        for index, entry in enumerate(value):
            check_value(f"{key}[{index}]", entry, get_args(bare)[0], schema)
    elif not _is_scalar_of(value, bare):
        raise UserError(f"{key} takes {words_for(kind)}, not {shown(value)}.")


def with_whole_numbers(value: Any, kind: Any) -> Any:
    """A ``value`` that a key of type ``kind`` can take, with 1e3 as 1000 wherever in it a whole number is meant."""
    bare = bare_type(kind)
    if bare is int and isinstance(value, float):
        return int(value)
    if isinstance(value, list):
        return [with_whole_numbers(entry, get_args(bare)[0]) for entry in value]
    if isinstance(value, Mapping):
        return {name: with_whole_numbers(entry, _member(bare, str(name))) for name, entry in value.items()}
    return value


def words_for(kind: Any) -> str:
    """A type as words for a message: ``int | None`` is "a whole number or null"."""
    bare = bare_type(kind)
    if get_origin(bare) is list:
        words = f"a list like [{_example(get_args(bare)[0])}]"
    elif get_origin(bare) is dict or is_dataclass(bare):
        words = f"a mapping like {_example(bare)}"
    else:
        words = _TYPE_WORDS[bare]
    return f"{words} or null" if _takes_none(kind) else words


def shown(value: Any) -> str:
    """A value as a user would have written it."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


def leaf_keys(schema: type) -> dict[str, Any]:
    """Every dotted key that holds a value, with its default (None where the schema has a mapping of anything)."""
    found: dict[str, Any] = {}
    hints = _hints(schema)
    for field in fields(schema):
        bare = bare_type(hints[field.name])
        if is_dataclass(bare):
            found.update({f"{field.name}.{key}": value for key, value in leaf_keys(_as_type(bare)).items()})
        else:
            found[field.name] = _default(field)
    return found


def open_root(key: str, schema: type) -> str | None:
    """The part of ``key`` that is a mapping with names of the user's choice, ``corpus.sources``; None for any other key."""
    kind: Any = schema
    parts = key.split(".")
    for depth, part in enumerate(parts):
        bare = bare_type(kind)
        if get_origin(bare) is dict:
            return ".".join(parts[:depth])
        kind = _member(bare, part)
        if kind is None:
            return None
    return key if get_origin(bare_type(kind)) is dict else None


def _check_mapping(key: str, value: Any, bare: Any, schema: type) -> None:
    if not isinstance(value, Mapping):
        raise UserError(f"{key} takes {words_for(bare)}, not {shown(value)}.")
    for name, entry in value.items():
        inner = _member(bare, str(name))
        if inner is None:
            raise _unknown_key(f"{key}.{name}", key.split("."), bare, schema)
        check_value(f"{key}.{name}", entry, inner, schema)


def _unknown_key(key: str, parents: list[str], bare: Any, schema: type) -> UserError:
    """The error for a key that is not there: among its siblings, else among all keys that end alike."""
    if not is_dataclass(bare):
        return UserError(f"Unknown key {key!r}: {'.'.join(parents)} is a single value and has no keys below it.")
    prefix = ".".join([*parents, ""]) if parents else ""
    siblings = [prefix + field.name for field in fields(bare)]
    last = key.split(".")[-1]
    alike = [known for known in leaf_keys(schema) if known.split(".")[-1] == last]
    return unknown("key", key, alike or siblings)


def _member(bare: Any, name: str) -> Any:
    """The type of what ``name`` selects in a value of type ``bare``: a field, an entry of a mapping, an index of a list."""
    if is_dataclass(bare):
        return _hints(_as_type(bare)).get(name)
    if get_origin(bare) is dict:
        return get_args(bare)[1]
    if get_origin(bare) is list and name.isdigit():
        return get_args(bare)[0]
    return None


def _is_scalar_of(value: Any, bare: Any) -> bool:
    if bare is str:
        return isinstance(value, str | int | float)  # a run named 1 is text as well
    if isinstance(value, bool) or bare is bool:
        return isinstance(value, bool) and bare is bool
    if bare is int:
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, int | float)


def bare_type(kind: Any) -> Any:
    """``kind`` without its None."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _takes_none(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)


@cache
def _hints(schema: type) -> dict[str, Any]:
    return get_type_hints(schema)


def _as_type(bare: Any) -> type:
    assert isinstance(bare, type)
    return bare


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else None


def _example(kind: Any) -> str:
    bare = bare_type(kind)
    if get_origin(bare) is list:
        return f"[{_example(get_args(bare)[0])}]"
    if get_origin(bare) is dict:
        return f"{{name: {_example(get_args(bare)[1])}}}"
    if is_dataclass(bare):
        names = list(_hints(_as_type(bare)))[:2]
        return "{" + ", ".join(f"{name}: {_example(_hints(_as_type(bare))[name])}" for name in names) + "}"
    return {int: "128", float: "0.5", str: "word", bool: "true"}[bare]
