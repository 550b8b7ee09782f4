"""What ``bertlab ablate`` is asked for: its flags and words, in any order.

A word without ``=`` is a table. A word with it is an override: ``pretrain.KEY=V`` and ``finetune.KEY=V`` of one stage; a bare one of
pretraining, and of fine-tuning too where it is about the machine, the logger or places; one that only fine-tuning knows
(``tuning.epochs=1``) of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertlab.ablation.fairness import BUDGETS
from bertlab.ablation.graph import FINETUNING, PRETRAINING
from bertlab.ablation.settings import Settings
from bertlab.ablation.words import key_of_word, section_of
from bertlab.arguments import SentenceParser, refuse_twice
from bertlab.config import PathsConfig
from bertlab.errors import UserError, unknown
from bertlab.groups import choices, default_choices
from bertlab.overrides import parse_override, prepare_overrides
from bertlab.resources import conf_folder
from bertlab.schemas import FINETUNE, PRETRAIN, Schema, belongs

DEFAULT_TABLE, DEFAULT_SCALE, DEFAULT_LAUNCHER = "table5", "laptop", "local"

_SHARED = ("trainer", "launcher", "logger", "paths")  # sections that a bare word sets in both stages
_MACHINE = ("trainer.threads", "trainer.workers", "trainer.progress", "trainer.log_every")
_REFUSED = {
    "seed": "--seeds N says how many seeds there are; tables say what they vary",
    "seeds": "write --seeds N",
    "scale": "write --scale S, which holds for pre-training, fine-tuning and what the table says of itself",
    "checkpoint": "a grid's fine-tunings start from its own pre-trainings",
    "init": "a table's row says of: ROW to go on from another row's pre-training",
    "weights": "a table's row says random: true for random weights",
    "task": "a table's columns say which tasks there are",
}


@dataclass
class Request:
    """The command, taken apart."""

    tables: list[str]
    settings: Settings
    runs: Path
    cache: str | None = None
    launcher: str = DEFAULT_LAUNCHER  # a choice of conf/launcher
    launching: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by the kind of run: words of the section ``launcher``
    resubmit: bool = False
    jobs: int | None = None
    devices: int = 1  # that one run takes, of the kind that takes more
    dry_run: bool = False
    help: bool = False
    said_grid: bool = True  # whether --grid was there


@dataclass
class _Words:
    pretrain: list[str] = field(default_factory=list)
    finetune: list[str] = field(default_factory=list)
    machine: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)  # scale, budget, launcher, tasks
    launching: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by the kind of run


def parse_request(arguments: Sequence[str]) -> Request:
    """Take the words after the verb apart.

    Raises:
        UserError: an unknown flag, key or choice, or a word that means nothing here.
    """
    parsed = _parser().parse_intermixed_args(_with_grid_alone(arguments))
    if parsed.help:
        return Request([], Settings(config_dir=parsed.config_dir), Path(PathsConfig().runs), help=True)
    if parsed.config_dir is not None and not parsed.config_dir.is_dir():
        raise UserError(f"--config-dir: there is no folder {str(parsed.config_dir)!r}.")
    config_dir = parsed.config_dir.resolve() if parsed.config_dir else None
    tables = [word for word in parsed.words if "=" not in word or Path(word).is_file()]
    refuse_twice(word for word in parsed.words if word not in tables)
    words = _sorted(word for word in parsed.words if word not in tables)
    _check(words, config_dir)
    launcher = parsed.launcher or words.flags.get("launcher", DEFAULT_LAUNCHER)
    launchers = choices([*([config_dir] if config_dir else []), conf_folder()])["launcher"]
    if launcher not in launchers:
        raise unknown("launcher", launcher, launchers)
    budget = parsed.budget or words.flags.get("budget", "tokens")
    if budget not in BUDGETS:
        raise unknown("budget", budget, BUDGETS)
    settings = Settings(
        scale=parsed.scale or words.flags.get("scale", DEFAULT_SCALE),
        seeds=_number(parsed.seeds, "--seeds"),
        budget=budget,
        tasks=words.flags.get("tasks"),
        pretrain=tuple(words.pretrain),
        finetune=tuple(words.finetune),
        machine=tuple(words.machine),
        config_dir=config_dir,
    )
    return Request(
        tables=tables or [DEFAULT_TABLE],
        settings=settings,
        runs=PathsConfig(str(_value(words.machine, "paths.runs") or PathsConfig().runs)).runs_folder,
        cache=None if (cache := _value(words.machine, "paths.cache")) is None else str(cache),
        launcher=launcher,
        launching=words.launching,
        resubmit=parsed.resubmit,
        jobs=_number(parsed.jobs, "--jobs"),
        devices=max(int(_value(stage, "trainer.devices") or 1) for stage in (words.pretrain, words.finetune)),
        dry_run=parsed.dry_run,
        said_grid=parsed.grid,
    )


def _parser() -> SentenceParser:
    parser = SentenceParser(add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--resubmit", action="store_true")
    parser.add_argument("--help", "-h", action="store_true")
    for flag in ("--scale", "--seeds", "--jobs", "--budget", "--launcher"):
        parser.add_argument(flag)
    parser.add_argument("--config-dir", "-cd", type=Path)
    return parser


def _with_grid_alone(arguments: Sequence[str]) -> list[str]:
    """``--grid=table5`` as ``--grid table5``."""
    return [part for word in arguments for part in (word.split("=", 1) if word.startswith("--grid=") else [word])]


def _sorted(words: Any) -> _Words:
    """Each override to the stage that it is of."""
    found = _Words()
    for word in words:
        bare = word.lstrip("+~")
        prefix = word[: len(word) - len(bare)]
        key, _, value = bare.partition("=")
        if key in ("scale", "tasks", "launcher") or (key == "budget" and not value.lstrip().startswith("{")):
            found.flags[key] = str(parse_override(word).value())
        elif bare.startswith("pretrain."):
            found.pretrain.append(prefix + bare.removeprefix("pretrain."))
        elif bare.startswith("finetune."):
            found.finetune.append(prefix + bare.removeprefix("finetune."))
        else:
            _sort_bare(word, found)
    for word in (*found.pretrain, *found.finetune):
        if key_of_word(word) in _REFUSED:
            raise UserError(f"{word} cannot be set for a grid: {_REFUSED[key_of_word(word)]}.")
        if key_of_word(word) == "launcher":
            raise UserError(f"{word}: a grid has one launcher, --launcher L; a stage can have its own launcher.time and the like.")
    for kind, words_of in ((PRETRAINING, found.pretrain), (FINETUNING, found.finetune)):
        found.launching[kind] = tuple(word for word in words_of if section_of(word) == "launcher")
        words_of[:] = [word for word in words_of if section_of(word) != "launcher"]  # a run is not to queue itself again
    return found


def _sort_bare(word: str, found: _Words) -> None:
    key, section = key_of_word(word), section_of(word)
    if key in _REFUSED:
        raise UserError(f"{word} cannot be set for a grid: {_REFUSED[key]}.")
    if section in ("logger", "paths") or key in _MACHINE:
        found.machine.append(word)
    elif section in _SHARED:
        found.pretrain.append(word)
        found.finetune.append(word)
    elif section in FINETUNE.sections and section not in PRETRAIN.sections:
        found.finetune.append(word)
    else:
        found.pretrain.append(word)


def _check(words: _Words, config_dir: Path | None) -> None:
    """Keys, choices and types, before any table is composed with them. Raises ``UserError``."""
    folders = [*([config_dir] if config_dir else []), conf_folder()]
    found = choices(folders)
    launching = words.launching
    stages: tuple[tuple[Schema[Any], list[str]], ...] = (
        (PRETRAIN, [*words.pretrain, *launching[PRETRAINING], *words.machine]),
        (FINETUNE, [*words.finetune, *launching[FINETUNING]]),
    )
    for schema, overrides in stages:
        groups = {group: files for group, files in found.items() if belongs(group, schema)}
        prepare_overrides(overrides, schema, groups, default_choices(folders, schema.name), multirun=False)


def _value(words: Sequence[str], key: str) -> Any:
    """What the last word that sets ``key`` sets it to; None where none does."""
    given = [word for word in words if key_of_word(word) == key]
    return parse_override(given[-1]).value() if given else None


def _number(text: str | None, flag: str) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{flag} takes a whole number from 1, not {text!r}.")
    return int(text)
