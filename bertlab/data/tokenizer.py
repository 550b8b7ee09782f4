"""The WordPiece vocabulary that a corpus is tokenised with, and the formats in which one can be given."""

from __future__ import annotations

import hashlib
import json
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing

from bertlab.errors import UserError
from bertlab.files import write_atomically

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # BERT's order; a trained vocabulary numbers them 0 to 4
CONTINUATION = "##"
LONGEST_WORD = 100  # characters; a longer word is [UNK], as in the released BERT
UNUSED = re.compile(r"\[unused\d+\]")  # places that the published vocabularies keep free


class Vocabulary:
    """A loaded WordPiece tokenizer and what the model and the masking need to know of its tokens. V is ``size``."""

    def __init__(self, tokenizer: Tokenizer, origin: str) -> None:
        """Take ``tokenizer``; ``origin`` names it in errors. UserError when it is no WordPiece or lacks a special token."""
        if not isinstance(tokenizer.model, WordPiece):
            raise UserError(f"{origin} holds a {type(tokenizer.model).__name__} tokenizer: give a WordPiece one, as BERT's are.")
        if not (isinstance(tokenizer.normalizer, BertNormalizer) and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)):
            raise UserError(f"{origin} cleans text up or cuts words differently from BERT: give the tokenizer of a BERT model.")
        ids = tokenizer.get_vocab()
        if missing := [token for token in SPECIAL_TOKENS if token not in ids]:
            raise UserError(f"{origin} lacks the special token{'s' * (len(missing) > 1)} {', '.join(missing)}: give a BERT vocabulary.")
        if tokenizer.model.unk_token != (unknown := SPECIAL_TOKENS[1]) or unknown not in tokenizer.get_vocab(with_added_tokens=False):
            raise UserError(f"{origin} does not have {unknown} in its vocabulary for words that it lacks: give a BERT vocabulary.")
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values() if not token.special]
        if spanning := [token for token in added if token not in SPECIAL_TOKENS and re.search(r"[\s!-/:-@\[-`{-~]", token)]:
            raise UserError(
                f"{origin} adds the ordinary token {spanning[0]!r}, which is no single word: make it a special token or leave it out."
            )
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.size = max(ids.values()) + 1
        self.pad, self.unknown, self.cls, self.sep, self.mask = (ids[token] for token in SPECIAL_TOKENS)
        self._ids = ids

    @classmethod
    def load(cls, path: Path | str) -> Vocabulary:
        """The vocabulary in the ``tokenizer.json`` at ``path``. UserError when there is none."""
        try:
            tokenizer = Tokenizer.from_str(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"The tokenizer {path} cannot be read ({error.strerror}): give an existing file.") from error
        except UnicodeDecodeError as error:
            raise UserError(f"The tokenizer {path} is not UTF-8 text: give a tokenizer.json or a vocab.txt.") from error
        except Exception as error:  # tokenizers raises plain Exception
            raise UserError(f"{path} is not a tokenizer.json that the tokenizers library can load: {error}.") from error
        return cls(tokenizer, str(path))

    def save(self, path: Path | str) -> None:
        """Write the vocabulary as a ``tokenizer.json`` to ``path``, atomically."""
        write_atomically(Path(path), self.tokenizer.to_str() + "\n")

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides which ids a text becomes."""
        return hashlib.blake2b(self.tokenizer.to_str().encode(), digest_size=16).hexdigest()

    @cached_property
    def ordinary(self) -> NDArray[np.int64]:
        """The ids that stand for text, neither special nor reserved: (R,), ascending."""
        added = {token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.special}
        kept = [i for token, i in self._ids.items() if token not in SPECIAL_TOKENS and token not in added and not UNUSED.fullmatch(token)]
        return np.sort(np.array(kept, dtype=np.int64))

    @cached_property
    def starts_word(self) -> NDArray[np.bool_]:
        """Whether each id begins a word, that is, is no ``##`` continuation: (V,)."""
        starts = np.ones(self.size, dtype=np.bool_)
        prefix = self.tokenizer.model.continuing_subword_prefix
        starts[[i for token, i in self._ids.items() if token.startswith(prefix) and token != prefix]] = False
        return starts

    def plain_encoder(self) -> Tokenizer:
        """A copy that takes a special token's name in a text for what it is, ordinary text: ``[MASK]`` becomes ``[``, ``mask``, ``]``."""
        description = json.loads(self.tokenizer.to_str())
        for token in description["added_tokens"]:
            token["special"] = token["special"] or token["content"] in SPECIAL_TOKENS
        encoder = Tokenizer.from_str(json.dumps(description, ensure_ascii=False))
        encoder.encode_special_tokens = True
        return encoder


def normalizer(lowercase: bool) -> BertNormalizer:
    """BERT's clean-up of text: control characters out, Chinese characters apart and, where lowercased, accents stripped."""
    return BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=lowercase)


def wordpiece(tokens: list[str], lowercase: bool) -> Tokenizer:
    """BERT's tokenizer with ``tokens`` as its vocabulary, numbered in their order; they must hold the special tokens."""
    return _tokenizer({token: i for i, token in enumerate(tokens)}, normalizer(lowercase))


def _tokenizer(ids: dict[str, int], text_normalizer: BertNormalizer) -> Tokenizer:
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]", continuing_subword_prefix=CONTINUATION, max_input_chars_per_word=LONGEST_WORD))
    tokenizer.normalizer = text_normalizer
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    tokenizer.decoder = WordPieceDecoder(prefix=CONTINUATION)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def given_vocabulary(path: str, lowercase: bool) -> Vocabulary:
    """The vocabulary at ``path``: a vocab.txt, a tokenizer.json, or a Hugging Face folder that holds one of them.

    A tokenizer.json and a folder's tokenizer_config.json say themselves whether text is lowercased; ``lowercase`` decides for a
    bare vocab.txt. UserError when there is nothing of the kind, or a special token is missing.
    """
    if not path:
        raise UserError("tokenizer=file needs tokenizer.path: a vocab.txt, a tokenizer.json or a Hugging Face folder.")
    place = Path(os.path.expanduser(path))
    if place.is_dir():
        return folder_vocabulary(place, lowercase)
    if not place.is_file():
        raise UserError(f"tokenizer.path={path} does not exist: give a vocab.txt, a tokenizer.json or a Hugging Face folder.")
    if place.suffix == ".json":
        return Vocabulary.load(place)
    return _read_vocab_txt(place, normalizer(lowercase))


def folder_vocabulary(folder: Path, lowercase: bool) -> Vocabulary:
    """The vocabulary in a Hugging Face folder: its tokenizer.json, else its vocab.txt.

    What tokenizer_config.json says of how text is cleaned up counts more than tokenizer.json, as in transformers (unless its class is
    the general one, which takes tokenizer.json as it is). What it does not say is as tokenizer.json has it, else as the published
    models do it, and ``lowercase`` or not. Tokens that the folder adds in other files are added. UserError when there is no vocabulary, or
    a special token is missing.
    """
    config = _json_object(folder / "tokenizer_config.json")
    return _with_added(_folder_vocabulary(folder, lowercase, config), folder, config)


def _folder_vocabulary(folder: Path, lowercase: bool, config: dict[str, Any]) -> Vocabulary:
    values = {own: config[theirs] for theirs, own in _CLEAN_UP.items() if theirs in config}
    if (folder / "tokenizer.json").is_file():
        vocabulary = Vocabulary.load(folder / "tokenizer.json")
        normaliser = vocabulary.tokenizer.normalizer
        if "Bert" in config.get("tokenizer_class", "Bert") and any(getattr(normaliser, own) != value for own, value in values.items()):
            for own, value in values.items():
                setattr(normaliser, own, value)
            vocabulary.tokenizer.normalizer = normaliser
        return vocabulary
    if (folder / "vocab.txt").is_file():
        return _read_vocab_txt(folder / "vocab.txt", BertNormalizer(**({"clean_text": True, "lowercase": lowercase} | values)))
    raise UserError(f"The folder {folder} has neither tokenizer.json nor vocab.txt: give one that has one of them.")


# Keys of a tokenizer_config.json → the normaliser's.
_CLEAN_UP = {"do_lower_case": "lowercase", "strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars"}


def _with_added(vocabulary: Vocabulary, folder: Path, config: dict[str, Any]) -> Vocabulary:
    """The vocabulary with the tokens that the folder has beside it. UserError where they would not get the numbers that they have there."""
    tokenizer = vocabulary.tokenizer
    there = {*SPECIAL_TOKENS, *(token.content for token in tokenizer.get_added_tokens_decoder().values())}
    missing = {number: token for number, token in _added_tokens(folder, config).items() if token.content not in there}
    if not missing:
        return vocabulary
    tokenizer.add_tokens([missing[number] for number in sorted(missing)])
    if wrong := [token.content for number, token in missing.items() if tokenizer.token_to_id(token.content) != number]:
        raise UserError(f"{folder} adds the token {wrong[0]!r} with a number that is not the next one: save its tokenizer anew.")
    return Vocabulary(tokenizer, str(folder))


def _added_tokens(folder: Path, config: dict[str, Any]) -> dict[int, AddedToken]:
    """Number → token of what added_tokens.json and, as transformers writes it today, tokenizer_config.json add to a vocabulary."""
    found: dict[int, AddedToken] = {}
    try:
        named = (config.get(_NAMED_SPECIAL), _json_object(folder / "special_tokens_map.json").get(_NAMED_SPECIAL))
        special = {token["content"] if isinstance(token, dict) else str(token) for tokens in named for token in tokens or ()}
        for content, number in _json_object(folder / "added_tokens.json").items():
            found[int(number)] = AddedToken(content, special=content in special)
        for number, values in (config.get("added_tokens_decoder") or {}).items():
            found[int(number)] = AddedToken(**{name: values[name] for name in _OF_AN_ADDED_TOKEN if name in values})
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise UserError(f"{folder} adds tokens in a form that transformers does not write ({error}): save its tokenizer anew.") from error
    return found


_NAMED_SPECIAL = "additional_special_tokens"
_OF_AN_ADDED_TOKEN = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")


def _json_object(path: Path) -> dict[str, Any]:
    """What such a file says; nothing where it is missing."""
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}.") from error
    return config if isinstance(config, dict) else {}


def _read_vocab_txt(path: Path, text_normalizer: BertNormalizer) -> Vocabulary:
    """One token a line, whose number (from 0) is its id. UserError, with the line, for a repeated or an empty token."""
    try:
        # Not splitlines(): published vocabularies hold tokens such as U+2028 that it takes for line ends.
        lines = path.read_bytes().decode("utf-8").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: give a vocab.txt with one token a line.") from error
    ids: dict[str, int] = {}
    for number, line in enumerate(lines):
        token = line.rstrip("\r")
        if not token or token in ids:
            what = f"repeats the token {token!r} of line {ids[token] + 1}" if token else "is empty"
            raise UserError(f"{path}:{number + 1} {what}: a vocab.txt has one token a line, each once.")
        ids[token] = number
    if missing := [token for token in SPECIAL_TOKENS if token not in ids]:
        raise UserError(f"{path} lacks the special token{'s' * (len(missing) > 1)} {', '.join(missing)}: give a BERT vocabulary.")
    return Vocabulary(_tokenizer(ids, text_normalizer), str(path))
