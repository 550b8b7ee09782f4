"""The words of verbs that read texts rather than a configuration: texts, ``key=value`` and flags, in any order."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bertlab.errors import UserError, unknown

_KEY = re.compile(r"([a-z_][a-z_.]*)=(\S*)")


@dataclass
class Words:
    """What stood on the command line after the verb."""

    texts: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)  # of keys, and of flags that take a value
    switches: set[str] = field(default_factory=set)  # flags without a value
    help: bool = False

    def keep(self, name: str, value: str, said: str) -> None:
        """Keep the value of a key or a flag, which stands on the command line as ``said``. UserError when it has another one already."""
        if self.values.setdefault(name, value) != value:
            raise UserError(f"{said} is given twice, with {self.values[name]} and with {value}: leave one of them out.")

    def whole_number(self, key: str, default: int, least: int = 1) -> int:
        """The value of ``key`` as a whole number. UserError when it is none, or less than ``least``."""
        given = self.values.get(key, str(default))
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if number < least:
            raise UserError(f"{key}={given} must be a whole number, {least} or more.")
        return number

    def number(self, key: str, default: float) -> float:
        """The value of ``key`` as a number of 0 or more. UserError when it is none."""
        given = self.values.get(key, str(default))
        try:
            number = float(given)
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            raise UserError(f"{key}={given} must be a number, 0 or more.")
        return number


def parse_words(
    words: Sequence[str], keys: Collection[str], flags: Mapping[str, str] | None = None, switches: Collection[str] = ()
) -> Words:
    """Tell texts, keys and flags apart.

    A word of the form key=value without white space is a key of ``keys``; after ``--`` everything is text.

    Args:
        words: what stood after the verb.
        keys: the keys that the verb has.
        flags: the flags that take a value → the name under which it is kept.
        switches: the flags that take none, besides ``--help``.

    Raises:
        UserError: an unknown key or flag, a flag without its value, or two values for one of them.
    """
    parsed, rest = Words(), list(words)
    flags = flags or {}
    while rest:
        word = rest.pop(0)
        flag, _, attached = word.partition("=")
        if word == "--":
            parsed.texts += rest
            break
        if word in ("--help", "-h"):
            parsed.help = True
        elif word in switches:
            parsed.switches.add(word)
        elif flag in flags:
            if not attached and not rest:
                raise UserError(f"{flag} needs a value, as in {flag} {flags[flag].upper()}.")
            parsed.keep(flags[flag], attached or rest.pop(0), flag)
        elif re.match(r"--?[A-Za-z]", word) and " " not in word:
            raise unknown("flag", word, [*flags, *switches, "--help"])
        elif found := _KEY.fullmatch(word):
            if found[1] not in keys:
                raise unknown("key", found[1], keys)
            parsed.keep(found[1], found[2], found[1])
        else:
            key, _, value = word.partition("=")
            if key in keys:  # a value with spaces in it
                parsed.keep(key, value, key)
            else:
                parsed.texts.append(word)
    return parsed
