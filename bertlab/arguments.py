"""The arguments of a verb, in any order: flags as Hydra has them, and overrides."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from bertlab.errors import UserError, nearest

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
        UserError: an unknown flag, a flag without its value, two flags that exclude each other.
    """
    parser = _parser(json)
    parsed = Arguments(**vars(parser.parse_intermixed_args(_with_info_joined(arguments))))
    if sum([parsed.multirun, parsed.cfg is not None, parsed.info is not None]) > 1:
        raise UserError("Only one of -m, --cfg and --info can be given.")
    if parsed.resolve and parsed.cfg is None:
        raise UserError("--resolve goes with --cfg job: it prints the configuration with its references resolved.")
    if parsed.config_dir is not None:
        if not parsed.config_dir.is_dir():
            raise UserError(f"--config-dir: there is no folder {str(parsed.config_dir)!r}.")
        parsed.config_dir = parsed.config_dir.resolve()
    return parsed


class SentenceParser(argparse.ArgumentParser):
    """An argument parser whose complaints are sentences of ours."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as a ``UserError``."""
        unrecognised = message.removeprefix("unrecognized arguments: ")
        if unrecognised != message:
            flag = unrecognised.split()[0]
            offered = nearest(flag, self._option_string_actions) or sorted(self._option_string_actions)
            raise UserError(f"Unknown flag {flag!r}: did you mean {' or '.join(offered)}?")
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
