"""``bertlab generate``: a left-to-right model writes on."""

from __future__ import annotations

import json
from typing import Any

from bertlab.commands.fill import named_model
from bertlab.commands.words import parse_words
from bertlab.errors import UserError


def run(words: list[str]) -> int:
    """Print a text's continuation. Returns the exit code."""
    parsed = parse_words(words, ("checkpoint", "paths.runs", "max_tokens", "temperature", "top_k", "stop", "seed"), switches=("--json",))
    if parsed.help:
        from bertlab.arguments import Arguments
        from bertlab.help import show_help

        return show_help("generate", Arguments())
    if len(parsed.texts) > 1:
        raise UserError('generate needs one text at most, in quotes: bertlab generate "Once upon" checkpoint=RUN.')
    prompt = parsed.texts[0] if parsed.texts else ""
    settings: dict[str, Any] = {
        "max_tokens": parsed.whole_number("max_tokens", 50),
        "top_k": parsed.whole_number("top_k", 1) if "top_k" in parsed.values else None,
        "seed": parsed.whole_number("seed", 0, least=0) if "seed" in parsed.values else None,
    }
    temperature, stop = parsed.number("temperature", 1.0), parsed.values.get("stop")
    text = named_model("generate", parsed).generate(prompt, temperature=temperature, stop=stop, **settings)
    print(json.dumps({"text": text}, ensure_ascii=False) if "--json" in parsed.switches else text)
    return 0
