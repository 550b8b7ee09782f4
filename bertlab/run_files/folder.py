"""The folder of a run, which is the truth about it: everything that a table or a plot needs can be rebuilt from it alone.

config.yaml          resolved; enough to start the run again
identity.json        all that can change one of its numbers, of which the folder's name has a short hash
metrics.jsonl        losses, accuracies, learning rate: what depends on the configuration alone, so that two runs of it on one
machine, interrupted or not, have the same bytes here
throughput.jsonl     seconds, tokens a second, memory: what depends on the machine and the hour
checkpoints/         the complete state, twice, and the weights of every k-th step where asked for
model.safetensors    the final weights; with tokenizer.json and architecture.json, all that using the model takes
task.json            of a fine-tuning: the task, its labels and the head, without which the weights mean nothing
predictions.jsonl    of a fine-tuning: one row an example of the split that it is judged by; predictions.SPLIT.jsonl of others
result.json          written last, atomically: its presence means that the run is done
failed.json          in its place, where the numbers stopped making sense
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from filelock import FileLock, Timeout

from bertlab.config import PretrainConfig
from bertlab.errors import UserError
from bertlab.files import write_atomically
from bertlab.finetune_config import FinetuneConfig
from bertlab.models.architecture import Architecture
from bertlab.patience import lock_seconds
from bertlab.yaml_files import read_yaml

T = TypeVar("T")


class _ConfigDumper(yaml.SafeDumper):
    """Puts text in quotes that Hydra would read as a number: 1e5 is text to YAML's own rules."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        float(text.replace("_", ""))
    except ValueError:
        return dumper.represent_str(text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'")


_ConfigDumper.add_representer(str, _text_node)

_SHOWN_RUNS = 5  # in the error for a name that is none

# Keys that hold a path of an input, and sections that describe a corpus, wherever a configuration has them.
_PATHS = ("tokenizer.path", "init", "checkpoint", "task.path", "task.dataset", "task.probe.tokenizer.path")
_CORPORA = ("corpus", "task.probe.corpus")


@dataclass(frozen=True)
class RunFolder:
    """The names inside one run's folder, and what their presence says."""

    path: Path

    @property
    def name(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.yaml"

    @property
    def identity(self) -> Path:
        """All that can change one of the run's numbers; its folder's name ends with the hash of it."""
        return self.path / "identity.json"

    @property
    def metrics(self) -> Path:
        """One JSON object a line: logged steps and evaluations."""
        return self.path / "metrics.jsonl"

    @property
    def throughput(self) -> Path:
        """One JSON object a line: speed and memory."""
        return self.path / "throughput.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of saved states."""
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        """The final weights."""
        return self.path / "model.safetensors"

    @property
    def architecture(self) -> Path:
        """What shape the weights have."""
        return self.path / "architecture.json"

    @property
    def tokenizer(self) -> Path:
        """The vocabulary, in the format of the tokenizers library."""
        return self.path / "tokenizer.json"

    @property
    def task(self) -> Path:
        """Of a fine-tuning: what the weights are for."""
        return self.path / "task.json"

    @property
    def predictions(self) -> Path:
        """Of a fine-tuning: one row an example of the split that it is judged by."""
        return self.path / "predictions.jsonl"

    def predictions_of(self, split: str) -> Path:
        """The same of another split."""
        return self.path / f"predictions.{split}.jsonl"

    @property
    def submission(self) -> Path:
        """Of a fine-tuning: the folder of what the task's server takes."""
        return self.path / "submission"

    @property
    def result(self) -> Path:
        """The final figures."""
        return self.path / "result.json"

    @property
    def failure(self) -> Path:
        """Why the run was given up."""
        return self.path / "failed.json"

    @property
    def done(self) -> bool:
        """Whether the run has nothing left to do."""
        return self.result.is_file()

    def failure_reason(self) -> str | None:
        """The sentence of failed.json, or None where the run has not failed."""
        if not self.failure.is_file():
            return None
        return str(json.loads(self.failure.read_text())["reason"])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process alone.

        Raises:
            UserError: another process has it, or the folder cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"The run's folder {self.path} cannot be made ({error.strerror}): name another place with paths.runs."
            ) from error
        lock = FileLock(self.path / ".lock", timeout=lock_seconds())
        try:
            lock.acquire()
        except Timeout:
            raise UserError(f"The run {self.path} is being trained by another process; wait for it, or change the configuration.") from None
        try:
            self._delete_unfinished_files()
            yield
        finally:
            lock.release()

    def _delete_unfinished_files(self) -> None:
        """What processes that were killed left of files that they were writing."""
        for folder in (self.path, self.checkpoints):
            for path in folder.glob(".*.part"):
                path.unlink()

    def write_config(self, config: PretrainConfig | FinetuneConfig) -> None:
        """Write config.yaml, with the paths of the input made absolute so that the run can be started again from anywhere."""
        values = dataclasses.asdict(config)
        for key in _PATHS:
            _change(values, key, _absolute)
        for key in _CORPORA:
            _change(values, key, _with_absolute_paths)
        write_atomically(self.config, yaml.dump(values, Dumper=_ConfigDumper, sort_keys=False, allow_unicode=True))

    def config_digest(self) -> str:
        """A hash of config.yaml, which result.json keeps."""
        return hashlib.sha256(self.config.read_bytes()).hexdigest()

    @property
    def config_was_changed(self) -> bool:
        """Whether config.yaml is not, to the byte, what it was when the run was finished; False where that is not known."""
        try:
            recorded = json.loads(self.result.read_text(encoding="utf-8")).get("config")
        except (OSError, ValueError, AttributeError):
            return False
        return recorded is not None and recorded != self.config_digest()

    def read_config(self) -> PretrainConfig:
        """The configuration of config.yaml, of a pre-training. UserError where it is damaged."""
        return self._read_config(PretrainConfig)

    def read_finetune_config(self) -> FinetuneConfig:
        """The same of a fine-tuning."""
        return self._read_config(FinetuneConfig)

    def read_architecture(self) -> Architecture:
        """The model's shape, of architecture.json. UserError where it is damaged."""
        try:
            return Architecture.from_dict(json.loads(self.architecture.read_text(encoding="utf-8")))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{self.architecture} is damaged ({error}): export or train the model anew.") from error

    def _read_config(self, kind: type[T]) -> T:
        try:
            return from_plain(kind, read_yaml(self.config))
        except KeyError as error:
            raise UserError(f"{self.config} has the key {error}, which this version does not know: take it out.") from error
        except (ValueError, TypeError, AttributeError, UserError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise UserError(f"{self.config} is not what a run has written ({reason}): undo what was changed there.") from error


def find_checkpoint(name: str, runs: Path) -> tuple[RunFolder, Path | None]:
    """The run that ``name`` means, see ``find_run``; or, where it is a file of weights inside a run's folder, the run and the file.

    Raises:
        UserError: nothing has that name.
    """
    path = Path(name).expanduser()
    if path.suffix != ".safetensors":
        return find_run(name, runs), None
    folder = folder_of_weights(path)
    if folder is None or not (folder / "config.yaml").is_file():
        raise no_folder_of_weights(path)
    return RunFolder(folder), path


def folder_of_weights(path: Path) -> Path | None:
    """The run's or exported folder that a file of weights belongs to: its own or the one above; None where neither is one."""
    folders = path.absolute().parents[:2] if path.is_file() else ()
    return next((folder for folder in folders if any((folder / name).is_file() for name in ("config.yaml", "architecture.json"))), None)


def no_folder_of_weights(path: Path) -> UserError:
    """What is said of a file that is in no such folder."""
    return UserError(f"{path} is no file of weights in a run's folder: give checkpoint=RUN, or RUN/checkpoints/step-NUMBER.safetensors.")


def find_run(name: str, runs: Path) -> RunFolder:
    """The run that ``name`` means: a folder, a run's id inside ``runs``, or the last eight characters of one.

    Raises:
        UserError: nothing has that name.
    """
    if ((path := Path(name).expanduser()) / "config.yaml").is_file():
        return RunFolder(path)
    if (runs / name / "config.yaml").is_file():
        return RunFolder(runs / name)
    if found := sorted(runs.glob(f"*-{name}/config.yaml")) if len(name) == 8 and name.isalnum() else []:
        return RunFolder(found[0].parent)
    raise UserError(f"No run {name!r}: there is no such folder, and no run of that name in {runs} ({_newest_runs(runs)}).")


def _newest_runs(runs: Path) -> str:
    """The names of a few runs, the newest first: of pre-trainings, from which every verb can start, or of others where there are none."""
    found = sorted((config.stat().st_mtime_ns, config.parent.name) for config in runs.glob("*/config.yaml"))
    names = [name for _, name in reversed(found)]
    names = [name for name in names if not name.startswith("finetune-")] or names
    more = f" and {len(names) - _SHOWN_RUNS} more" if len(names) > _SHOWN_RUNS else ""
    return ", ".join(names[:_SHOWN_RUNS]) + more or "which has none yet"


def from_plain(kind: type[T], values: dict[str, Any]) -> T:
    """Build the dataclass ``kind``, and those inside it, from the dictionaries that ``dataclasses.asdict`` made of one."""
    hints = typing.get_type_hints(kind)
    return kind(**{key: _value_from_plain(hints[key], value) for key, value in values.items()})


def _value_from_plain(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if value is None or origin in (typing.Union, types.UnionType):
        return value
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(type[Any], hint), value)
    if origin is list:
        return [_value_from_plain(arguments[0], item) for item in value]
    if origin is dict:
        return {key: _value_from_plain(arguments[1], item) for key, item in value.items()}
    return value


def _change(values: dict[str, Any], key: str, change: Callable[[Any], Any]) -> None:
    """Apply ``change`` to what a dotted ``key`` holds, where it is there and is not None."""
    *sections, name = key.split(".")
    for section in sections:
        values = values.get(section, {})
    if values.get(name) is not None:
        values[name] = change(values[name])


def _absolute(path: str) -> str:
    """An absolute path; a glob and a name that is no path of this machine (a Hub id) keep their own form."""
    expanded = Path(path).expanduser()
    return str(expanded.absolute()) if expanded.exists() or any(character in path for character in "*?[") else path


def _with_absolute_paths(corpus: dict[str, Any]) -> dict[str, Any]:
    return {
        **corpus,
        "path": None if corpus["path"] is None else _absolute(corpus["path"]),
        "sources": {name: _with_absolute_paths(source) for name, source in corpus["sources"].items()},
    }
