"""What can be guessed of the probes without reading: baselines that see words or lengths only stay near chance, on real prose."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from probe_corpora import built, probe_task

from bertlab.data import builtin
from bertlab.data.documents import ReadingReport
from bertlab.tasks.probes.build import PROBES

pytestmark = pytest.mark.slow

MODULES = 700  # of Python's standard library, whose documentation is read
# Chance strays further than 3.5 standard errors once in two thousand times. The data are the same at every call, so a test that
# passes keeps passing; the bound says how much of a cue it would let through.
ERRORS = 3.5


@pytest.fixture(scope="module")
def cues() -> ModuleType:
    """benchmarks/probe_cues.py."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "probe_cues.py"
    spec = importlib.util.spec_from_file_location("probe_cues", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["probe_cues"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the builtin corpus, as JSON lines: reading all of it takes a minute."""
    path = tmp_path_factory.mktemp("documentation") / "corpus.jsonl"
    topics, library = builtin.groups()[:2]
    documents = itertools.chain.from_iterable(builtin.read_builtin(parts, ReadingReport()) for parts in (topics, library[:MODULES]))
    path.write_text("".join(json.dumps({"text": "\n\n".join(document.blocks)}) + "\n" for document in documents), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["documentation", "wikipedia"])
def corpus(request: pytest.FixtureRequest) -> tuple[str, Path]:
    if request.param == "documentation":
        return "jsonl", request.getfixturevalue("documentation")
    folder: Path = request.getfixturevalue("shared_data") / "wikipedia" / "AB"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}")
    return "wikiextractor", folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("kind", ["bigram_shift", "sentence_order", "continuation"])
def test_lengths_and_bags_of_words_stay_near_chance(cues: ModuleType, corpus: tuple[str, Path], cache: Path, kind: str) -> None:
    form, path = corpus
    task = probe_task(kind, path, train=2000, dev=1000, test=1000)
    task.probe.corpus.kind = form
    data = built(task, cache)
    scores = {score.baseline: score for score in cues.scores_of(kind, data)}
    reading = scores.pop("words in common with the context", None)
    order = scores.pop("bag of words, a bag for each sentence", None)
    assert len(scores) >= 2
    for score in scores.values():
        assert score.examples >= 200
        assert abs(score.value - score.chance) <= ERRORS / 1.96 * score.margin, score
    if reading:  # a sentence and the next one share words: that is no artefact, but a system must do better than counting them
        assert reading.value < 0.55
    if order:  # "also" and "it" stand in later sentences: the language's own marks of order, and faint ones
        assert order.value < 0.6


@pytest.mark.parametrize("kind", ["recurring_span", "truecasing"])
def test_what_is_guessed_by_place_and_length_is_little(cues: ModuleType, corpus: tuple[str, Path], cache: Path, kind: str) -> None:
    form, path = corpus
    task = probe_task(kind, path, train=2000, dev=1000, test=1000)
    task.probe.corpus.kind = form
    scores = {score.baseline: score.value for score in cues.scores_of(kind, built(task, cache))}
    lexical = scores.pop("the word's commonest tag", None)
    assert len(scores) >= 2
    assert max(scores.values()) < 0.15
    if lexical is not None:
        assert lexical < 0.85  # most capitals are a word's own: this is the floor for a system that reads the sentence


def test_the_baselines_find_a_cue_that_is_there(cues: ModuleType, documentation: Path, cache: Path) -> None:
    task = probe_task("bigram_shift", documentation, train=2000, dev=1000, test=1000)
    data = built(task, cache)
    for examples in data.splits.values():
        for example in examples:
            object.__setattr__(example, "text", example.text + (" indeed" if example.label else ""))
    assert max(score.value for score in cues.scores_of("bigram_shift", data)) > 0.95
    assert set(cues.SCORES) == {probe.kind for probe in PROBES.values()}
