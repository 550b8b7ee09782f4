"""How numbers, what they count, and several things of a kind read in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``1 run``, ``2,400 runs``; ``plural`` where an s does not make one: ``2 entries``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1] if words else ""
