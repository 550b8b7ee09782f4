"""The token store: a tokenised corpus on disk, read through memory maps.

A folder of plain little-endian arrays. N tokens, S sentences, D documents:

    tokens.bin              (N,) uint16, or uint32 for vocabularies past 65,536 entries; ordinary ids only, sentence after sentence
    sentence_offsets.bin    (S + 1,) int64, where each sentence starts in the tokens, and N
    document_sentences.bin  (D + 1,) int64, where each document starts in the sentences, and S
    document_hashes.bin     (D,) uint64, a hash of each document's tokens
    tokenizer.json          the vocabulary
    manifest.json           sizes, hashes of the files, what the store was made from, what was met in reading it, a hash of all that

No sentence and no document is empty. The bytes depend on the corpus, the reader's options and the vocabulary alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertlab.counting import counted
from bertlab.data.mapping import let_go
from bertlab.errors import UserError
from bertlab.files import touched, write_atomically, write_json

if TYPE_CHECKING:
    from bertlab.data.tokenizer import Vocabulary

FORMAT = 1
MANIFEST = "manifest.json"
TOKENS = "tokens.bin"
SENTENCE_OFFSETS = "sentence_offsets.bin"
DOCUMENT_SENTENCES = "document_sentences.bin"
DOCUMENT_HASHES = "document_hashes.bin"
TOKENIZER = "tokenizer.json"
FILES = (TOKENS, SENTENCE_OFFSETS, DOCUMENT_SENTENCES, DOCUMENT_HASHES, TOKENIZER)
TOKEN_TYPES = ("<u2", "<u4")
OFFSET_TYPE = np.dtype("<i8")
HASH_TYPE = np.dtype("<u8")
DOCUMENTS_AT_ONCE = 1 << 18
HASH = "blake2b"  # in the manifest: of everything else in it

# What stands in a manifest that was written before it had a hash; the oldest ones lack one thing.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("format", "documents", "sentences", "tokens", "unknown_tokens", "repeated_documents"), int),
    **dict.fromkeys(("read", "report", "made_from", "files"), dict),
    "token_type": str,
    "sources": list,
}
_NOT_IN_THE_OLDEST = "unknown_tokens"
_KINDS_OF_A_SOURCE = {"name": str, "first_document": int, "end_document": int}
_KINDS_OF_A_REPORT = {"counts": dict, "examples": dict}
_KINDS_OF_A_FILE = {"bytes": int, "blake2b": str}


def token_type(vocab_size: int) -> np.dtype[Any]:
    """The narrowest type of the store that holds every id below ``vocab_size``."""
    return np.dtype(TOKEN_TYPES[0] if vocab_size <= 1 << 16 else TOKEN_TYPES[1])


@dataclass(frozen=True)
class SourceRange:
    """The documents of one source of a mixture: ``first_document`` up to, but not including, ``end_document``."""

    name: str
    first_document: int
    end_document: int
    weight: float = 1.0  # how many times an epoch sees this source; of the run's configuration, not of the store


class TokenStore:
    """A token store opened for reading; nothing is held in memory but what is touched. Cheap to pickle (it reopens the folder)."""

    def __init__(self, folder: Path, manifest: dict[str, Any], sources: list[SourceRange]) -> None:
        """Use ``open``, which checks."""
        self.folder = folder
        self.manifest = manifest
        self.sources = sources
        self.documents: int = manifest["documents"]
        self.sentences: int = manifest["sentences"]
        self.token_count: int = manifest["tokens"]
        self.tokens = self._map(TOKENS, np.dtype(manifest["token_type"]), self.token_count)  # (N,)
        self.sentence_offsets = self._map(SENTENCE_OFFSETS, OFFSET_TYPE, self.sentences + 1)  # (S + 1,)
        self.document_sentences = self._map(DOCUMENT_SENTENCES, OFFSET_TYPE, self.documents + 1)  # (D + 1,)
        self.document_hashes = self._map(DOCUMENT_HASHES, HASH_TYPE, self.documents)  # (D,)

    @classmethod
    def open(cls, folder: Path | str, *, verify: bool = False) -> TokenStore:
        """The store in ``folder``. UserError when a file is missing or has the wrong size; with ``verify``, the wrong content (slow)."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        _check_files(folder, manifest, verify)
        return cls(folder, manifest, [SourceRange(**source) for source in manifest["sources"]])

    def weighted(self, weights: Mapping[str, float]) -> TokenStore:
        """The same store with the weights of its sources, by name, as a run's configuration gives them."""
        return TokenStore(self.folder, self.manifest, [replace(s, weight=weights[s.name]) for s in self.sources])

    @property
    def fingerprint(self) -> str:
        """A hash of the store's content: equal for two stores exactly when their arrays and vocabularies are."""
        return fingerprint_of(self.manifest)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that the tokens are ids of."""
        from bertlab.data.tokenizer import Vocabulary

        return Vocabulary.load(self.folder / TOKENIZER)

    @cached_property
    def document_offsets(self) -> NDArray[np.int64]:
        """Where each document starts in the tokens, and N: (D + 1,), in memory."""
        offsets = np.empty(self.documents + 1, np.int64)
        for first in range(0, offsets.size, DOCUMENTS_AT_ONCE):  # each part is let go of, else the whole file would be in memory
            part = slice(first, first + DOCUMENTS_AT_ONCE)
            offsets[part] = self.sentence_offsets[self.document_sentences[part]]
            let_go(self.sentence_offsets)
        return offsets

    def split(self, held_out: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of the documents to train on and of those held out, both ascending; about a share ``held_out`` is held out.

        Held out are the documents with the smallest content hashes, so that neither order nor seed nor other documents matter, and
        copies of a document stand on one side. At least two different ones stand on either side where there are four, else one.
        UserError when there are not two different documents.
        """
        if not 0 < held_out < 1:
            raise UserError(f"corpus.held_out={held_out} must lie between 0 and 1: it is the share of documents kept for validation.")
        hashes = np.asarray(self.document_hashes)
        distinct, counts = np.unique(hashes, return_counts=True)
        if len(distinct) < 2:
            raise UserError(
                f"The corpus has {counted(self.documents, 'document')}, {len(distinct)} of them different, but validation needs one"
                " that is not trained on: give at least two documents (a text file for each, or separated as the reader expects)."
            )
        # Next-sentence prediction needs two documents on either side; with fewer than four there is but one to spare.
        least = 2 if len(distinct) >= 4 else 1
        sizes = np.cumsum(counts)[least - 1 : len(distinct) - least]  # held-out documents for each possible boundary
        boundary = distinct[least - 1 + np.abs(sizes - held_out * self.documents).argmin()]
        held = hashes <= boundary
        return np.flatnonzero(~held), np.flatnonzero(held)

    def _map(self, name: str, dtype: np.dtype[Any], length: int) -> np.memmap[Any, Any]:
        return np.memmap(self.folder / name, dtype=dtype, mode="r", shape=(length,))

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenStore, (self.folder, self.manifest, self.sources)


def fingerprint_of(manifest: dict[str, Any]) -> str:
    """The content hash of the store that ``manifest`` describes."""
    return _hash_of({"format": manifest["format"], "files": manifest["files"]})


def _hash_of(content: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write what ``read_manifest`` reads, with a hash of it."""
    write_json(folder / MANIFEST, {**manifest, HASH: _hash_of(manifest)})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the store in ``folder``. UserError when there is none, or of another format, or not what was written."""
    path = folder / MANIFEST
    try:
        manifest: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{folder} is no token store, it has no {MANIFEST}: make one with `bertlab prepare`.") from error
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}): delete the folder and run `bertlab prepare` again.") from error
    if not isinstance(manifest, dict):
        raise UserError(f"{path} is damaged (it holds no object): delete the folder and run `bertlab prepare` again.")
    if manifest.get("format") != FORMAT:
        raise UserError(f"{path} has format {manifest.get('format')}, this version reads {FORMAT}: run `bertlab prepare` again.")
    if not _is_as_written(manifest):
        raise UserError(f"{path} is not what was written to it: delete the folder and run `bertlab prepare` again.")
    if not _adds_up(manifest):
        raise UserError(f"{path} is damaged (its numbers do not fit together): delete the folder and run `bertlab prepare` again.")
    return manifest


def _is_as_written(manifest: dict[str, Any]) -> bool:
    """Whether the manifest has its hash. Of one that was written without, whether everything is there, of its kind, and nothing else."""
    if HASH in manifest:
        return bool(manifest[HASH] == _hash_of({key: value for key, value in manifest.items() if key != HASH}))
    if not _is_made_of({_NOT_IN_THE_OLDEST: 0, **manifest}, _KINDS) or not _is_made_of(report := manifest["report"], _KINDS_OF_A_REPORT):
        return False
    return all(
        [
            *(_is_made_of(source, _KINDS_OF_A_SOURCE) for source in manifest["sources"]),
            *(_is_made_of(entry, _KINDS_OF_A_FILE) for entry in manifest["files"].values()),
            _is_made_of(report["counts"], dict.fromkeys(report["counts"], int)),
            _is_made_of(report["examples"], dict.fromkeys(report["examples"], list)),
        ]
    )


def _is_made_of(values: Any, kinds: Mapping[str, type]) -> bool:
    """Whether a value of JSON is an object with these keys alone, and values of these kinds."""
    return isinstance(values, dict) and {key: type(value) for key, value in values.items()} == kinds


def _adds_up(manifest: dict[str, Any]) -> bool:
    """Whether the manifest says in one way only how many documents, sentences and tokens there are, and in a way in which they are kept."""
    if manifest.get("token_type") not in TOKEN_TYPES:
        return False
    try:
        documents, sentences, tokens = manifest["documents"], manifest["sentences"], manifest["tokens"]
        sizes = {
            TOKENS: tokens * np.dtype(manifest["token_type"]).itemsize,
            SENTENCE_OFFSETS: (sentences + 1) * OFFSET_TYPE.itemsize,
            DOCUMENT_SENTENCES: (documents + 1) * OFFSET_TYPE.itemsize,
            DOCUMENT_HASHES: documents * HASH_TYPE.itemsize,
            TOKENIZER: manifest["files"][TOKENIZER]["bytes"],
        }
        begins, ends = ([source[key] for source in manifest["sources"]] for key in ("first_document", "end_document"))
        # Each source's documents follow those of the one before it.
        return {name: entry["bytes"] for name, entry in manifest["files"].items()} == sizes and [0, *ends] == [*begins, documents]
    except (KeyError, TypeError, AttributeError):
        return False


def _check_files(folder: Path, manifest: dict[str, Any], verify: bool) -> None:
    """UserError for the first file of the store that is missing or other than the manifest says."""
    for name in FILES:
        path, expected = folder / name, manifest["files"][name]
        if not path.is_file():
            raise UserError(f"The token store {folder} lacks {name}: delete the folder and run `bertlab prepare` again.")
        if (size := path.stat().st_size) != expected["bytes"]:
            raise UserError(
                f"{path} is damaged ({size:,} bytes instead of {expected['bytes']:,}): delete the folder and run `bertlab prepare` again."
            )
        if verify and file_hash(path) != expected["blake2b"]:
            raise UserError(f"{path} is not what was written to it: delete the folder and run `bertlab prepare` again.")


def check_once(folder: Path) -> None:
    """Compare the content of the store's files with their hashes, unless they have not been touched since that was done.

    Of a check that went well a note is kept beside the folder, with what the system says of the files. So what is damaged is found before
    it is trained on, and a large store is not read through by every run of a grid.

    Raises:
        UserError: a file is missing, or not what was written to it.
    """
    note = folder.with_name(f"{folder.name}.checked")
    state = json.dumps({name: _touched(folder / name) for name in (MANIFEST, *FILES)})
    with suppress(OSError, ValueError):
        if note.read_text(encoding="utf-8") == state:
            return
    _check_files(folder, read_manifest(folder), verify=True)
    with suppress(OSError):  # a cache that cannot be written to is read through every time
        write_atomically(note, state)


def _touched(path: Path) -> list[int] | None:
    """What changes when a file's content does, however short; None where there is no file."""
    try:
        return touched(path.stat())
    except OSError:
        return None


def file_hash(path: Path) -> str:
    """The hash of a file's content, read in bounded memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def file_entry(path: Path) -> dict[str, Any]:
    """A file's size and hash, as the manifest holds them."""
    return {"bytes": path.stat().st_size, "blake2b": file_hash(path)}
