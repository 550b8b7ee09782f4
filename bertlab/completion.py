"""Completion of ``key=value`` words for the shell: groups and their choices, keys and the words they hold, runs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path

import typer

# Keys of the verbs that read texts and folders rather than a configuration.
_TEXT_VERBS = {
    "fill": ("checkpoint", "top_k", "paths.runs"),
    "nsp": ("checkpoint", "paths.runs"),
    "generate": ("checkpoint", "max_tokens", "temperature", "top_k", "stop", "seed", "paths.runs"),
    "export": ("checkpoint", "paths.runs"),
    "import": ("paths.runs",),
    "report": ("paths.runs", "paths.cache", "logger.project", "logger.entity"),
}

_SPLIT = "BERTLAB_COMPLETION_SPLIT"  # set while completing for a shell that has split the word at its "="


_OF_FLAGS = {"--budget": ("tokens", "flops", "minutes")}
_GROUPS_OF_FLAGS = {"--scale": "scale", "--launcher": "launcher"}


def complete_overrides(context: typer.Context, parameter: object, incomplete: str) -> list[str]:
    """What a word of a verb can be completed to; ``incomplete`` is the word so far, joined again where a shell split it at ``=``."""
    args = [str(context.info_name), *(context.params.get("words") or [])]
    prefix = next((sign for sign in ("++", "+", "~") if incomplete.startswith(sign)), "")
    key, equals, value = incomplete.removeprefix(prefix).partition("=")
    if args[0] == "ablate":
        if args[-1] in _OF_FLAGS or args[-1] in _GROUPS_OF_FLAGS:
            words = _OF_FLAGS.get(args[-1]) or _groups(args).get(_GROUPS_OF_FLAGS.get(args[-1], ""), [])
            return [word for word in words if word.startswith(incomplete)]
        for stage in ("pretrain", "finetune"):
            if key.startswith(f"{stage}."):
                args, key, prefix = [stage, *args[1:]], key.removeprefix(f"{stage}."), f"{prefix}{stage}."
                break
    if not equals:
        tables = _tables(args, key) if not prefix else []
        return tables + [prefix + word for word in _keys(args, key, deletes=prefix == "~")]
    before, comma, last = value.rpartition(",")  # of a sweep, only the last value is being written
    values = [before + comma + choice for choice in _values(args, key) if choice.startswith(last)]
    return values if os.environ.get(_SPLIT) else [f"{prefix}{key}={word}" for word in values]


def join_split_words(environment: MutableMapping[str, str]) -> None:
    """Join what bash split: with ``=`` among COMP_WORDBREAKS, as it is by default, ``model=la`` arrives as three words.

    Bash then replaces the last of the three only, so that just the value must be answered.
    """
    if environment.get("_BERTLAB_COMPLETE") != "complete_bash" or "COMP_WORDS" not in environment:
        return
    words = environment["COMP_WORDS"].split("\n")
    current = int(environment["COMP_CWORD"])
    words = words[: current + 1] + [""] * (current + 1 - len(words))
    if "=" in words[-2:]:
        environment[_SPLIT] = "1"
    joined: list[str] = []
    for index, word in enumerate(words):
        if joined and (word == "=" or (index > 0 and words[index - 1] == "=")):
            joined[-1] += word
        else:
            joined.append(word)
    environment["COMP_WORDS"] = "\n".join(joined)
    environment["COMP_CWORD"] = str(len(joined) - 1)


def _keys(args: Sequence[str], start: str, deletes: bool) -> list[str]:
    """Keys that begin with ``start``, for the verb and its words ``args``.

    Where just one group does, its choices are given at once, so that the shell puts no space after the ``=``.
    """
    from bertlab.keys import leaf_keys
    from bertlab.schemas import schema_of

    if args[0] in _TEXT_VERBS:
        return [f"{key}=" for key in _TEXT_VERBS[args[0]] if key.startswith(start)]
    schema = schema_of(args[0])
    fitting = [group for group in _groups(args) if group.startswith(start) and "/" not in group]
    fitting += [key for key in (*schema.required, *(["checkpoint"] if args[0] == "evaluate" else [])) if key.startswith(start)]
    if "." in start or not fitting:
        fitting = [key for key in leaf_keys(schema.config) if key.startswith(start)]
    fitting = list(dict.fromkeys(fitting))
    if deletes:
        return fitting
    if len(fitting) == 1:
        return [f"{fitting[0]}={value}" for value in _values(args, fitting[0])] or [f"{fitting[0]}="]
    return [f"{key}=" for key in fitting]


def _tables(args: Sequence[str], start: str) -> list[str]:
    """Tables of the bundle, and what only a grid takes; for a report the tables that there are."""
    if args[0] == "report":
        return sorted(path.stem for path in (_runs_folder(args) / "grid" / "tables").glob(f"{start}*.json"))
    if args[0] != "ablate":
        return []
    from bertlab.ablation.grid import bundled_grids

    return [word for word in (*bundled_grids(), "tasks=", "pretrain.", "finetune.") if word.startswith(start)]


def _values(args: Sequence[str], key: str) -> list[str]:
    from bertlab.keys import leaf_keys
    from bertlab.schemas import schema_of

    schema = schema_of(args[0])
    if key in (groups := _groups(args)):
        return groups[key]
    if key in ("checkpoint", "init"):
        return list(_runs(args))
    if isinstance(leaf_keys(schema.config).get(key), bool):
        return ["true", "false"]
    return list(schema.words.get(key, ()))


def _groups(args: Sequence[str]) -> dict[str, list[str]]:
    """Group → choices, with those of the ``--config-dir`` that the words before name."""
    from bertlab.groups import choices
    from bertlab.resources import conf_folder
    from bertlab.schemas import belongs, schema_of

    folders = [conf_folder()]
    for flag, following in itertools.pairwise([*args, ""]):
        name, _, value = flag.partition("=")
        if name in ("--config-dir", "-cd") and Path(value or following).is_dir():
            folders.insert(0, Path(value or following))
    schema = schema_of(args[0])
    return {group: sorted(found) for group, found in choices(folders).items() if belongs(group, schema)}


def _runs(args: Sequence[str]) -> Iterator[str]:
    runs = _runs_folder(args)
    if runs.is_dir():
        found = (folder.name for folder in runs.iterdir() if (folder / "config.yaml").is_file())
        yield from sorted(name for name in found if not name.startswith("finetune-"))


def _runs_folder(args: Sequence[str]) -> Path:
    named = [word.removeprefix("paths.runs=") for word in args if word.startswith("paths.runs=")]
    return Path(named[-1] if named else "runs").expanduser()
