"""Files of weights: those of runs are written here; read are safetensors and PyTorch files with nothing but tensors, whole or in shards."""

from __future__ import annotations

import hashlib
import json
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor

from bertlab.errors import UserError
from bertlab.files import is_plain_name, write_atomically

_HASH = "sha256"  # in the metadata of a file that a run has written

# In the order of preference. An index names the files that hold each weight.
_WHOLE, _INDEXED = ("model.safetensors", "pytorch_model.bin"), ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_OTHERS = {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "bert_model.ckpt.index": "TensorFlow", "model.onnx": "ONNX"}


def write_weights(path: Path, weights: dict[str, Tensor]) -> None:
    """Write a safetensors file atomically, with a hash of its tensors; its bytes depend on the weights alone."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_atomically(path, serialised(plain, metadata={_HASH: _hash_of(plain)}))


def _hash_of(weights: Mapping[str, Tensor]) -> str:
    """A hash of names, types, shapes and numbers, of tensors that are contiguous and on the CPU."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_folder_weights(folder: Path) -> dict[str, Tensor]:
    """All weights that lie in a folder of the Hugging Face layout, by the names they have there.

    Raises:
        UserError: there are none, or a file is damaged, missing, or holds anything but tensors.
    """
    for whole, index in zip(_WHOLE, _INDEXED, strict=True):
        if (folder / whole).is_file():
            return read_weights(folder / whole)
        if (folder / index).is_file():
            return _read_shards(folder / index)
    if other := next((name for name in _OTHERS if (folder / name).exists()), None):
        raise UserError(
            f"{folder} holds weights of {_OTHERS[other]} only ({other}): convert them with transformers to model.safetensors first."
        )
    raise UserError(f"{folder} holds no weights: it has neither {' nor '.join(_WHOLE)}.")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, which is never allowed to run code.

    Raises:
        UserError: the file is damaged, or holds anything but tensors.
    """
    try:
        if path.suffix == ".safetensors":
            return _read_safetensors(path)
        with warnings.catch_warnings(action="ignore"):  # of what PyTorch finds odd about a file that it then refuses
            state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise UserError(f"{path} is no safetensors file, or is damaged ({error}): fetch or export it anew.") from error
    except pickle.UnpicklingError as error:
        raise UserError(f"{path} holds more than tensors, or is damaged, and is not opened: ask for a safetensors file.") from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")[:200]
        raise UserError(f"{path} cannot be read ({reason}): fetch or export it anew.") from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise UserError(f"{path} is no file of named tensors: give the folder of a BERT model.")
    return dict(state)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    """A file that says what its tensors are hashed to, as those of runs do, is checked; the format itself has no such thing."""
    with safe_open(path, framework="pt") as file:
        expected = (file.metadata() or {}).get(_HASH)
    weights = load_file(path)
    if expected is not None and _hash_of(weights) != expected:
        raise UserError(
            f"{path} is damaged: it does not hold the weights that were written to it. Take a copy, or train or export it anew."
        )
    return weights


def _read_shards(index: Path) -> dict[str, Tensor]:
    try:
        places: dict[str, Any] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted(set(places.values()), key=str)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, OSError) as error:
        raise UserError(f"{index} is no index of weights: it needs a weight_map of names and files.") from error
    weights: dict[str, Tensor] = {}
    for name in names:
        if not isinstance(name, str) or not is_plain_name(name):
            raise UserError(f"{index} names {name!r}, which is not a file beside it.")
        if not (index.parent / name).is_file():
            raise UserError(f"{index} names {name}, which is not there: fetch the folder anew.")
        weights |= read_weights(index.parent / name)
    if missing := [name for name in places if name not in weights]:
        raise UserError(f"{index}: {missing[0]} is not in {places[missing[0]]}: fetch the folder anew.")
    return weights
