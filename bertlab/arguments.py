"""The arguments of a verb, in any order: flags as Hydra has them, and overrides."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from bertlab.errors import UserError, unknown

_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


@dataclass
class Arguments:
    """What stood on the command line after the verb."""

    overrides: list[str] = field(default_factory=list)
    help: bool = False
    multirun: bool = False
    cfg: str | None = None  # job | hydra | all: print the configuration instead of running
    resolve: bool = False
    package: str | None = None  # with cfg: the part to print
    info: str | None = None
    config_dir: Path | None = None
    config_name: str | None = None
    json: bool = False

    @property
    def only_prints(self) -> bool:
        """Whether the configuration, or what Hydra knows about it, is all that is asked for."""
        return self.cfg is not None or self.info is not None

    def hydra_flags(self) -> list[str]:
        """The flags as Hydra's own parser takes them: they must stand before the overrides."""
        flags = ["--multirun"] if self.multirun else []
        for name, value in (("cfg", self.cfg), ("package", self.package), ("info", self.info)):
            flags += [f"--{name}={value}"] if value else []
        flags += [f"--config-dir={self.config_dir}"] if self.config_dir else []
        flags += [f"--config-name={self.config_name}"] if self.config_name else []
        return flags + (["--resolve"] if self.resolve else [])


def parse_arguments(arguments: Sequence[str], json: bool = False) -> Arguments:
    """Tell flags and overrides apart, wherever they stand.

    Args:
        arguments: the words after the verb.
        json: whether the verb knows ``--json``.

    Raises:
        UserError: an unknown flag, a flag without its value, two flags that exclude each other, a key or a flag with two values.
    """
    parser = _parser(json)
    parsed = Arguments(**vars(parser.parse_intermixed_args(_with_info_joined(arguments))))
    refuse_twice(parsed.overrides)
    if sum([parsed.multirun, parsed.cfg is not None, parsed.info is not None]) > 1:
        raise UserError("Only one of -m, --cfg and --info can be given.")
    if parsed.resolve and parsed.cfg is None:
        raise UserError("--resolve goes with --cfg job: it prints the configuration with its references resolved.")
    if parsed.config_dir is not None:
        if not parsed.config_dir.is_dir():
            raise UserError(f"--config-dir: there is no folder {str(parsed.config_dir)!r}.")
        parsed.config_dir = parsed.config_dir.resolve()
    return parsed


def refuse_twice(words: Iterable[str]) -> None:
    """Refuse two values for one key, of which one would be lost; ``++key=value`` says itself that it replaces another.

    Raises:
        UserError: names both.
    """
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.lstrip("+").partition("=")
        if not equals or word.startswith("~"):
            continue
        if given.get(key, value) != value and not word.startswith("++"):
            raise UserError(f"{key} is given twice, as {key}={given[key]} and as {key}={value}: leave one of them out.")
        given[key] = value


class _Once(argparse.Action):
    """Keeps the value of a flag, and refuses another one."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Take ``values``; words that belong to no flag have no ``option_string``."""
        before = getattr(namespace, self.dest)
        if option_string and before not in (self.default, values):
            raise UserError(f"{option_string} is given twice, with {before} and with {values}: leave one of them out.")
        setattr(namespace, self.dest, values)


class SentenceParser(argparse.ArgumentParser):
    """An argument parser whose complaints are sentences of ours, and that takes no flag twice with different values."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.register("action", None, _Once)  # what a flag does of which nothing else is said

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as a ``UserError``."""
        unrecognised = message.removeprefix("unrecognized arguments: ")
        if unrecognised != message:
            raise unknown("flag", unrecognised.split()[0], self._option_string_actions)
        raise UserError(message[0].upper() + message[1:] + ".")


def _parser(json: bool) -> SentenceParser:
    parser = SentenceParser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--cfg", "-c", choices=["job", "hydra", "all"])
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--package", "-p")
    parser.add_argument("--info", "-i", choices=_INFO)
    parser.add_argument("--config-dir", "-cd", type=Path)
    parser.add_argument("--config-name", "-cn")
    if json:
        parser.add_argument("--json", action="store_true")
    return parser


def _with_info_joined(arguments: Sequence[str]) -> list[str]:
    """``--info`` takes a word only if it is one of its own, so that the override after it stays an override."""
    joined: list[str] = []
    for argument in arguments:
        if argument in ("--info", "-i"):
            joined.append("--info=all")
        elif joined and joined[-1] == "--info=all" and argument in _INFO:
            joined[-1] = f"--info={argument}"
        else:
            joined.append(argument)
    return joined
