"""How a number and what it counts read together."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``1 run``, ``2,400 runs``; ``plural`` where an s does not make one: ``2 entries``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
