"""``bertlab evaluate``: a trained model on held-out documents."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from bertlab.arguments import Arguments, parse_arguments
from bertlab.commands.jobs import run_jobs
from bertlab.config import PathsConfig, PretrainConfig
from bertlab.errors import UserError
from bertlab.messages import warn
from bertlab.schemas import PRETRAIN

# What a trained model is, and how it came about, cannot be changed any more.
_FIXED = ("model", "backbone", "norm", "objective", "tokenizer", "optimizer", "budget", "checkpointing", "scale", "init")


def run(words: list[str]) -> int:
    """Evaluate the checkpoints that the words name. Returns the exit code."""
    arguments = parse_arguments(words)
    if arguments.help:
        from bertlab.help import show_help

        return show_help("evaluate", arguments)
    checkpoints = _taken(arguments, "checkpoint")
    if not checkpoints:
        raise UserError("evaluate needs checkpoint=RUN: a run's id or its folder, or a file of weights that it has kept.")
    if len(checkpoints) > 1 and not arguments.multirun:
        raise UserError("checkpoint names several runs: add -m to evaluate one after the other.")
    _refuse_what_is_fixed(arguments)
    return max(_evaluate_run(checkpoint, arguments) for checkpoint in checkpoints)


def _evaluate_run(checkpoint: str, arguments: Arguments) -> int:
    """Evaluate one run, under its own configuration with the command's overrides on top; or a folder of a model."""
    from bertlab.run_files.folder import find_checkpoint

    runs = _runs_folder(arguments)
    if (place := _folder_of_model(checkpoint, runs)) is not None:
        return _evaluate_folder(str(place), arguments)
    run_folder, weights = find_checkpoint(checkpoint, runs)
    folder = run_folder.path
    if run_folder.task.is_file():  # its configuration is that of a fine-tuning
        return _evaluate_folder(str(weights or folder), arguments)
    if run_folder.config_was_changed:
        warn(
            f"{run_folder.config} was changed after the run was finished; the evaluation follows the changed file, result.json has what was"
            " trained."
        )

    def evaluate_run(config: PretrainConfig) -> Path:
        _evaluate(folder, config, weights)
        return folder

    return run_jobs(
        "evaluate", PRETRAIN, arguments, evaluate_run, base=asdict(run_folder.read_config()), words=(f"checkpoint={checkpoint}",)
    )


def _evaluate(folder: Path, config: PretrainConfig, weights: Path | None) -> None:
    from bertlab.training.evaluate import evaluate

    evaluate(folder, config, weights)


def _folder_of_model(checkpoint: str, runs: Path) -> Path | None:
    """The folder that is meant, where it is no run: exported, imported, or of the Hugging Face layout."""
    for place in (Path(checkpoint).expanduser(), runs / checkpoint):
        if (place / "config.yaml").is_file():
            return None
        if any((place / name).is_file() for name in ("architecture.json", "config.json", "bert_config.json")):
            return place
    return None


def _evaluate_folder(place: str, arguments: Arguments) -> int:
    """Evaluate a model that comes without a configuration: by the objective that its parts show, at the usual length."""
    from bertlab.interop.initial import config_without_training
    from bertlab.interop.pretrained import load_pretrained

    config = config_without_training(load_pretrained(place, _runs_folder(arguments)))

    def evaluate_model(config: PretrainConfig) -> Path:
        _evaluate_pretrained(place, config)
        return Path(place)

    return run_jobs("evaluate", PRETRAIN, arguments, evaluate_model, base=asdict(config), words=(f"checkpoint={place}",))


def _evaluate_pretrained(place: str, config: PretrainConfig) -> None:
    from bertlab.interop.pretrained import load_pretrained
    from bertlab.training.evaluate import evaluate_model

    pretrained = load_pretrained(place, config.paths.runs_folder)
    if "language head" in pretrained.fresh:
        raise UserError(f"{pretrained.name} holds no language head, so it predicts nothing about a text.")
    evaluate_model(pretrained.bert, Path(pretrained.tokenizer), config, pretrained.run)


def _taken(arguments: Arguments, key: str) -> list[str]:
    """Take ``key`` out of the overrides: it is none of the configuration's. Returns its values."""
    from bertlab.overrides import parse_override, values_of

    taken = [word for word in arguments.overrides if word.lstrip("+").startswith(f"{key}=")]
    arguments.overrides = [word for word in arguments.overrides if word not in taken]
    return [str(value) for value in values_of(parse_override(taken[-1]))] if taken else []


def _runs_folder(arguments: Arguments) -> Path:
    from bertlab.overrides import parse_override, values_of

    given = [word for word in arguments.overrides if word.startswith("paths.runs=")]
    named = [str(values_of(parse_override(word))[-1]) for word in given[-1:]]
    return PathsConfig(*named).runs_folder


def _refuse_what_is_fixed(arguments: Arguments) -> None:
    for word in arguments.overrides:
        section = word.lstrip("+~").partition("=")[0].split(".")[0]
        if section in _FIXED:
            raise UserError(f"{word} cannot be set in evaluate: the checkpoint decides it; corpus, validation and trainer can be changed.")
