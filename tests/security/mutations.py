"""Hostile versions of files: any value of theirs replaced, taken away or added, and bytes that are no file of the kind at all."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 10**12, -(10**12), 2**63, 10**30, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf")]),
    st.sampled_from(
        ["", ".", "..", "../../x", "/", "\0", "\ud800", "a" * 300, "{", "${oc.env:HOME}", "???", "1", "nan", "<u2", "O", "é\n"]
    ),
    st.text(max_size=6),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "x", "kind", "1"]), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def mutated(draw: st.DrawFn, valid: Any) -> Any:
    """``valid`` with one to three of its values changed; now and then something else altogether."""
    if draw(st.integers(0, 19)) == 0:
        return draw(VALUES)
    changed = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(changed))
        if not places:
            return draw(VALUES)
        holder, key = draw(st.sampled_from(places))
        how = draw(st.sampled_from(["replace", "replace", "replace", "delete", "add"]))
        if how == "replace":
            holder[key] = draw(VALUES)
        elif how == "delete":
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw(st.sampled_from(["a", "kind", "\0", "format", "../x", "_target_"]))] = draw(VALUES)
        else:
            holder.insert(key, draw(VALUES))
    return changed


def as_json(value: Any) -> bytes:
    """Its JSON, with half surrogates as JSON spells them."""
    return json.dumps(value).encode()


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes with some of them changed, cut out, doubled or put in."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        piece = draw(st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 8, b"\x00" * 8, b"\xff\xff\xff\x7f"]))
        how = draw(st.sampled_from(["change", "change", "insert", "cut", "end"]))
        if how == "change":
            content[place : place + len(piece)] = piece
        elif how == "insert":
            content[place:place] = piece
        elif how == "cut":
            del content[place : place + draw(st.integers(1, 40))]
        else:
            del content[place:]
    return bytes(content)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a tree of dictionaries and lists."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])
