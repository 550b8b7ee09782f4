"""Entities in sequences of tags, read as the scorer of the CoNLL shared tasks (conlleval) reads them.

A tag is ``O`` or a letter, a hyphen and a type. In IOB1 an entity begins with I-, or with B- where one of the same type stands just
before it; in BIO always with B-. The scorer takes both at once: an entity begins at every B-, and at an I- that does not follow a tag
of the same type.
"""

from __future__ import annotations

from collections.abc import Sequence

Entity = tuple[int, int, str]  # first word, the one after the last, type


def entities_of(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, in order."""
    found: list[Entity] = []
    begin, inside = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        letter, kind = split_tag(tag)
        if inside and (letter == "O" or letter == "B" or kind != inside):
            found.append((begin, place, inside))
            inside = ""
        if letter != "O" and not inside:
            begin, inside = place, kind
    return found


def as_bio(tags: Sequence[str]) -> list[str]:
    """The same entities, each beginning with B-."""
    written = ["O"] * len(tags)
    for begin, end, kind in entities_of(tags):
        written[begin:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - begin - 1)
    return written


def is_entity_tag(tag: str) -> bool:
    """Whether ``tag`` is one of O, B-… and I-…."""
    return tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)


def split_tag(tag: str) -> tuple[str, str]:
    """Letter and type: ``B-creative-work`` is ("B", "creative-work"), ``O`` is ("O", "")."""
    letter, _, kind = tag.partition("-")
    return letter, kind
