"""Further pre-training (``bertlab pretrain init=RUN``): a configuration takes over what the checkpoint has settled.

What contradicts it is refused: by the checkpoint where there is one, and for a plan by the configuration of the run that is to leave it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bertlab.config import PretrainConfig
from bertlab.errors import UserError
from bertlab.run_files.locating import located

if TYPE_CHECKING:
    from bertlab.interop.pretrained import Pretrained
    from bertlab.models.architecture import Architecture
    from bertlab.models.bert import Bert

# What a command may change although the checkpoint has a value for it: no weight depends on it.
_FREE = {"model": ("name", "dropout", "attention_dropout", "initializer_range"), "norm": ("momentum",)}


@dataclass(frozen=True)
class _Checkpoint:
    """What of trained weights a configuration has to agree with."""

    architecture: Architecture
    objective: str
    model: str  # the name of its size
    vocab_size: int
    tokenizer: str | None  # where its vocabulary lies; None: nowhere yet


def take_over(config: PretrainConfig, overrides: Iterable[str]) -> None:
    """Set the model, the vocabulary and, unless the command names one, the objective of ``config`` to those of its ``init``, if it has one.

    ``overrides`` are the command's words: what they say otherwise is refused, as far as weights depend on it.

    Raises:
        UserError: a word contradicts the checkpoint, or the checkpoint cannot be read.
    """
    if config.init is None:
        return
    located(config.init, config.paths.runs_folder)  # before anything heavy is imported
    from bertlab.interop.pretrained import load_pretrained

    take_over_from(load_pretrained(config.init, config.paths.runs_folder), config, overrides)


def config_without_training(pretrained: Pretrained) -> PretrainConfig:
    """A configuration to evaluate a model by that comes without one: its objective as its parts show it, the usual length and corpus."""
    config = PretrainConfig(init=pretrained.origin)
    config.corpus.filter.duplicate_lines = True  # as corpus=builtin of a pre-training reads it, else it would hold out other documents
    take_over_from(pretrained, config, [])
    config.init, config.budget.steps, config.logger.kind = None, 1, "none"
    config.batch.length = min(config.batch.length, config.model.positions)
    return config


def take_over_from(pretrained: Pretrained, config: PretrainConfig, overrides: Iterable[str]) -> None:
    """The same where the checkpoint is loaded already."""
    given = _given(overrides)
    named = config.objective.kind if "objective" in given or "objective.kind" in given else pretrained.objective
    for section, values in _settled(_checkpoint(pretrained), named).items():
        part = getattr(config, section)
        for name, value in values.items():
            chosen = _chosen(section, name, given)
            if _is_free(section, name, pretrained.architecture):
                if chosen is None:
                    setattr(part, name, value)
                continue
            if chosen is not None and not _same(config, section, name, value):
                raise _misfit(chosen, f"init={config.init}", section, name, value)
            setattr(part, name, value)
    config.init = pretrained.origin


def check_goes_on(config: PretrainConfig, source: PretrainConfig, overrides: Iterable[str], origin: str) -> None:
    """Refuse, before there is a checkpoint, what ``take_over`` would refuse then.

    Args:
        config: the run that is to go on.
        source: the run that is to leave the checkpoint.
        overrides: the words that ``config`` has beyond those of ``source``.
        origin: what the sentence calls the checkpoint.

    Raises:
        UserError: ``config`` differs from ``source`` in what weights depend on.
    """
    from bertlab.models.architecture import Architecture

    architecture, tokenizer, given = Architecture.of(source, source.tokenizer.vocab_size), source.tokenizer, _given(overrides)
    checkpoint = _Checkpoint(architecture, source.objective.kind, source.model.name, tokenizer.vocab_size, tokenizer.path)
    settled = _settled(checkpoint, config.objective.kind)
    settled["tokenizer"]["lowercase"] = tokenizer.lowercase  # which a checkpoint's vocabulary says itself
    for section, values in settled.items():
        for name, value in values.items():
            found = getattr(getattr(config, section), name)
            if found != value and not _is_free(section, name, architecture) and not _same(config, section, name, value):
                raise _misfit(_chosen(section, name, given) or f"{section}.{name}={found}", origin, section, name, value)


def _is_free(section: str, name: str, architecture: Architecture) -> bool:
    """Whether a command may change the value, since no weight depends on it."""
    return name in _FREE.get(section, ()) or name in architecture.unused


def _misfit(chosen: str, origin: str, section: str, name: str, value: Any) -> UserError:
    said = value if isinstance(value, str) else json.dumps(value)  # null, true and numbers as YAML has them
    kept = _direction(value) if section == "objective" else "the model and its vocabulary are the checkpoint's"
    return UserError(f"{chosen} does not fit {origin}, which has {section}.{name}={said}: leave it out, because {kept}.")


def _direction(objective: str) -> str:
    """Why an objective is refused: no other ground is there."""
    from bertlab.models.architecture import ATTENTION_OF_OBJECTIVE

    alike = [name for name, attention in ATTENTION_OF_OBJECTIVE.items() if attention == ATTENTION_OF_OBJECTIVE[objective]]
    return f"the direction in which the model reads is the checkpoint's (that of objective={' or '.join(alike)})"


def _checkpoint(pretrained: Pretrained) -> _Checkpoint:
    return _Checkpoint(
        pretrained.architecture, pretrained.objective, _model_name(pretrained), pretrained.vocabulary.size, pretrained.tokenizer
    )


def _given(overrides: Iterable[str]) -> dict[str, str]:
    """Key → the word that sets it."""
    return {word.lstrip("+~").partition("=")[0]: word for word in overrides}


def _chosen(section: str, name: str, given: dict[str, str]) -> str | None:
    """The word of the command that decides on a value, if one does."""
    return given.get(f"{section}.{name}", given.get(section))


def _settled(checkpoint: _Checkpoint, objective: str) -> dict[str, dict[str, Any]]:
    """Section → the values that the checkpoint implies under ``objective``."""
    from bertlab.models.architecture import ATTENTION_OF_OBJECTIVE

    architecture = checkpoint.architecture
    if ATTENTION_OF_OBJECTIVE.get(objective, architecture.attention) != architecture.attention:
        objective = checkpoint.objective  # which the comparison then finds to differ
    model = ("layers", "hidden", "heads", "intermediate", "positions", "segments", "activation", "epsilon", *_FREE["model"][1:])
    return {
        "objective": {"kind": objective},  # first, since it decides what directions mean
        "model": {"name": checkpoint.model, **{name: getattr(architecture, name) for name in model}},
        "backbone": {
            "kind": architecture.backbone,
            "directions": _directions(architecture, objective),
            "window": architecture.window if architecture.backbone == "cbow" else None,
        },
        "norm": {"kind": architecture.norm, "placement": architecture.placement, "momentum": architecture.momentum},
        "tokenizer": {"vocab_size": checkpoint.vocab_size, "path": checkpoint.tokenizer},
    }


def _model_name(pretrained: Pretrained) -> str:
    """The name of the size, where it is a pre-training run of this program; else the checkpoint's."""
    fine_tuned = pretrained.run is not None and (pretrained.run.path / "task.json").is_file()
    return pretrained.name if pretrained.run is None or fine_tuned else pretrained.run.read_config().model.name


def _directions(architecture: Architecture, objective: str) -> str:
    """The value of backbone.directions that gives those of the ``architecture``."""
    from bertlab.models.architecture import resolved_directions

    if architecture.backbone != "bilstm" or resolved_directions("auto", objective) == architecture.directions:
        return "auto"
    return "both" if architecture.directions == "pair" else architecture.directions


def _same(config: PretrainConfig, section: str, name: str, value: Any) -> bool:
    """Whether the configuration already means ``value``, in whatever form it is written."""
    found = getattr(getattr(config, section), name)
    if (section, name) == ("model", "intermediate") and found is None:
        return bool(value == 4 * config.model.hidden)
    if (section, name) == ("backbone", "directions"):
        from bertlab.models.architecture import resolved_directions

        ours, theirs = (resolved_directions(each, config.objective.kind) for each in (found, value))
        return bool(found == "auto" or ours == theirs)
    if (section, name) == ("tokenizer", "path"):
        return _same_vocabulary(config, found, value)
    if (section, name) == ("tokenizer", "vocab_size") and config.tokenizer.path is not None:
        return True  # of a given vocabulary it means nothing
    return bool(found == value)


def _same_vocabulary(config: PretrainConfig, path: str | None, of_checkpoint: str | None) -> bool:
    from bertlab.data.tokenizer import given_vocabulary

    if path is None or of_checkpoint is None:
        return False  # one would be trained
    return given_vocabulary(path, config.tokenizer.lowercase).fingerprint == given_vocabulary(of_checkpoint, True).fingerprint


def check_fits(pretrained: Pretrained, architecture: Architecture, vocabulary_fingerprint: str) -> Architecture:
    """The architecture to train: ``architecture``, with the rows of the checkpoint's word table, which can be more than the vocabulary has.

    Raises:
        UserError: model or vocabulary differ from the checkpoint's (see ``take_over``, which makes them agree).
    """
    if vocabulary_fingerprint != pretrained.vocabulary.fingerprint:
        raise UserError(f"The vocabulary is not that of init={pretrained.origin}: set tokenizer.path={pretrained.tokenizer}.")
    wanted = replace(architecture, vocab_size=pretrained.architecture.vocab_size)
    free = {name: getattr(wanted, name) for name in (*_FREE["model"][1:], *_FREE["norm"], "next_sentence", "noise_std", *wanted.unused)}
    if replace(pretrained.architecture, **free) != wanted:
        raise UserError(
            f"The model is not that of init={pretrained.origin}: leave model, backbone and norm out, or set them as it has them."
        )
    return wanted


def start_from(model: Bert, pretrained: Pretrained) -> list[str]:
    """Put the checkpoint's weights into ``model``, wherever it has a place for them; returns the heads that stay as initialised."""
    from bertlab.interop.weight_names import head_of

    places = set(model.state_dict())
    weights = {name: tensor for name, tensor in pretrained.trained_weights().items() if name in places}
    model.load_state_dict(weights, strict=False)
    return sorted({head for name in places - set(weights) if (head := head_of(name)) is not None})
