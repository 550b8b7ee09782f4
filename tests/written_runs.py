"""Small vocabularies and run folders as training leaves them, and a text that trips tokenizers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bertlab.data.tokenizer import SPECIAL_TOKENS, Vocabulary, wordpiece
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert

MakeRun = Callable[..., Path]

# What trips tokenizers: accents composed and not, Chinese, Japanese, Korean, emoji with joiners, control and zero-width characters,
# white space of all kinds, words that are too long, names of special tokens, dashes and quotes, right-to-left text, mathematics.
HARD_TEXT = (
    "Ŷ Élan élan e\u0301lan ẞtraße İstanbul ǅ ﬁancé naïve coöperate Ångström\n"
    "我爱北京天安门 日本語のテキスト 한국어 𠀀𠀁 x我y 〇々\n"
    "👩‍👩‍👧 😀🏽 ❤️ 🇩🇪 ¹²³ ½ ℌ ℝ ∑∞ √2\n"
    "a\x00b\x01c\x7fd\u200be\u200dg\ufeffh\ufffdi\tj\rk\x0bl\x0cm\x85n\u2028o\u2029p\xa0q\u3000r\u00ads\n"
    + "x" * 99
    + " "
    + "y" * 100
    + " "
    + "z" * 101
    + " "
    + "é" * 101
    + " "
    + "w" * 500
    + "\n"
    "[MASK] [CLS]x [SEP][SEP] [mask] [UNK] [PAD] [unused1] ##ing # ## 1,234.56e-7 U.S.A. don't “quoted”—dash…ellipsis ¿qué?\n"
    "العَرَبِيَّة עִבְרִית हिन्दी ไทย Ελληνικά Привет, мир! ПРИВЕТ ΣΊΣΥΦΟΣ\n"
)
WORDS = [
    "the",
    "he",
    "sat",
    "down",
    "was",
    "tired",
    "paris",
    "Paris",
    "is",
    "of",
    "france",
    "France",
    "capital",
    "once",
    "upon",
    ".",
    ",",
    "一",
]


def small_vocabulary(lowercase: bool = True) -> Vocabulary:
    """Words, and every character of the hard text with its continuation, so that little is unknown."""
    texts = HARD_TEXT + HARD_TEXT.lower() + "abcdefghijklmnopqrstuvwxyz"
    characters = sorted({character for character in texts if not character.isspace() and character.isprintable()})
    rest = [c for c in characters if c not in WORDS]
    tokens = [*SPECIAL_TOKENS, *WORDS, *rest, *(f"##{character}" for character in characters), "##ing", "##an"]
    return Vocabulary(wordpiece(tokens, lowercase), "the test's")


def small_architecture(vocabulary: Vocabulary, **changes: Any) -> Architecture:
    values: dict[str, Any] = {
        "vocab_size": vocabulary.size,
        "layers": 2,
        "hidden": 16,
        "heads": 4,
        "intermediate": 40,
        "positions": 48,
        "initializer_range": 0.3,
    } | changes
    return Architecture(**values)


def write_run(folder: Path, vocabulary: Vocabulary, architecture: Architecture, seed: int = 0) -> Path:
    """A folder as a finished run leaves it, of a model whose biases and norms are not at their trivial initial values."""
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    model = Bert(architecture)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.copy_(torch.rand_like(buffer) + 0.5)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("model: {name: small}\n")
    vocabulary.save(folder / "tokenizer.json")
    (folder / "architecture.json").write_text(json.dumps(architecture.to_dict()))
    save_file(dict(model.state_dict()), folder / "model.safetensors")
    return folder
