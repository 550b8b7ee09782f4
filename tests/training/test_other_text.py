"""Evaluating on text that a run was not trained on: what counts as such, and that all of it is read."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_runs import MakeConfig

from bertlab.config import CorpusConfig, PretrainConfig
from bertlab.data.assembly import PretrainingData
from bertlab.data.fingerprints import share_text
from bertlab.data.prepare import prepare
from bertlab.data.schedule import plan_training
from bertlab.data.store import TokenStore
from bertlab.errors import UserError
from bertlab.objectives import objective_of
from bertlab.run_files.folder import RunFolder
from bertlab.training.evaluate import evaluate
from bertlab.training.other_text import other_text
from bertlab.training.pretrain import pretrain

TEXT = "Kola maru kola. Teni bado.\nMaru teni kola, bado maru.\n"


@pytest.fixture
def trained(make_config: MakeConfig) -> tuple[RunFolder, PretrainConfig]:
    config = make_config(**{"budget.steps": 2})
    run = RunFolder(pretrain(config))
    return run, run.read_config()


def on(config: PretrainConfig, **changes: object) -> PretrainConfig:
    """The configuration with another corpus."""
    return replace(config, corpus=replace(config.corpus, **changes))


def store_of(run: RunFolder, config: PretrainConfig) -> TokenStore:
    return prepare(config.corpus, replace(config.tokenizer, path=str(run.tokenizer)), config.paths, progress=False)


def other(run: RunFolder, config: PretrainConfig) -> bool:
    return other_text(run, config, store_of(run, config)) is not None


def write(folder: Path, *texts: str) -> str:
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
    return str(folder)


def without_stores(config: PretrainConfig, but: TokenStore) -> None:
    """Delete all stores of the cache but one."""
    for folder in but.folder.parent.iterdir():
        if folder.is_dir() and folder != but.folder:
            shutil.rmtree(folder)


# Ways of writing a document down: the end of its file's name, and the file's content.
WRITTEN: dict[str, Callable[[str], tuple[str, bytes]]] = {
    "compressed": lambda text: (".txt.gz", gzip.compress(text.encode())),
    "with a newline more": lambda text: (".txt", text.encode() + b"\n"),
    "converted": lambda text: (".jsonl", json.dumps({"text": text}).encode()),
}


def copy_of(corpus: Path, folder: Path, files: int) -> str:
    """The first files of a corpus, renamed."""
    folder.mkdir()
    for path in sorted(corpus.iterdir())[:files]:
        shutil.copy(path, folder / f"copy of {path.name}")
    return str(folder)


class TestWhatIsOtherText:
    def test_by_content_and_not_by_name(self, trained: tuple[RunFolder, PretrainConfig], corpus: Path, tmp_path: Path) -> None:
        run, config = trained
        assert not other(run, config)
        assert not other(run, on(config, strict=True))
        assert not other(run, on(config, path=copy_of(corpus, tmp_path / "copy", 20)))
        part = copy_of(corpus, tmp_path / "part", 2)
        assert not other(run, on(config, path=part))
        (tmp_path / "part" / "new.txt").write_text(TEXT)
        assert not other(run, on(config, path=part)), "two of its three files were trained on"
        assert not other(run, on(config, kind="sentences", path=part)), "another reader, the same files"
        new = write(tmp_path / "new", TEXT, TEXT * 2)
        assert other(run, on(config, path=new))
        mixture = CorpusConfig(
            kind="mixture", sources={"a": CorpusConfig(kind="text", path=new), "b": CorpusConfig(kind="text", path=part)}
        )
        assert not other(run, replace(config, corpus=mixture))

    def test_what_a_run_started_from_counts(
        self,
        trained: tuple[RunFolder, PretrainConfig],
        make_config: MakeConfig,
        corpus: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        first, config = trained
        texts = write(tmp_path / "texts", *(TEXT * (number + 1) for number in range(4)))
        changes = {"corpus.path": texts, "init": first.name, "tokenizer.path": str(first.tokenizer), "budget.steps": 2}
        further = RunFolder(pretrain(make_config(**changes)))
        assert not other(further, further.read_config())
        assert not other(further, config), "the run that it started from was trained on this"
        assert other(further, on(config, path=write(tmp_path / "new", TEXT * 9, TEXT * 8)))
        capsys.readouterr()
        shutil.rmtree(first.path)
        assert other(further, config)
        assert f"{further.name} started from {first.name}, which is no run here" in capsys.readouterr().err

    def test_by_its_fingerprint_where_the_text_is_gone(
        self, make_config: MakeConfig, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place = copy_of(corpus, tmp_path / "gone", 20)
        run = RunFolder(pretrain(make_config(**{"corpus.path": place, "budget.steps": 2})))
        config = run.read_config()
        shutil.rmtree(place)
        capsys.readouterr()
        assert not other(run, on(config, path=str(corpus)))
        assert capsys.readouterr().err == ""
        new = on(config, path=write(tmp_path / "new", TEXT, TEXT * 2))
        assert other(run, new)
        assert "is not here any more" not in capsys.readouterr().err, "its documents are known by its store"
        store = store_of(run, new)
        without_stores(config, but=store)
        assert other_text(run, new, store)
        assert "is not here any more" in capsys.readouterr().err
        run.result.unlink()
        assert other(run, new)
        run.identity.unlink()
        assert not other(run, new), "nothing says what it was trained on"

    def test_documents_count_however_they_are_written_down(
        self, trained: tuple[RunFolder, PretrainConfig], corpus: Path, tmp_path: Path
    ) -> None:
        run, config = trained
        files, own = sorted(corpus.iterdir()), store_of(run, config)
        _, held_out = own.split(config.corpus.held_out)
        for name, written in WRITTEN.items():
            for kind, chosen in (("trained", np.delete(np.arange(20), held_out)[:3]), ("held out", held_out)):
                folder = tmp_path / f"{name}, {kind}"
                folder.mkdir()
                for number in chosen:
                    end, content = written(files[number].read_text())
                    (folder / f"{number:02d}{end}").write_bytes(content)
                copy = on(config, kind="jsonl" if name == "converted" else "text", path=str(folder))
                assert set(store_of(run, copy).document_hashes) == set(own.document_hashes[chosen]), "otherwise nothing is tested"
                assert not share_text(config.corpus, copy.corpus, config.paths)
                assert other(run, copy) == (kind == "held out")
                if kind == "trained":
                    with pytest.raises(UserError, match=f"{run.name} was trained on 3 of the 3 documents of this corpus"):
                        evaluate(run.path, copy)

    def test_the_same_corpus_in_other_files_is_the_runs_own(
        self, trained: tuple[RunFolder, PretrainConfig], corpus: Path, tmp_path: Path
    ) -> None:
        run, config = trained
        (tmp_path / "packed").mkdir()
        for path in corpus.iterdir():
            (tmp_path / "packed" / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        packed = on(config, path=str(tmp_path / "packed"))
        assert not other(run, packed)
        assert evaluate(run.path, packed) == evaluate(run.path, config)

    def test_what_is_told_is_what_was_compared(self, trained: tuple[RunFolder, PretrainConfig], tmp_path: Path) -> None:
        run, config = trained
        new = on(config, path=write(tmp_path / "new", TEXT, TEXT * 2))
        store = store_of(run, new)
        assert other_text(run, new, store) == "no file and no whole document of this text was trained on"
        without_stores(config, but=store)
        told = other_text(run, new, store)
        assert told is not None
        assert told.startswith("no file of this text was trained on (whether its documents were is not known")

    def test_files_are_shared_or_not(self, tmp_path: Path, make_config: MakeConfig) -> None:
        paths = make_config().paths
        one, two = (CorpusConfig(kind="text", path=write(tmp_path / name, text)) for name, text in (("one", TEXT), ("two", TEXT * 2)))
        assert share_text(one, one, paths)
        assert not share_text(one, two, paths)
        assert not share_text(one, CorpusConfig(kind="builtin"), paths)
        (tmp_path / "two" / "again.txt").write_text(TEXT)
        assert share_text(one, two, paths)


def test_every_word_of_other_text_is_read_and_only_the_held_out_ones_of_its_own(
    make_config: MakeConfig, corpus: Path, tmp_path: Path
) -> None:
    config = make_config(**{"objective.kind": "ltr", "validation.sequences": 10**6})
    store, objective = prepare(config.corpus, config.tokenizer, config.paths, progress=False), objective_of(config)
    whole, held_out = (
        PretrainingData(
            store, config, plan_training(config), predict=objective.predict, pair=objective.pair, validation_alone=alone
        ).validation_batches(24)
        for alone in (True, False)
    )
    ordinary = set(store.vocabulary.ordinary.tolist())
    read = Counter(token for batch in whole for token in batch.tokens.tolist() if token in ordinary)
    assert read == Counter(token for token in store.tokens.tolist() if token in ordinary)
    assert 0 < sum(len(batch.tokens) for batch in held_out) < sum(len(batch.tokens) for batch in whole) / 2


def trained_on(config: PretrainConfig, store: TokenStore) -> set[int]:
    return set(store.document_hashes[store.split(config.corpus.held_out)[0]].tolist())


class TestHeldOut:
    """Documents that a run was trained on are never evaluated on as held out."""

    def test_a_larger_share_is_refused_and_a_smaller_one_lies_within(
        self, trained: tuple[RunFolder, PretrainConfig], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, config = trained
        with pytest.raises(UserError, match=r"corpus.held_out=0.5, documents .* would count .* so set corpus.held_out=0.2 or less"):
            evaluate(run.path, on(config, held_out=0.5))
        read: list[int] = []
        split = TokenStore.split

        def watched(store: TokenStore, held_out: float) -> tuple[np.ndarray, np.ndarray]:
            parts = split(store, held_out)
            read.extend(store.document_hashes[parts[1]].tolist())
            return parts

        monkeypatch.setattr(TokenStore, "split", watched)
        evaluate(run.path, on(config, held_out=0.1, strict=True))
        monkeypatch.undo()
        assert len(set(read)) == 2
        assert not set(read) & trained_on(config, store_of(run, config))

    def test_a_part_of_the_files_and_the_same_ones_with_others_are_refused(
        self, trained: tuple[RunFolder, PretrainConfig], corpus: Path, tmp_path: Path
    ) -> None:
        run, config = trained
        part, more = copy_of(corpus, tmp_path / "part", 6), copy_of(corpus, tmp_path / "more", 20)
        (tmp_path / "more" / "more.txt").write_text(TEXT)
        for path in (part, more):
            with pytest.raises(UserError, match=f"{run.name} was trained on files of this corpus, which has other files too"):
                evaluate(run.path, on(config, path=path))
        assert evaluate(run.path, on(config, kind="sentences")) == evaluate(run.path, config), "what is read is the same"

    def test_text_that_was_changed_since_is_warned_of(
        self, make_config: MakeConfig, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place = Path(copy_of(corpus, tmp_path / "place", 20))
        run = RunFolder(pretrain(make_config(**{"corpus.path": str(place), "budget.steps": 1})))
        (place / "more.txt").write_text(TEXT)
        evaluate(run.path, run.read_config())
        assert "was trained on files of this corpus, which is not what it was then" in capsys.readouterr().err

    def test_what_a_run_starts_from_was_not_trained_on_its_held_out_documents(
        self,
        trained: tuple[RunFolder, PretrainConfig],
        make_config: MakeConfig,
        corpus: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        first, _ = trained
        begun = {"init": first.name, "tokenizer.path": str(first.tokenizer), "budget.steps": 1}
        with pytest.raises(UserError, match=f"{first.name} was trained on would count as held out: it held out 0.2"):
            pretrain(make_config(**begun, **{"corpus.held_out": 0.4}))
        capsys.readouterr()
        pretrain(make_config(**begun, **{"corpus.held_out": 0.1}))
        assert "held-out figures" not in capsys.readouterr().err
        part = copy_of(corpus, tmp_path / "part", 8)
        further = RunFolder(pretrain(make_config(**begun, **{"corpus.path": part})))
        assert "trained on there. The held-out figures of this run may be too good" in capsys.readouterr().err
        evaluate(further.path, further.read_config())
        assert f"warning: {first.name} was trained on files of this corpus" in capsys.readouterr().err


class TestEvaluate:
    def test_all_documents_of_other_text_and_the_held_out_ones_of_its_own(
        self, trained: tuple[RunFolder, PretrainConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run, config = trained
        capsys.readouterr()
        own = evaluate(run.path, config)
        out = capsys.readouterr().out
        assert "held out, length 24" in out
        assert "this text" not in out
        new = on(config, path=write(tmp_path / "new", *(TEXT * (number + 1) for number in range(5))))
        figures = evaluate(run.path, new)
        out = capsys.readouterr().out
        assert "no file and no whole document of this text was trained on: all its documents count as held out (5)" in out
        assert "this text, length 24" in out
        assert "word frequencies of this text alone" in out
        assert "nsp_accuracy" in figures[24]
        assert figures != own

    def test_how_much_of_the_text_is_read_is_told(
        self, trained: tuple[RunFolder, PretrainConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run, config = trained
        new = on(config, path=write(tmp_path / "new", *(TEXT * (number + 5) for number in range(6))))
        store = store_of(run, new)
        there = sum(-(-int(size) // 21) for size in np.diff(store.document_offsets))  # [CLS], [SEP] and [SEP] have 3 of the 24 places
        capsys.readouterr()
        evaluate(run.path, new)
        assert f"this text, length 24 (16 of {there:,} sequences, as validation.sequences sets): perplexity" in capsys.readouterr().out
        evaluate(run.path, replace(new, validation=replace(config.validation, sequences=there)))
        assert "this text, length 24: perplexity" in capsys.readouterr().out

    def test_next_sentences_are_left_out_of_a_single_document(
        self, trained: tuple[RunFolder, PretrainConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run, config = trained
        single = on(config, path=write(tmp_path / "single", TEXT * 20))
        capsys.readouterr()
        figures = evaluate(run.path, single)[24]
        said = capsys.readouterr()
        assert "nsp_accuracy" not in figures
        assert figures["perplexity"] > 1
        assert "Next-sentence accuracy is left out" in said.err
        assert "next sentence" not in said.out
        beside = on(config, path=write(tmp_path / "beside", TEXT * 20, "Kola.\n"))  # a word or two are no pair of segments
        usable = [size for size in store_of(run, beside).document_offsets[1:] - store_of(run, beside).document_offsets[:-1] if size >= 2]
        assert ("nsp_accuracy" in evaluate(run.path, beside)[24]) == (len(usable) == 2)
