"""``bertlab fill``: the words that a model would put where a text says [MASK]."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from bertlab.commands.words import Words, parse_words
from bertlab.config import PathsConfig
from bertlab.errors import UserError
from bertlab.run_files.locating import located

if TYPE_CHECKING:
    from bertlab.inference.model import Model


def run(words: list[str]) -> int:
    """Print the likeliest words for every [MASK] of a text. Returns the exit code."""
    parsed = parse_words(words, ("checkpoint", "paths.runs", "top_k"), switches=("--json",))
    if parsed.help:
        from bertlab.arguments import Arguments
        from bertlab.help import show_help

        return show_help("fill", Arguments())
    if len(parsed.texts) != 1:
        raise UserError('fill needs one text, in quotes: bertlab fill "Paris is the [MASK] of France." checkpoint=RUN.')
    top_k = parsed.whole_number("top_k", 5)
    found = named_model("fill", parsed).fill(parsed.texts[0], top_k)
    if "--json" in parsed.switches:
        print(json.dumps([[asdict(candidate) for candidate in candidates] for candidates in found], ensure_ascii=False, indent=2))
        return 0
    for number, candidates in enumerate(found, 1):
        if len(found) > 1:
            print(f"[MASK] {number}")
        for candidate in candidates:
            print(f"{candidate.probability:7.1%}  {candidate.token}")
    return 0


def named_model(verb: str, parsed: Words) -> Model:
    """The model that the words name as checkpoint. UserError when they name none."""
    if "checkpoint" not in parsed.values:
        raise UserError(f"{verb} needs checkpoint=RUN: a run's id or its folder, an exported folder or a Hugging Face folder.")
    checkpoint, runs = parsed.values["checkpoint"], parsed.values.get("paths.runs", PathsConfig().runs)
    located(checkpoint, PathsConfig(runs).runs_folder)  # before anything heavy is imported
    from bertlab.inference.model import Model

    return Model.load(checkpoint, runs)
