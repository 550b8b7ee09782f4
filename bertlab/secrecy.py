"""What must not be written down: configurations, logs and reports are kept, mirrored and shown to others."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bertlab.errors import UserError

_NAMES = re.compile(r"(API_?KEY|ACCESS_KEY|SECRET(_KEY)?|TOKEN|PASSWORD|PASSWD)$", re.IGNORECASE)
_SHORTEST = 12  # characters of a variable's value: shorter ones stand in texts by chance
_IN_A_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
_TOKEN = re.compile(r"\b(hf_[A-Za-z0-9]{30,}|wandb_v1_\w{20,}|gh[pousr]_[A-Za-z0-9]{30,})")


def refuse_secrets(texts: Iterable[str]) -> None:
    """Refuse a text that holds a password or a key: one of the environment, of a URL, or one that looks like it.

    Raises:
        UserError: which says where the secret belongs, and does not repeat it.
    """
    secrets = {name: value for name, value in os.environ.items() if len(value) >= _SHORTEST and _NAMES.search(name)}
    for text in texts:
        key = text.partition("=")[0] if "=" in text else "A value"
        if (name := next((name for name, value in secrets.items() if value in text), None)) is not None:
            where = "A value" if secrets[name] in key else key
            raise UserError(f"{where} holds the value of ${name}: a run's configuration is saved and shown; keep it in ${name} only.")
        if (found := _IN_A_URL.search(text) or _TOKEN.search(text)) is not None:
            where = "A value" if found[0] in key or key.startswith(found[0][:8]) else key
            raise UserError(
                f"{where} holds a password or a key: a run's configuration is saved and shown. Give it in the environment"
                " (as $WANDB_API_KEY, $HF_TOKEN) or in ~/.netrc."
            )


def refuse_secrets_of(config: Any) -> None:
    """The same of all texts of a configuration, with their keys. Raises UserError."""
    refuse_secrets(_texts(dataclasses.asdict(config), ""))


def _texts(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)
    elif isinstance(value, str):
        yield f"{key}={value}"
