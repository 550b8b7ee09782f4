"""Writing a model for others: a Hugging Face folder where transformers' BERT can hold it, else a folder in our own layout."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save as serialised
from torch import Tensor

from bertlab.data.tokenizer import Vocabulary
from bertlab.errors import UserError, unknown
from bertlab.files import write_atomically, write_json
from bertlab.interop.huggingface import config_of, their_weights
from bertlab.interop.pretrained import Pretrained
from bertlab.models.architecture import Architecture
from bertlab.run_files.folder import RunFolder

# What is written → transformers' class that has a place for exactly that.
CLASSES = {"pretraining": "BertForPreTraining", "masked_lm": "BertForMaskedLM", "encoder": "BertModel"}
_NEEDED = {"pretraining": ("language head", "pooler", "next-sentence head"), "masked_lm": ("language head",), "encoder": ()}
_PARTS = {
    "pretraining": ("bert.", "cls."),
    "masked_lm": ("bert.embeddings.", "bert.encoder.", "cls.predictions."),
    "encoder": ("bert.",),
}

_OWN_FILES = ("architecture.json", "model.safetensors", "tokenizer.json")
THEIR_FILES = ("config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def export(pretrained: Pretrained, folder: Path, parts: str | None = None) -> list[str]:
    """Write the model to ``folder`` for transformers, or, where transformers' BERT cannot hold it, in our own layout.

    ``parts`` is one of ``CLASSES``; None takes all that was trained. Returns sentences about what was written.

    Raises:
        UserError: the model lacks what ``parts`` asks for, or the folder holds other files.
    """
    if parts is not None and parts not in CLASSES:
        raise unknown("value of --as", parts, CLASSES)
    if reason := reason_against(pretrained.architecture):
        if parts is not None:
            raise UserError(
                f"--as {parts} is not possible: transformers' BERT has no {reason}; without --as it is exported in bertlab's own layout."
            )
        save_own(pretrained, folder)
        files = ", ".join(_OWN_FILES)
        return [f"transformers' BERT has no {reason}: {folder} is in bertlab's own layout ({files}), which checkpoint={folder} reads."]
    lacking = _lacking(pretrained)
    parts = parts or next(kind for kind, needed in _NEEDED.items() if not lacking & set(needed))
    if missing := lacking & set(_NEEDED[parts]):
        raise UserError(f"--as {parts} is not possible: {pretrained.name} was trained without a {' and a '.join(sorted(missing))}.")
    _save_theirs(pretrained, folder, parts)
    return _about(folder, parts, lacking)


def reason_against(architecture: Architecture) -> str | None:
    """What of the model transformers' BERT has not; None where it can hold it."""
    if architecture.backbone != "transformer":
        return f"{ {'bilstm': 'LSTM', 'cbow': 'bag of words'}[architecture.backbone] } in place of attention"
    if architecture.attention != "bidirectional":
        return f"{ {'causal': 'left-to-right', 'anticausal': 'right-to-left'}[architecture.attention] } encoder"
    if architecture.norm != "layer":
        return "batch normalisation"
    if architecture.placement != "post":
        return "norm before its branches (norm.placement=pre)"
    return None


def _lacking(pretrained: Pretrained) -> set[str]:
    """The heads that the model has not, or that nothing has been learned for."""
    absent = set() if pretrained.architecture.next_sentence else {"pooler", "next-sentence head"}
    return absent | set(pretrained.fresh)


def _about(folder: Path, parts: str, lacking: set[str]) -> list[str]:
    said = [f"{folder} holds a {CLASSES[parts]} for transformers, with its tokenizer."]
    if parts == "masked_lm" and "pooler" in lacking:
        said.append(
            "It was trained without next sentences and so has no pooler: AutoModelForMaskedLM loads it whole, AutoModel with"
            " add_pooling_layer=False."
        )
    elif parts == "encoder" and "pooler" in lacking:
        said.append("It has no pooler: load it with AutoModel.from_pretrained(…, add_pooling_layer=False).")
    elif parts != "encoder":
        said.append("Classes without these heads leave them out and say so; --as encoder writes what AutoModel has, and no more.")
    return said


def _save_theirs(pretrained: Pretrained, folder: Path, parts: str) -> None:
    claim(folder, THEIR_FILES)
    vocabulary, architecture = pretrained.vocabulary, pretrained.architecture
    weights = their_weights(pretrained.trained_weights(), architecture)
    chosen = {name: tensor for name, tensor in weights.items() if name.startswith(_PARTS[parts])}
    if parts == "encoder":
        chosen = {name.removeprefix("bert."): tensor for name, tensor in chosen.items()}
    save_tokenizer(vocabulary, folder, architecture.positions)
    save_weights(folder, chosen)
    write_json(folder / "config.json", config_of(architecture, CLASSES[parts], vocabulary.pad))


def save_own(pretrained: Pretrained, folder: Path) -> None:
    """Write the model in our own layout. Heads that nothing has been learned for are left out.

    Raises:
        UserError: the folder holds other files.
    """
    claim(folder, _OWN_FILES)
    files = RunFolder(folder)
    pretrained.vocabulary.save(files.tokenizer)
    save_weights(folder, pretrained.trained_weights())
    write_json(files.architecture, pretrained.architecture.to_dict())


def claim(folder: Path, names: tuple[str, ...]) -> None:
    """Make the folder, unless it holds what would be mixed with what is written."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a new folder.")
    if folder.is_dir() and (others := sorted(path.name for path in folder.iterdir() if path.name not in names)):
        raise UserError(f"{folder} holds other files ({', '.join(others[:3])}): name a new folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made ({error.strerror}): name another folder.") from error


def save_weights(folder: Path, weights: dict[str, Tensor]) -> None:
    """The format that is named in the metadata is transformers' word for PyTorch's order of a matrix's numbers."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_atomically(folder / "model.safetensors", serialised(whole, metadata={"format": "pt"}))


def save_tokenizer(vocabulary: Vocabulary, folder: Path, positions: int) -> None:
    """All the files from which one version or another of transformers makes the same tokenizer."""
    normaliser = vocabulary.tokenizer.normalizer
    names = {
        key: vocabulary.tokenizer.id_to_token(token)
        for key, token in (
            ("unk_token", vocabulary.unknown),
            ("sep_token", vocabulary.sep),
            ("pad_token", vocabulary.pad),
            ("cls_token", vocabulary.cls),
            ("mask_token", vocabulary.mask),
        )
    }
    vocabulary.save(folder / "tokenizer.json")
    write_atomically(folder / "vocab.txt", "".join(f"{token}\n" for token in _tokens(vocabulary)))
    write_json(folder / "special_tokens_map.json", names)
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": normaliser.lowercase,
        "strip_accents": normaliser.strip_accents,
        "tokenize_chinese_chars": normaliser.handle_chinese_chars,
        "model_max_length": positions,
        **names,
    }
    write_json(folder / "tokenizer_config.json", config)


def _tokens(vocabulary: Vocabulary) -> list[str]:
    """The tokens by their ids; a number without a token gets a name that no text can become."""
    ids = vocabulary.tokenizer.get_vocab()
    by_id = {number: token for token, number in ids.items()}
    return [by_id.get(number, f"[unused_id_{number}]") for number in range(vocabulary.size)]
