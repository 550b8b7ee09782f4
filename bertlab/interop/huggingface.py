"""BERT in the Hugging Face layout: config.json and the weights of transformers' BERT classes, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertlab.errors import UserError, located
from bertlab.interop.weight_names import hugging_face_names
from bertlab.models.architecture import Architecture

CONFIG = "config.json"

# gelu_new and gelu_python are older names of the same functions.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
}
_OWN_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}

# Key of config.json → ours. The values of a key that is missing are BERT-base's, in transformers as here.
_KEYS = {
    "vocab_size": "vocab_size",
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "intermediate_size": "intermediate",
    "max_position_embeddings": "positions",
    "type_vocab_size": "segments",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "epsilon",
    "initializer_range": "initializer_range",
}
_INTEGERS = frozenset(("vocab_size", "layers", "hidden", "heads", "intermediate", "positions", "segments"))
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # counted numbers that older versions saved


def read_config(path: Path) -> dict[str, Any]:
    """The values of a config.json. UserError when it is none."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is not valid JSON ({error}): fetch or export the folder anew.") from error
    if not isinstance(config, dict):
        raise UserError(f"{path} holds no model's configuration: give the folder of a BERT model.")
    return config


def architecture_of(config: dict[str, Any], path: Path, *, pooler: bool) -> Architecture:
    """What ``config``, read from ``path``, describes, with a pooler and a next-sentence head or without.

    Raises:
        UserError: it is no BERT, or one that differs from BERT in what it computes.
    """
    _refuse_others(config, path)
    values = {own: config[theirs] for theirs, own in _KEYS.items() if theirs in config}
    for theirs, own in _KEYS.items():
        if own in values and (isinstance(values[own], bool) or not isinstance(values[own], int if own in _INTEGERS else int | float)):
            raise UserError(f"{path}: {theirs} is {values[own]!r} and must be a number.")
    activation = config.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise UserError(f"{path}: hidden_act={activation!r} is none of the activations that bertlab has ({', '.join(_ACTIVATIONS)}).")
    with located(str(path)):
        return Architecture(**values, activation=_ACTIVATIONS[activation], next_sentence=pooler)


def _refuse_others(config: dict[str, Any], path: Path) -> None:
    kind = config.get("model_type", "bert")  # Google's configurations do not say it
    if kind != "bert" or "hidden_size" not in config:
        shown = kind if kind != "bert" else "without a hidden_size"
        raise UserError(f"{path} describes a model of another type ({shown}): bertlab reads those of model_type bert.")
    if (positions := config.get("position_embedding_type") or "absolute") != "absolute":
        raise UserError(f"{path}: position_embedding_type={positions} cannot be read: bertlab's transformer has absolute positions only.")
    for key in ("is_decoder", "add_cross_attention"):
        if config.get(key):
            raise UserError(f"{path}: {key}=true makes a decoder of it: bertlab reads encoders.")
    if config.get("quantization_config"):
        raise UserError(f"{path}: the weights are quantised: give the full-precision ones.")


def config_of(architecture: Architecture, kind: str, vocabulary_pad: int) -> dict[str, Any]:
    """The config.json of ``architecture`` for transformers' class ``kind``."""
    values = architecture.to_dict()
    return {
        "architectures": [kind],
        "model_type": "bert",
        **{theirs: values[own] for theirs, own in _KEYS.items()},
        "hidden_act": _OWN_ACTIVATIONS[architecture.activation],
        "position_embedding_type": "absolute",
        "pad_token_id": vocabulary_pad,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def plain_names(weights: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Theirs under the names of ``BertForPreTraining`` as they are today.

    Older files call a norm's scale gamma and its shift beta; a bare ``BertModel`` has no ``bert.`` before its names; positions
    counted from 0 may have been saved too; and the output embedding repeats the word table, which is checked.
    """
    named: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        name = name.removeprefix("module.").replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"bert.{name}"
        if name.removeprefix("bert.") not in _BUFFERS:
            named[name] = tensor
    for double, original in (
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ):
        if double in named and not torch.equal(tensor := named.pop(double), named.setdefault(original, tensor)):
            raise UserError(f"{path}: {double} differs from {original}: bertlab's output embedding is the word table itself.")
    return named


def own_weights(weights: dict[str, Tensor], architecture: Architecture, path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """Ours out of theirs (with ``plain_names``), and the names of theirs that are heads of other tasks, which stay behind.

    Where a head is missing whole, so are its weights in what is returned.

    Raises:
        UserError: the encoder has weights that BERT has not, or a weight of it or of a head is missing.
    """
    rest = dict(weights)
    own: dict[str, Tensor] = {}
    missing: list[str] = []
    heads_there = {_head(name) for name in weights}
    for name, parts in hugging_face_names(architecture).items():
        found = [rest.pop(part) for part in parts if part in rest]
        if len(found) == len(parts):
            own[name] = _stacked(found, parts, path)
            continue
        if (head := _head(parts[0])) is None or head in heads_there:
            missing += [part for part in parts if part not in weights]
    if missing:
        raise UserError(f"{path} lacks {_listed(missing)}: it is not whole, or not the model that its config.json describes.")
    if unexpected := [name for name in rest if name.startswith("bert.")]:
        raise UserError(f"{path} holds {_listed(unexpected)}, for which BERT as its config.json describes it has no place.")
    return own, sorted(rest)


def _head(name: str) -> str | None:
    """The head that one of their weights belongs to; None for the embeddings and the encoder."""
    return next((head for head in ("bert.pooler", "cls.predictions", "cls.seq_relationship") if name.startswith(head)), None)


def _stacked(tensors: list[Tensor], names: tuple[str, ...], path: Path) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    if len({tensor.shape for tensor in tensors}) > 1:
        raise UserError(f"{path}: {', '.join(names)} differ in shape: the file is damaged.")
    return torch.cat(tensors)


def their_weights(weights: dict[str, Tensor], architecture: Architecture) -> dict[str, Tensor]:
    """Theirs, under the names of ``BertForPreTraining``, out of ours."""
    theirs: dict[str, Tensor] = {}
    for name, parts in hugging_face_names(architecture).items():
        if name in weights:
            theirs |= zip(parts, weights[name].chunk(len(parts)), strict=True)
    return theirs


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
