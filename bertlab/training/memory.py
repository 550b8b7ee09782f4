"""What is said when the memory runs out in a training: what to lower, and that nothing that was saved is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bertlab.errors import UserError

# How PyTorch, CUDA, NumPy, C++ and the system say it. Looked for in logs, too (ablation.failures).
# oneDNN, which multiplies matrices on CPUs, does not say why it could not make a primitive: its own reason is memory.
SIGNS = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|\bMemoryError\b|bad_alloc|could not (create|execute) a primitive",
    re.IGNORECASE,
)
RAN_OUT = "The memory ran out"  # how the sentence begins
_MOST_LETTERS = 200  # of the library's own words


@dataclass(frozen=True)
class AtOnce:
    """How much a device works on at once, and which key changes it."""

    key: str  # batch.micro | tuning.micro
    count: int
    what: str  # sequences | examples
    changes_result: bool  # under batch normalisation the micro-batches are part of what is computed
    otherwise: str  # what else can be chosen


@contextmanager
def memory_told(at_once: AtOnce) -> Iterator[None]:
    """Turn an error of the block that means that the memory ran out into the sentence for it.

    Raises:
        UserError: in its place.
    """
    try:
        yield
    except Exception as error:
        if (said := _memory_ran_out(error)) is None:
            raise
        raise UserError(f"{RAN_OUT} ({said}): {_what_to_lower(at_once)}") from error


def _memory_ran_out(error: BaseException) -> str | None:
    """The first line of what a library said of memory that it did not get; None where the error is another one."""
    seen: BaseException | None = error
    while seen is not None:
        if not isinstance(seen, UserError) and (isinstance(seen, MemoryError) or SIGNS.search(f"{type(seen).__name__}: {seen}")):
            first = str(seen).strip().partition("\n")[0] or type(seen).__name__
            return first[:_MOST_LETTERS].rstrip(".")
        seen = seen.__cause__ or seen.__context__
    return None


def _what_to_lower(at_once: AtOnce) -> str:
    if at_once.count > 1 and not at_once.changes_result:
        return (
            f"{at_once.key}={at_once.count // 2} halves the {at_once.what} that a device works on at once, changes nothing but the speed"
            f" and the noise of dropout, and goes on from the last saved state; or choose {at_once.otherwise}."
        )
    return f"choose {at_once.otherwise}."
