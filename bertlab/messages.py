"""What the command line says on standard error: standard output is for results."""

from __future__ import annotations

import errno
import os
import sys
import traceback

from bertlab.errors import UserError

_RED, _YELLOW = "31", "33"

# What no program can help: a full disk, a folder that must not be written to. Anything else of its kind may be a mistake of ours.
_ROOM = "make room, or write to another disk; the same command goes on where this one ended"
_DISK = "the disk or the network to it has failed; once it is back, the same command goes on where this one ended"
_RIGHTS = "change that, or name another folder (as with paths.runs or paths.cache)"
_OF_THE_MACHINE = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "lift the limit on the size of files (ulimit -f), or write to another disk",
    errno.EIO: _DISK,
    errno.ESTALE: _DISK,
    errno.EROFS: _RIGHTS,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.ENOTDIR: "name a folder, not a file, nor something inside one",
    errno.ENAMETOOLONG: "name a shorter one",
}


def complain(error: BaseException) -> None:
    """Print an error: a user's mistake, or what the machine refuses, as a sentence; anything else with its traceback, as a mistake of ours.

    ``BERTLAB_TRACEBACK=1`` shows every traceback.
    """
    sentence = str(error) if isinstance(error, UserError) else _refusal_of_the_machine(error)
    if sentence is None or os.environ.get("BERTLAB_TRACEBACK", "0") not in ("", "0"):
        traceback.print_exception(error)
    if sentence is not None:
        say(sentence, _RED)
    else:
        say(f"stopped by {type(error).__name__}: {error}", _RED)


def _refusal_of_the_machine(error: BaseException) -> str | None:
    """A full disk, or a place that must not be written to, as a sentence; also where a library's own error came of it."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _OF_THE_MACHINE:
            where = f"{seen.filename}: " if seen.filename else ""
            return f"{where}{seen.strerror}: {_OF_THE_MACHINE[seen.errno]}."
        seen = seen.__cause__ or seen.__context__
    return None


def warn(sentence: str) -> None:
    """Print a warning."""
    say(f"warning: {sentence}", _YELLOW)


def say(sentence: str, color: str | None = None) -> None:
    """Print a line on standard error, under the program's name."""
    name = "bertlab:"
    if color and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        name = f"\033[{color}m{name}\033[0m"
    print(f"{name} {sentence}", file=sys.stderr, flush=True)
