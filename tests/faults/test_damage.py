"""Files of runs and of token stores with a byte changed, an end cut off, or another file in their place: found, never used."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from changing import Killed
from finetune_toys import make_finetuning, write_checkpoint, write_task
from run_numbers import killed_after, numbers, only_run
from small_runs import MakeConfig

from bertlab.config import PretrainConfig
from bertlab.data import store as stores
from bertlab.data.prepare import prepare
from bertlab.data.store import FILES, HASH, MANIFEST, TokenStore, read_manifest, write_manifest
from bertlab.errors import UserError
from bertlab.interop.finetuned import load_finetuned
from bertlab.run_files.folder import RunFolder
from bertlab.run_files.states import load_newest
from bertlab.run_files.weight_files import read_weights
from bertlab.training.finetune import finetune
from bertlab.training.pretrain import pretrain


def flip(path: Path, place: int) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


# Saved states


def parts_of(path: Path) -> dict[str, range]:
    """The bytes of each record of a state's file: PyTorch writes a zip archive that is not compressed."""
    with zipfile.ZipFile(path) as archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in entries[1:]), path.stat().st_size]
    return {entry.filename: range(entry.header_offset, end) for entry, end in zip(entries, ends, strict=True)}


def test_a_state_that_is_changed_or_cut_at_any_part_is_passed_over(make_config: MakeConfig) -> None:
    folder = killed_after(11, lambda: pretrain(make_config()), make_config().paths.runs) / "checkpoints"
    older, newest = sorted(folder.glob("last-*.ckpt"))
    whole, parts = newest.read_bytes(), parts_of(newest)
    assert len(parts) > 40  # each weight, its two moments, the sums, and what the archive has of itself
    for name, part in parts.items():
        for place in (part.start, part[len(part) // 2], part[-1]):
            newest.write_bytes(whole)
            flip(newest, place)
            state = load_newest(folder, lambda line: None)
            assert state is not None
            assert state["step"] == 6, (name, place)
            newest.write_bytes(whole[:place])
            state = load_newest(folder, lambda line: None)
            assert state is not None
            assert state["step"] == 6, (name, place)
    newest.write_bytes(whole)
    state = load_newest(folder, pytest.fail)
    assert state is not None
    assert state["step"] == 9
    assert "-000000006-" in older.name


def test_without_a_whole_state_the_run_begins_anew(make_config: MakeConfig, tmp_path: Path) -> None:
    expected = numbers(pretrain(make_config(**{"paths.runs": str(tmp_path / "whole")})))
    folder = killed_after(11, lambda: pretrain(make_config()), make_config().paths.runs)
    for path in folder.glob("checkpoints/last-*.ckpt"):
        flip(path, 2000)
    assert numbers(pretrain(make_config())) == expected
    assert len(list(folder.glob("checkpoints/damaged-last-*.ckpt"))) == 2


# Weights


def test_weights_that_are_changed_or_cut_anywhere_are_refused(make_config: MakeConfig, tmp_path: Path) -> None:
    folder = pretrain(make_config(**{"budget.steps": 6, "checkpointing.keep_every": 3}))
    for path in (folder / "model.safetensors", *folder.glob("checkpoints/step-*.safetensors")):
        whole = path.read_bytes()
        header = 8 + int.from_bytes(whole[:8], "little")
        places = [0, 7, 8, *range(9, header, 97), *range(header, len(whole), 977), len(whole) - 1]
        for place in places:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            # A blank of the header may become another, and the names that nobody asks for: what is read is then what was written.
            if place < header and (found := _read_or_none(path)) is not None:
                path.write_bytes(whole)
                assert all(bool((found[name] == tensor).all()) for name, tensor in read_weights(path).items()), place
                continue
            with pytest.raises(UserError, match=path.name):
                read_weights(path)
            path.write_bytes(whole[:place])
            with pytest.raises(UserError, match=path.name):
                read_weights(path)
        path.write_bytes(whole)
        assert read_weights(path)


def _read_or_none(path: Path) -> dict[str, object] | None:
    try:
        return dict(read_weights(path))
    except UserError:
        return None


def test_the_best_weights_of_a_finetuning_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, checkpoint = write_task(tmp_path / "task", "classification"), write_checkpoint(tmp_path / "model")
    config = make_finetuning(tmp_path, task, checkpoint)
    expected = numbers(finetune(make_finetuning(tmp_path, task, checkpoint, **{"paths.runs": str(tmp_path / "whole")})))
    with monkeypatch.context() as patch:
        patch.setattr("bertlab.training.finetune._take_best", _killed)
        with pytest.raises(Killed):
            finetune(config)
    folder = only_run(config.paths.runs)
    (best,) = folder.glob("checkpoints/best-*.safetensors")
    for harm in (lambda: flip(best, best.stat().st_size - 5), best.unlink):
        harm()
        with pytest.raises(UserError, match=r"best weights of this run are damaged or gone .*: delete .*/checkpoints to train it anew"):
            finetune(config)
    shutil.rmtree(folder / "checkpoints")
    assert numbers(finetune(config)) == expected
    flip(folder / "model.safetensors", (folder / "model.safetensors").stat().st_size - 5)
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        load_finetuned(RunFolder(folder))


def _killed(*_: object) -> None:
    raise Killed


# Token stores


@pytest.fixture
def own_store(make_config: MakeConfig, tmp_path: Path) -> tuple[PretrainConfig, TokenStore]:
    """A configuration with a store that may be damaged."""
    config = make_config(**{"paths.cache": str(tmp_path / "cache"), "budget.steps": 6})
    return config, stored(config)


def stored(config: PretrainConfig) -> TokenStore:
    return prepare(config.corpus, config.tokenizer, config.paths, workers=1, progress=False, say=lambda line: None)


@pytest.mark.parametrize("name", FILES)
def test_a_store_with_a_changed_byte_or_without_a_file_is_not_trained_on(name: str, own_store: tuple[PretrainConfig, TokenStore]) -> None:
    config, store = own_store
    path = store.folder / name
    whole = path.read_bytes()
    for place in (0, len(whole) // 2, len(whole) - 1):
        flip(path, place)
        with pytest.raises(UserError, match=rf"{name} is not what was written to it: delete the folder and run `bertlab prepare` again"):
            pretrain(config)
        path.write_bytes(whole)
    path.write_bytes(whole[:-1])
    with pytest.raises(UserError, match=rf"{name} is damaged"):
        pretrain(config)
    path.unlink()
    with pytest.raises(UserError, match=f"lacks {name}"):
        pretrain(config)
    assert not Path(config.paths.runs).exists()
    shutil.rmtree(store.folder)  # what the sentence says
    assert stored(config).fingerprint == store.fingerprint


def test_a_store_is_read_through_once_and_again_when_it_was_touched(
    own_store: tuple[PretrainConfig, TokenStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = own_store
    read: list[str] = []
    file_hash = stores.file_hash

    def noted(path: Path) -> str:
        read.append(path.name)
        return file_hash(path)

    monkeypatch.setattr(stores, "file_hash", noted)
    stored(config)
    assert read == []
    path = store.folder / "tokens.bin"
    before = path.stat()
    flip(path, 10)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a copy does that keeps the times
    with pytest.raises(UserError, match=r"tokens\.bin is not what was written"):
        stored(config)
    assert read == ["tokens.bin"]
    flip(path, 10)
    assert stored(config).fingerprint == store.fingerprint
    assert sorted(read) == sorted(["tokens.bin", *FILES])


def test_a_manifest_with_a_changed_byte_or_a_cut_end_is_refused(own_store: tuple[PretrainConfig, TokenStore]) -> None:
    config, store = own_store
    path = store.folder / MANIFEST
    whole = path.read_bytes()
    for place in range(len(whole)):
        flip(path, place)
        with pytest.raises(UserError, match=r"manifest\.json (is damaged|is not what was written|has format)"):
            read_manifest(store.folder)
        path.write_bytes(whole[:place])
        if place < len(whole) - 1:  # the last line break says nothing
            with pytest.raises(UserError, match=r"manifest\.json is damaged"):
                read_manifest(store.folder)
        path.write_bytes(whole)
    flip(path, whole.index(b"<u2"))
    with pytest.raises(UserError, match=r"manifest\.json is not what was written to it: delete the folder and run `bertlab prepare` again"):
        pretrain(config)
    path.unlink()
    with pytest.raises(UserError, match=r"is no token store, it has no manifest\.json"):
        pretrain(config)
    assert not Path(config.paths.runs).exists()


def renamed(values: dict, key: str) -> None:
    values[f"{key}s"] = values.pop(key)


SINCE_HASHES = (HASH, "reports")  # what a manifest from before there was a hash lacks
CHANGES: list[Callable[[dict], object]] = [
    lambda manifest: manifest.update(documents=manifest["documents"] - 1),
    lambda manifest: manifest.update(sentences=manifest["sentences"] - 1),
    lambda manifest: manifest.update(tokens=10**12),
    lambda manifest: manifest.update(token_type="<u4"),
    lambda manifest: manifest.update(token_type="<u9"),
    lambda manifest: manifest.update(token_type=">u2"),
    lambda manifest: manifest.update(token_type=["<u2"]),
    lambda manifest: manifest["sources"][0].update(end_document=3),
    lambda manifest: manifest["files"].pop("tokens.bin"),
    lambda manifest: manifest.pop("made_from"),
    lambda manifest: manifest["files"]["tokens.bin"].update(bytes=10**12),
    lambda manifest: manifest["files"].update(more=manifest["files"]["tokens.bin"]),
    lambda manifest: manifest.update(unknown_tokens=None),
    lambda manifest: manifest.update(made_from=[]),
    lambda manifest: manifest["sources"][0].update(more=1),
    lambda manifest: manifest["sources"].append(5),
    lambda manifest: manifest["report"]["counts"].update(odd=None),
    lambda manifest: manifest["report"]["examples"].update(odd=None),
    lambda manifest: renamed(manifest, "repeated_documents"),
    lambda manifest: renamed(manifest, "report"),
    lambda manifest: renamed(manifest["report"], "counts"),
    lambda manifest: renamed(manifest["files"]["tokens.bin"], "blake2b"),
    lambda manifest: renamed(manifest["sources"][0], "name"),
]


@pytest.mark.parametrize("hashed", ["whole", "hashed anew", "from before there was a hash"])
def test_every_number_of_a_manifest_counts(hashed: str, own_store: tuple[PretrainConfig, TokenStore]) -> None:
    """Also where somebody has put the hash right, as far as what is kept is concerned, and where there never was one."""
    config, store = own_store
    path = store.folder / MANIFEST
    whole = json.loads(path.read_text())
    assert whole.pop(HASH)
    if hashed == "from before there was a hash":
        whole = {key: value for key, value in whole.items() if key not in SINCE_HASHES}
    for change in CHANGES[:12] if hashed == "hashed anew" else CHANGES:
        manifest = json.loads(json.dumps(whole))
        change(manifest)
        if hashed == "hashed anew":
            write_manifest(store.folder, manifest)
        else:
            path.write_text(json.dumps(manifest | ({HASH: store.manifest[HASH]} if hashed == "whole" else {})))
        with pytest.raises(UserError, match=r"damaged|is not what was written|another"):
            stored(config)
    path.write_text("[]")
    with pytest.raises(UserError, match="damaged"):
        stored(config)


def test_a_store_from_before_manifests_had_a_hash_is_read(own_store: tuple[PretrainConfig, TokenStore]) -> None:
    config, store = own_store
    old = {key: value for key, value in store.manifest.items() if key not in SINCE_HASHES}
    for lacking in ("", "unknown_tokens"):
        (store.folder / MANIFEST).write_text(json.dumps({key: value for key, value in old.items() if key != lacking}))
        assert stored(config).fingerprint == store.fingerprint


@pytest.mark.parametrize(
    ("key", "value", "other"), [("tokenizer.vocab_size", 150, "vocabulary"), ("corpus.filter.duplicate_lines", True, "corpus")]
)
def test_another_store_in_its_place_is_refused(
    key: str, value: object, other: str, own_store: tuple[PretrainConfig, TokenStore], make_config: MakeConfig
) -> None:
    config, store = own_store
    another = stored(make_config(**{"paths.cache": config.paths.cache, key: value}))
    assert another.folder != store.folder
    shutil.rmtree(store.folder)
    shutil.copytree(another.folder, store.folder)
    with pytest.raises(UserError, match=rf"holds the token store of another {other}: delete the folder"):
        pretrain(config)
