"""What the command line says on standard error: standard output is for results."""

from __future__ import annotations

import os
import sys
import traceback

from bertlab.errors import UserError

_RED, _YELLOW = "31", "33"


def complain(error: BaseException) -> None:
    """Print an error: a user's mistake as its sentence, anything else with its traceback, for that is a mistake of ours.

    ``BERTLAB_TRACEBACK=1`` shows the traceback of a user's mistake too.
    """
    if not isinstance(error, UserError) or os.environ.get("BERTLAB_TRACEBACK", "0") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, UserError):
        say(str(error), _RED)
    else:
        say(f"stopped by {type(error).__name__}: {error}", _RED)


def warn(sentence: str) -> None:
    """Print a warning."""
    say(f"warning: {sentence}", _YELLOW)


def say(sentence: str, color: str | None = None) -> None:
    """Print a line on standard error, under the program's name."""
    name = "bertlab:"
    if color and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        name = f"\033[{color}m{name}\033[0m"
    print(f"{name} {sentence}", file=sys.stderr, flush=True)
