"""From a command's arguments to checked configurations: the Hydra side of the command line.

Hydra composes and sweeps; it neither changes the working directory nor writes folders of its own, and its logging stays silent.
With Hydra's own sweeper and launcher the jobs of a multirun are first composed and validated, all of them, and then run here one
after the other; a launcher or sweeper that the user chose (``hydra/launcher=…``) runs them itself.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

import hydra
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from bertlab.arguments import Arguments
from bertlab.errors import UserError, unknown
from bertlab.groups import choices, default_choices
from bertlab.keys import check_key, words_for
from bertlab.overrides import prepare_overrides, text_of
from bertlab.resources import conf_folder
from bertlab.schemas import C, Schema, belongs
from bertlab.secrecy import refuse_secrets_of
from bertlab.yaml_files import refuse_code

# Hydra writes a folder and a log file for every job unless told otherwise; a run's folder is bertlab's own.
_QUIET = {
    "hydra.output_subdir": "null",
    "hydra.run.dir": ".",
    "hydra.job.chdir": "false",
    "hydra/job_logging": "none",
    "hydra/hydra_logging": "none",
}

_FROM_RUN = "from_run"  # the name of a run's own configuration, which is no file of choices
_FROM_CHOICES = "from_choices"  # what many commands start from alike

_ENTRY = re.compile(r"\[(\d+)\]")  # of a list, as OmegaConf has it in keys

# How Hydra begins what OmegaConf says of a file.
_COMPOSING = re.compile(r"In '([^']+)': \w+ raised while composing config: ")


@dataclass
class Job(Generic[C]):
    """One composed configuration, and the overrides that give it."""

    config: C
    overrides: list[str]


def compose(
    schema: Schema[C], arguments: Arguments, base: Mapping[str, Any] | None = None, launched: Callable[[Job[C]], None] | None = None
) -> list[Job[C]]:
    """The jobs of a command: one, or several under ``-m``.

    Under ``--cfg`` and ``--info`` Hydra prints what is asked for, and there is no job.

    Args:
        schema: what is configured.
        arguments: the command's.
        base: a configuration to start from instead of the default choices, as a run's ``config.yaml`` has it.
        launched: what a launcher of the user's choice calls for each job; there is then no job left to run.

    Raises:
        UserError: whatever is wrong with the arguments or with a configuration file.
    """
    folders = _folders(arguments.config_dir)
    _check_config_name(arguments.config_name, folders)
    _refuse_code(arguments)
    groups = {group: found for group, found in choices(folders).items() if belongs(group, schema)}
    chosen = {**default_choices(folders, arguments.config_name or schema.name), **_without_default(schema, groups)}
    overrides = prepare_overrides(arguments.overrides, schema, groups, chosen if base is None else groups, arguments.multirun)
    if base is None and arguments.config_name is None and not arguments.only_prints:
        _check_required(schema, overrides, groups)
    _register(schema, base, groups, overrides)
    jobs: list[Job[C]] = []
    errors: list[Exception] = []

    def task(composed: DictConfig) -> None:
        chosen = HydraConfig.get().runtime.choices
        try:
            job = Job(_to_config(schema, composed), _job_overrides())
        except (OmegaConfBaseException, UserError) as error:
            errors.append(
                error if isinstance(error, UserError) else _as_user_error(error, schema)
            )  # raised here, Hydra would write of it on standard error itself
            return
        if launched is None or (chosen["hydra/launcher"] == "basic" and chosen["hydra/sweeper"] == "basic"):
            jobs.append(job)
        else:
            launched(job)

    _run_hydra(task, schema, arguments, overrides, _FROM_RUN if base is not None else schema.name)
    for error in errors:
        raise error
    return jobs


def compose_all(schema: Schema[C], commands: Sequence[Sequence[str]], config_dir: Path | None = None) -> list[C]:
    """The configuration of each of many commands, as ``compose`` gives it for one job; several times as fast.

    Raises:
        UserError: whatever is wrong with one of them.
    """
    folders = _folders(config_dir)
    if config_dir:
        refuse_code(config_dir)
    groups = {group: found for group, found in choices(folders).items() if belongs(group, schema)}
    chosen = {**default_choices(folders, schema.name), **_without_default(schema, groups)}
    prepared = [prepare_overrides(words, schema, groups, chosen, multirun=False) for words in commands]
    for overrides in prepared:
        _check_required(schema, overrides, groups)
    _register(schema, None, groups, [])
    # Hydra reads the primary configuration before it knows of hydra.searchpath, so that one cannot be a file of the second folder.
    ConfigStore.instance().store(name=_FROM_CHOICES, node={"defaults": [schema.name]})
    search = [f"hydra.searchpath={text_of([f'file://{folder}' for folder in folders[1:]])}"]
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(folders[0])):
            return [_to_config(schema, hydra.compose(_FROM_CHOICES, overrides=[*search, *overrides])) for overrides in prepared]
    except (HydraException, OmegaConfBaseException, YAMLError, UnicodeDecodeError) as error:
        raise _as_user_error(error, schema) from error


def _folders(config_dir: Path | None) -> list[Path]:
    """Where files of choices are looked for: of two with the same name, the user's own counts."""
    return [*([config_dir.absolute()] if config_dir else []), conf_folder()]


def _refuse_code(arguments: Arguments) -> None:
    """Refuse files of choices that would have Hydra call what they name. Raises ``UserError``."""
    if any("hydra.searchpath" in override.partition("=")[0] for override in arguments.overrides):
        raise UserError("hydra.searchpath cannot be set: --config-dir DIR names a folder of choices of your own.")
    if arguments.config_dir:
        refuse_code(arguments.config_dir)


def _check_config_name(name: str | None, folders: Sequence[Path]) -> None:
    """Refuse the name of a configuration that is in none of the folders. Raises ``UserError``."""
    if name is None or any((folder / f"{name.removesuffix('.yaml')}.yaml").is_file() for folder in folders):
        return
    raise unknown("configuration (--config-name)", name, {file.stem for folder in folders for file in folder.glob("*.yaml")})


def _without_default(schema: Schema[Any], groups: Mapping[str, Any]) -> dict[str, str]:
    """The groups of which every command must choose; ``+`` before such a choice is a plain choice as well."""
    return {key: "" for key in schema.required if key in groups}


def _check_required(schema: Schema[Any], overrides: list[str], groups: Mapping[str, Mapping[str, Any]]) -> None:
    for key, what in schema.required.items():
        if not any(override.lstrip("+").partition("=")[0].partition("@")[0] == key for override in overrides):
            known = f" ({', '.join(groups[key])})" if key in groups else ""
            raise UserError(f"{schema.name} needs {key}=…: {what}{known}.")


def _run_hydra(task: Callable[[DictConfig], None], schema: Schema[Any], arguments: Arguments, overrides: list[str], primary: str) -> None:
    """Hand over to ``hydra.main`` as if the flags and overrides had been given to it.

    Hydra looks into its --config-dir last, so the user's own folder takes the place of the main one and the bundled one that of the other.
    """
    main, *others = _folders(arguments.config_dir)
    flags = replace(arguments, config_dir=others[0] if others else None).hydra_flags()
    quiet = [f"{key}={value}" for key, value in _QUIET.items() if not any(o.lstrip("+").startswith(f"{key}=") for o in overrides)]
    with tempfile.TemporaryDirectory(prefix="bertlab-") as scratch:  # Hydra leaves a multirun.yaml in the sweep's folder
        if arguments.multirun and not any(override.startswith("hydra.sweep.dir=") for override in overrides):
            quiet += [f"hydra.sweep.dir={scratch}", "hydra.sweep.subdir=."]
        with _command_line([sys.argv[0], *flags, *quiet, *overrides]), _errors_as_exceptions():
            try:
                hydra.main(version_base="1.3", config_path=str(main), config_name=primary)(task)()
            except (HydraException, OmegaConfBaseException, YAMLError, UnicodeDecodeError) as error:
                raise _as_user_error(error, schema) from error


def _register(schema: Schema[Any], base: Mapping[str, Any] | None, groups: Mapping[str, Any], overrides: list[str]) -> None:
    """Tell Hydra the dataclasses and, where a command starts from a run, that run's configuration."""
    store = ConfigStore.instance()
    store.store(name=schema.node, node=schema.config)
    if base is None:
        return
    sections = [group for group in groups if "/" not in group and group in base]
    # A choice that the user makes replaces the run's whole section: half of a mixture under a folder of text means nothing.
    chosen = {override.partition("=")[0] for override in overrides}
    kept = {key: value for key, value in base.items() if key not in chosen or key not in sections}
    store.store(name=_FROM_RUN, node={"defaults": [schema.node, "_self_", *({section: None} for section in sections)], **kept})


def _to_config(schema: Schema[C], composed: DictConfig) -> C:
    merged = OmegaConf.merge(OmegaConf.structured(schema.config), composed)  # a primary file of the user's own may not name the schema
    config = OmegaConf.to_object(merged)
    assert isinstance(config, schema.config)
    refuse_secrets_of(config)  # as ${oc.env:…} of a file brings them in
    return config


def _job_overrides() -> list[str]:
    return [str(override) for override in HydraConfig.get().overrides.task]


def _as_user_error(error: Exception, schema: Schema[Any]) -> UserError:
    """Hydra's, OmegaConf's and PyYAML's complaints in one sentence that names the key."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    key = next((key for cause in causes if (key := getattr(cause, "full_key", None))), None)
    if key is not None and any(isinstance(cause, MissingMandatoryValue) for cause in causes):
        section, _, name = key.rpartition(".")
        return UserError(f"{key} is missing{f', also from the file that {section}= names' if section else ''}: add {name}: … there.")
    if missing := next((cause for cause in causes if isinstance(cause, MissingConfigException) and cause.missing_cfg_file), None):
        group, _, choice = str(missing.missing_cfg_file).rpartition("/")
        return UserError(f"A list of defaults is wrong: {unknown(group or 'configuration', choice, missing.options or [])}")
    where, words = _where_and_what(" ".join(str(error).split("\n    full_key")[0].split()).rstrip("."))
    if key is None:
        return UserError(f"{where}{words}.")
    try:
        kind = check_key(_ENTRY.sub(r".\1", key), schema.config)
    except UserError as unknown_key:
        if any(isinstance(cause, ConfigKeyError) for cause in causes):
            return UserError(f"{where}{unknown_key}")
        return UserError(f"{where}{key}: {words}.")  # inside an entry of a list OmegaConf names the key as the entry has it
    jargon = "is not a ListConfig" in words  # says nothing that the example does not show
    return UserError(f"{where}{key} takes {words_for(kind)}{'' if jargon else f' ({words})'}.")


def _where_and_what(words: str) -> tuple[str, str]:
    """A complaint of Hydra's in two parts: the file that it is about, if it is one, and what it says."""
    composing = _COMPOSING.match(words)
    if composing is None:
        return "", words
    is_file = composing[1] not in (_FROM_RUN, _FROM_CHOICES)
    return f"{composing[1]}.yaml: " if is_file else "", words[composing.end() :]


@contextmanager
def _command_line(words: list[str]) -> Iterator[None]:
    """``sys.argv`` for a while, and the root logger as it is: ``--info`` gives it a handler."""
    before, root = sys.argv, logging.getLogger()
    handlers, level = list(root.handlers), root.level
    sys.argv = words
    try:
        yield
    finally:
        sys.argv = before
        root.handlers[:] = handlers
        root.setLevel(level)


@contextmanager
def _errors_as_exceptions() -> Iterator[None]:
    """Without this variable Hydra prints its errors and exits."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before
