"""``bertlab nsp``: whether a model takes one sentence to follow another."""

from __future__ import annotations

import json

from bertlab.commands.fill import named_model
from bertlab.commands.words import parse_words
from bertlab.errors import UserError


def run(words: list[str]) -> int:
    """Print the probability that the second text follows the first. Returns the exit code."""
    parsed = parse_words(words, ("checkpoint", "paths.runs"), switches=("--json",))
    if parsed.help:
        from bertlab.arguments import Arguments
        from bertlab.help import show_help

        return show_help("nsp", Arguments())
    if len(parsed.texts) != 2:
        raise UserError('nsp needs two texts, each in quotes: bertlab nsp "He sat down." "He was tired." checkpoint=RUN.')
    probability = named_model("nsp", parsed).next_sentence(*parsed.texts)
    if "--json" in parsed.switches:
        print(json.dumps({"follows": probability}))
    else:
        print(f"{probability:7.1%}  the second follows the first\n{1 - probability:7.1%}  it does not")
    return 0
