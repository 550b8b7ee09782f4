"""A checkpoint of any kind as a model with its vocabulary: a run, weights that it has kept, an exported or a Hugging Face folder."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bertlab.data.tokenizer import Vocabulary, folder_vocabulary
from bertlab.errors import UserError
from bertlab.interop import huggingface
from bertlab.interop.weight_names import head_of
from bertlab.messages import say
from bertlab.models.architecture import Architecture
from bertlab.models.task_checks import OF_A_SEQUENCE
from bertlab.run_files.folder import RunFolder, folder_of_weights, no_folder_of_weights
from bertlab.run_files.locating import config_path, located
from bertlab.run_files.states import weights_of
from bertlab.run_files.weight_files import read_folder_weights, read_weights

if TYPE_CHECKING:
    from bertlab.models.bert import Bert

_FRESH_SEED = 0  # of parts that the checkpoint lacks: the same whenever it is loaded
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@dataclass
class Pretrained:
    """A model with its vocabulary, and where it comes from."""

    bert: Bert  # in evaluation mode, on the CPU, in fp32
    vocabulary: Vocabulary
    architecture: Architecture
    name: str  # short and readable: a run's id, or a folder's name
    fingerprint: str  # a hash of the weights that were trained, the vocabulary and the architecture
    origin: str  # the absolute path
    tokenizer: str  # the absolute path of the vocabulary, as tokenizer.path takes it
    fresh: list[str] = field(default_factory=list)  # parts that the checkpoint lacks and that are initialised anew
    ignored: list[str] = field(default_factory=list)  # weights of other heads, which are not read
    run: RunFolder | None = None  # where it is a run of this program

    @property
    def objective(self) -> str:
        """What it was trained to do, as far as its parts show: mlm_nsp | mlm | ltr | rtl."""
        if self.architecture.attention != "bidirectional":
            return {"causal": "ltr", "anticausal": "rtl"}[self.architecture.attention]
        return "mlm_nsp" if self.architecture.next_sentence and "next-sentence head" not in self.fresh else "mlm"

    def trained_weights(self) -> dict[str, Tensor]:
        """The weights without those of the ``fresh`` parts."""
        return {name: tensor for name, tensor in self.bert.state_dict().items() if head_of(name) not in self.fresh}


def load_pretrained(checkpoint: str, runs: Path) -> Pretrained:
    """The model that ``checkpoint`` means, see ``located``.

    Raises:
        UserError: there is nothing of the kind, it is not whole, or it is a model that bertlab has no place for.
    """
    path = located(checkpoint, runs)
    if path.is_file():
        return _from_file(path)
    path = path.absolute()
    if (path / "config.yaml").is_file():
        return _from_own(path, _name(path), weights_of(RunFolder(path), say), RunFolder(path))
    if (path / "architecture.json").is_file():
        return _from_own(path, _name(path), read_folder_weights(path))
    return _from_hugging_face(path)


def _from_file(path: Path) -> Pretrained:
    """A file of weights inside a run's folder, an exported one or one in the Hugging Face layout."""
    if path.suffix != ".safetensors":
        raise UserError(
            f"{path} is no file of weights that can be used by itself: give its folder, or a .safetensors file in a run's folder."
        )
    if (folder := folder_of_weights(path)) is not None:
        run = RunFolder(folder) if (folder / "config.yaml").is_file() else None
        name = _name(folder) if path.name == RunFolder(folder).weights.name else f"{_name(folder)}-{path.stem}"
        return _from_own(folder, name, read_weights(path), run, origin=path.absolute())
    if config_path(folder := path.absolute().parent):
        return _from_hugging_face(folder, None if path.name == RunFolder(folder).weights.name else path.absolute())
    raise no_folder_of_weights(path)


def _from_own(folder: Path, name: str, weights: dict[str, Tensor], run: RunFolder | None = None, origin: Path | None = None) -> Pretrained:
    """A model in our layout. Of a fine-tuned one the task's head is left behind."""
    files = RunFolder(folder)
    if not files.architecture.is_file():
        raise UserError(f"{folder} has no {files.architecture.name}: it is no whole run.")
    architecture = files.read_architecture()
    ignored: list[str] = []
    if any(key.startswith("bert.") for key in weights):
        stale = _left_behind(files, weights)
        ignored = sorted(key for key in weights if not key.startswith("bert.") or key.startswith(stale))
        weights = {key.removeprefix("bert."): tensor for key, tensor in weights.items() if key not in ignored}
    vocabulary = Vocabulary.load(files.tokenizer)
    found = _pretrained(architecture, vocabulary, weights, name, origin or folder, files.tokenizer)
    found.run, found.ignored = run, ignored
    return found


def _left_behind(files: RunFolder, weights: dict[str, Tensor]) -> tuple[str, ...]:
    """How the names begin of what a fine-tuned model has of pre-training, beside an encoder that has moved on without it.

    So have the heads; and the pooler, where the task's head has one of its own or none.
    """
    heads = ("bert.language_head.", "bert.next_sentence_head.")
    try:
        told = json.loads(files.task.read_text(encoding="utf-8"))
        of_a_sequence, wanted = told["task"]["kind"] in OF_A_SEQUENCE, told["head"]["pooler"]
    except (OSError, ValueError, KeyError, TypeError):  # weights that lie elsewhere: their names tell the most of it
        of_a_sequence, wanted = True, True
    trained_along = of_a_sequence and wanted and not any(name.startswith("head.pooler.") for name in weights)
    return heads if trained_along else (*heads, "bert.pooler.")


def _from_hugging_face(folder: Path, file: Path | None = None) -> Pretrained:
    """The model of a folder, with the weights of one ``file`` in it where that is named."""
    path = config_path(folder)
    assert path is not None
    config = huggingface.read_config(path)
    huggingface.architecture_of(config, path, pooler=False)  # refuses other models before their weights are read
    weights = huggingface.plain_names(read_folder_weights(folder) if file is None else read_weights(file), file or folder)
    pooler = any(name.startswith(("bert.pooler.", "cls.seq_relationship.")) for name in weights)
    architecture = huggingface.architecture_of(config, path, pooler=pooler)
    own, ignored = huggingface.own_weights(weights, architecture, file or folder)
    name = _name(folder) if file is None else f"{_name(folder)}-{file.stem}"
    found = _pretrained(architecture, folder_vocabulary(folder, lowercase=True), own, name, file or folder, folder)
    found.ignored = ignored
    return found


def _pretrained(
    architecture: Architecture, vocabulary: Vocabulary, weights: dict[str, Tensor], name: str, origin: Path, tokenizer: Path
) -> Pretrained:
    if vocabulary.size > architecture.vocab_size:
        raise UserError(
            f"{origin}: the tokenizer has {vocabulary.size:,} entries and the model {architecture.vocab_size:,}: they do not match."
        )
    weights = {key: _as_float(key, tensor, origin) for key, tensor in weights.items()}
    bert, fresh = _built(architecture, weights, origin)
    fingerprint = _fingerprint(weights, vocabulary, architecture)
    return Pretrained(bert, vocabulary, architecture, name, fingerprint, str(origin), str(tokenizer), fresh)


def _as_float(name: str, tensor: Tensor, origin: Path) -> Tensor:
    if name.endswith("num_batches_tracked"):
        return tensor
    if tensor.dtype not in _FLOATS:
        raise UserError(f"{origin}: {name} is of type {str(tensor.dtype).removeprefix('torch.')}: give the full-precision weights.")
    return tensor.float()


def _built(architecture: Architecture, weights: dict[str, Tensor], origin: Path) -> tuple[Bert, list[str]]:
    """The model with these weights, and the heads that they lack, which are initialised as in a new model."""
    from bertlab.models.bert import Bert

    with torch.device("meta"):
        bert = Bert(architecture)
    expected = bert.state_dict()
    heads_there = {head_of(name) for name in weights}
    missing = [name for name in expected if name not in weights]
    fresh = sorted({head for name in missing if (head := head_of(name)) is not None and head not in heads_there})
    if lacking := [name for name in missing if head_of(name) not in fresh]:
        raise UserError(f"{origin} lacks the weights {', '.join(lacking[:3])}: it is not whole.")
    if unexpected := [name for name in weights if name not in expected]:
        raise UserError(f"{origin} holds weights for which its architecture has no place: {', '.join(unexpected[:3])}.")
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape:
            raise UserError(
                f"{origin}: {name} has the shape {tuple(tensor.shape)}, but its configuration asks for {tuple(expected[name].shape)}."
            )
    bert.to_empty(device="cpu")
    bert.load_state_dict(weights | (_new_heads(architecture, fresh) if fresh else {}))
    return bert.eval(), fresh


def _new_heads(architecture: Architecture, fresh: list[str]) -> dict[str, Tensor]:
    """The weights of the ``fresh`` heads as a new model has them. They do not depend on what is below: that is made small."""
    from bertlab.models.bert import Bert

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_FRESH_SEED)
        new = Bert(replace(architecture, layers=0, vocab_size=1, positions=1)).state_dict()
    new["language_head.bias"] = torch.zeros(architecture.vocab_size)
    return {name: tensor for name, tensor in new.items() if head_of(name) in fresh}


def _fingerprint(weights: dict[str, Tensor], vocabulary: Vocabulary, architecture: Architecture) -> str:
    """A hash of all that decides what the model computes; 32 hexadecimal digits."""
    standard = Architecture().to_dict()
    shape: dict[str, Any] = {key: value for key, value in sorted(architecture.to_dict().items()) if value != standard[key]}
    digest = hashlib.blake2b(json.dumps([shape, vocabulary.fingerprint]).encode(), digest_size=16)
    for name in sorted(weights):
        tensor = weights[name].contiguous()
        digest.update(f"{name} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.view(-1).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def _name(folder: Path) -> str:
    """The name of a folder, or of the one around it where it is only called "model"."""
    folder = folder.resolve()
    name = folder.parent.name if folder.name == "model" else folder.name
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name) or "model"
