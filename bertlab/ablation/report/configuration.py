"""In which keys of their configurations the rows of a table differ, by what their runs were really configured with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from bertlab.ablation.collect import DONE, Collected, NodeState
from bertlab.ablation.graph import FINETUNING, PRETRAINING
from bertlab.ablation.report.model import Setting

_OF = {PRETRAINING: "pre-training", FINETUNING: "fine-tuning"}
_IRRELEVANT = ("seed", "checkpoint", "init", "paths", "logger", "trainer", "launcher", "checkpointing", "task")
_STILL = ("trainer.precision",)  # of a section that is left out, what does change numbers


def settings_of(collected: Collected) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """The keys that not all rows have alike, pretraining first, and which configurations could not be read, as sentences.

    Only rows with a run that is done, and whose configuration can be read, are told.
    """
    unread: dict[str, None] = {}
    settings = tuple(setting for kind in (PRETRAINING, FINETUNING) for setting in _settings(collected, kind, unread))
    return settings, tuple(unread)


def _settings(collected: Collected, kind: str, unread: dict[str, None]) -> Iterator[Setting]:
    flat = {row: dict(_flat(config)) for row, config in _configurations(collected, kind, unread).items()}
    keys = sorted({key for config in flat.values() for key in config})
    for key in keys:
        values = {row: _shown(config.get(key)) for row, config in flat.items()}
        if len(set(values.values())) > 1 and (key in _STILL or key.split(".")[0] not in _IRRELEVANT):
            yield Setting(_OF[kind], key, values)


def _configurations(collected: Collected, kind: str, unread: dict[str, None]) -> dict[str, Any]:
    """By row, the configuration of its first run of a kind that is done. Fine-tunings are compared on the first column of all."""
    found: dict[str, Any] = {}
    for (row, _, _), runs in collected.cells.items():
        for run in runs:
            state = _of_kind(collected, run.key, kind)
            if row not in found and state is not None and not (kind == PRETRAINING and collected.manifest.grid.rows[row].random):
                assert state.folder is not None
                config = _read(state.folder.config)
                if config is None:
                    unread[
                        f"The configuration of {state.folder.name} cannot be read; another run of its row, if any, shows how it differs."
                    ] = None
                else:
                    found[row] = config
    return {row: _of_the_weights(config, found.get(str(collected.manifest.grid.rows[row].of))) for row, config in found.items()}


def _of_the_weights(config: dict[str, Any], source: dict[str, Any] | None) -> dict[str, Any]:
    """A configuration in which the vocabulary and the model's width are as the one it went on from had them: they came with the weights."""
    if source is None:
        return config
    model = config.get("model", {}) | {"intermediate": source.get("model", {}).get("intermediate")}
    return config | {"model": model, "tokenizer": source.get("tokenizer")}


def _read(path: Path) -> dict[str, Any] | None:
    """The content of a run's configuration; None where it is damaged."""
    try:
        config = yaml.load(path.read_text(encoding="utf-8"), _LOADER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    return config if isinstance(config, dict) else None


def _of_kind(collected: Collected, key: str, kind: str) -> NodeState | None:
    """The run itself, or for a pretraining the one that it starts from; None where that has no folder to look into."""
    state = collected.nodes[key]
    if kind == PRETRAINING and state.node.kind == FINETUNING and state.node.source is not None:
        state = collected.nodes[state.node.source]
    ready = state.node.kind == kind and state.status == DONE and state.folder is not None and state.folder.config.is_file()
    return state if ready else None


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
