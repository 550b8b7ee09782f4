"""The one exception that a user is meant to see: a sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_ALIKE = 0.6  # the share of letters that two names have in common, from which on one may be meant for the other


class UserError(Exception):
    """A mistake in what the user gave (a key, a file, a combination). The command line prints it without a traceback."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """A user's mistake that comes up within says first ``where`` it is: a file and a key."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def nearest(word: str, choices: Iterable[str], count: int = 3) -> list[str]:
    """The entries of ``choices`` that look most like ``word``, best first; at most ``count``, possibly none."""
    by_letters = {choice.lstrip("-"): choice for choice in choices}  # all flags begin alike
    return [by_letters[near] for near in difflib.get_close_matches(word.lstrip("-"), by_letters, n=count, cutoff=_ALIKE)]


def unknown(what: str, word: str, choices: Iterable[str]) -> UserError:
    """The error for a name that is none of ``choices``: it offers the nearest ones, or all when none is near."""
    known = sorted(choices)
    if offered := nearest(word, known):
        return UserError(f"Unknown {what} {word!r}: did you mean {' or '.join(offered)}?")
    return UserError(f"Unknown {what} {word!r}: choose from {', '.join(known)}.")


class RunFailed(UserError):
    """A training whose numbers stopped making sense (not finite, or diverging); its folder says so in ``failed.json``."""


class Interrupted(SystemExit):
    """A training that was asked to stop by a signal and saved its state; its exit code is the shell's: 130 or 143."""

    def __init__(self, signum: int) -> None:
        self.exit_code = 128 + signum
        super().__init__(self.exit_code)
