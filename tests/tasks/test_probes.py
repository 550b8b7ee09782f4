"""The probes' examples: what they are made of, that they are balanced, reproducible, and of documents of their own split."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf
from probe_corpora import Documents, built, document_of, invented, probe_task, sentences_in, write_corpus

from bertlab.config import PathsConfig, TokenizerConfig
from bertlab.data.prepare import prepare
from bertlab.errors import UserError
from bertlab.resources import conf_folder
from bertlab.task_config import TaskConfig
from bertlab.tasks.examples import TaskData
from bertlab.tasks.load import available_splits, load_task
from bertlab.tasks.metric_names import known_metrics
from bertlab.tasks.probes.build import PROBES

KINDS = list(PROBES)
SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def corpus() -> Documents:
    return invented(60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, corpus: Documents) -> Path:
    folder = tmp_path_factory.mktemp("probes")
    write_corpus(folder / "corpus.jsonl", corpus)
    return folder


@pytest.fixture(scope="module")
def probes(folder: Path) -> dict[str, TaskData]:
    return {kind: built(probe_task(kind, folder / "corpus.jsonl"), folder / "cache") for kind in KINDS}


@pytest.fixture(scope="module")
def place_of(corpus: Documents) -> dict[str, tuple[int, int, int]]:
    """Sentence → its document, paragraph and place there."""
    return {s: (d, p, n) for d, document in enumerate(corpus) for p, paragraph in enumerate(document) for n, s in enumerate(paragraph)}


@pytest.mark.parametrize("kind", KINDS)
class TestEveryProbe:
    def test_splits_have_what_was_asked_for(self, probes: dict[str, TaskData], kind: str) -> None:
        assert {name: len(examples) for name, examples in probes[kind].splits.items()} == {"train": 120, "dev": 40, "test": 40}
        assert probes[kind].left_out == {}
        assert probes[kind].kind == PROBES[kind].kind

    def test_every_outcome_occurs_equally_often(self, probes: dict[str, TaskData], kind: str) -> None:
        if PROBES[kind].outcomes > 1:
            for examples in probes[kind].splits.values():
                counts = Counter(example.label for example in examples)
                assert counts == dict.fromkeys(range(PROBES[kind].outcomes), len(examples) // PROBES[kind].outcomes)

    def test_splits_share_no_document_and_ids_are_distinct(self, probes: dict[str, TaskData], kind: str) -> None:
        splits = probes[kind].splits
        documents = [{document_of(example) for example in splits[name]} for name in SPLITS]
        assert sum(map(len, documents)) == len(set.union(*documents))
        ids = [example.id for examples in splits.values() for example in examples]
        assert len(set(ids)) == len(ids)

    def test_no_sentence_of_the_corpus_is_shown_in_two_splits(self, probes: dict[str, TaskData], corpus: Documents, kind: str) -> None:
        def words(text: str) -> tuple[str, ...]:
            return tuple(sorted(re.findall(r"\w+", text.lower())))

        known = {words(sentence) for document in corpus for paragraph in document for sentence in paragraph}
        shown = []
        for name in SPLITS:
            texts = [text for example in probes[kind].splits[name] for text in sentences_in(example)]
            parts = {words(part) for text in texts for part in re.split(r"(?<=\.) ", text)}
            shown.append(parts & known)
        assert all(shown) or kind == "recurring_span"
        assert sum(map(len, shown)) == len(set.union(*shown))

    def test_documents_give_about_evenly(self, probes: dict[str, TaskData], kind: str) -> None:
        counts = Counter(document_of(example) for example in probes[kind].splits["train"])
        assert len(counts) >= 20  # of 36, which is about what train gets of 60

    def test_the_cache_and_a_new_build_give_the_same_bytes(
        self, probes: dict[str, TaskData], folder: Path, tmp_path: Path, kind: str
    ) -> None:
        task = probe_task(kind, folder / "corpus.jsonl")
        assert built(task, folder / "cache") == probes[kind]
        again = built(task, tmp_path)
        assert again == probes[kind]
        (first,), (second,) = (list(cache.glob(f"probes/{kind}-*.jsonl")) for cache in (folder / "cache", tmp_path))
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes()

    def test_its_configuration_is_complete_and_names_metrics_that_exist(self, kind: str) -> None:
        lines = (conf_folder() / "task" / f"{kind}.yaml").read_text(encoding="utf-8").splitlines()
        assert lines[0] == f"# bertlab finetune task={kind} checkpoint=RUN"
        task = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TaskConfig), yaml.safe_load("\n".join(lines))))
        assert isinstance(task, TaskConfig)
        assert (task.name, task.format, task.probe.kind, task.kind) == (kind, "probe", kind, PROBES[kind].kind)
        assert set(task.metrics) <= set(known_metrics(task))
        assert tuple(task.labels) == PROBES[kind].labels


class TestBigramShift:
    def test_half_of_the_sentences_are_the_corpus_s_and_half_are_one_exchange_away(
        self, probes: dict[str, TaskData], place_of: dict[str, tuple[int, int, int]]
    ) -> None:
        by_words = {tuple(sorted(sentence.split())): sentence for sentence in place_of}
        for example in probes["bigram_shift"].splits["train"]:
            original = by_words[tuple(sorted(example.text.split()))].split()
            differ = [place for place, (a, b) in enumerate(zip(original, example.text.split(), strict=True)) if a != b]
            assert len(differ) == (2 if example.label else 0)
            if example.label:
                first, second = differ
                assert second == first + 1 > 1  # neighbours, not the first word
                assert all(original[place].isalpha() for place in differ)  # no punctuation moves
                assert original[first].lower() != original[second].lower()

    def test_outcomes_are_as_frequent_where_an_odd_number_is_asked_for(self, folder: Path) -> None:
        data = built(probe_task("bigram_shift", folder / "corpus.jsonl", train=121, dev=41, test=41), folder / "cache")
        for name, number in (("train", 60), ("dev", 20), ("test", 20)):
            assert Counter(example.label for example in data.splits[name]) == {0: number, 1: number}

    def test_labels(self, probes: dict[str, TaskData]) -> None:
        assert probes["bigram_shift"].labels == ["original", "shifted"]


class TestSentenceOrder:
    def test_pairs_are_neighbours_in_a_paragraph_and_the_label_is_right(
        self, probes: dict[str, TaskData], place_of: dict[str, tuple[int, int, int]]
    ) -> None:
        for example in probes["sentence_order"].splits["train"]:
            first, second = place_of[example.text], place_of[example.pair]
            if example.label:
                first, second = second, first
            assert first[:2] == second[:2]
            assert second[2] == first[2] + 1
            assert first[2] > 0  # the first of a paragraph tells itself


class TestContinuation:
    def test_the_right_one_is_next_and_the_others_are_of_the_document_and_not_near(
        self, probes: dict[str, TaskData], corpus: Documents, place_of: dict[str, tuple[int, int, int]]
    ) -> None:
        number = {s: n for document in corpus for n, s in enumerate(s for paragraph in document for s in paragraph)}
        for example in probes["continuation"].splits["train"]:
            assert len(set(example.choices)) == 4
            document, paragraph, place = place_of[example.text]
            assert place_of[example.choices[example.label]] == (document, paragraph, place + 1)
            for wrong in set(example.choices) - {example.choices[example.label]}:
                assert place_of[wrong][0] == document
                assert place_of[wrong][2] > 0  # none opens its paragraph, as the right one cannot
                assert abs(number[wrong] - number[example.text]) > 1
                assert abs(number[wrong] - number[example.choices[example.label]]) > 1

    def test_no_sentence_is_the_right_one_twice(self, probes: dict[str, TaskData]) -> None:
        for examples in probes["continuation"].splits.values():
            right = [example.choices[example.label] for example in examples]
            assert len(set(right)) == len(right)

    def test_groups_that_are_used_whole_have_each_sentence_right_once(self, folder: Path) -> None:
        wanted = {"train": 4000, "dev": 4000, "test": 4000}  # more than there is: everything is used
        data = built(probe_task("continuation", folder / "corpus.jsonl", **wanted), folder / "cache")
        assert set(data.left_out) == {f"{name} examples that the corpus has no text for" for name in SPLITS}
        for name, examples in data.splits.items():
            assert wanted[name] - len(examples) == data.left_out[f"{name} examples that the corpus has no text for"]
            whole = Counter(frozenset(example.choices) for example in examples)
            right = {(frozenset(example.choices), example.choices[example.label]) for example in examples}
            assert len(right) == len(examples)
            assert sum(count < 4 for count in whole.values()) <= 3  # as many are dropped to make the places even


class TestRecurringSpan:
    def test_answers_are_all_occurrences_and_fill_the_blank(
        self, probes: dict[str, TaskData], place_of: dict[str, tuple[int, int, int]]
    ) -> None:
        lowered = {sentence.lower() for sentence in place_of}
        for example in probes["recurring_span"].splits["train"]:
            assert example.answers
            text = example.answers[0].text
            for answer in example.answers:
                assert example.context[answer.start : answer.start + len(answer.text)] == answer.text
                assert answer.text.lower() == text.lower()
            found = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", example.context, re.IGNORECASE)]
            assert found == [answer.start for answer in example.answers]
            assert example.question.count("_") == 1
            assert example.question.replace("_", text).lower() in lowered
            assert text.lower() not in re.findall(r"\w+", example.question.lower())


class TestTruecasing:
    def test_tags_restore_the_sentence(self, probes: dict[str, TaskData], place_of: dict[str, tuple[int, int, int]]) -> None:
        original = {" ".join(re.findall(r"\w+|[^\w\s]", sentence)).lower(): sentence for sentence in place_of}
        for example in probes["truecasing"].splits["train"]:
            cased = re.findall(r"\w+|[^\w\s]", original[" ".join(example.before + example.words)])
            assert len(example.before) == 1
            assert len(example.words) == len(example.tags) == len(cased) - 1
            for word, tag, right in zip(example.words, example.tags, cased[1:], strict=True):
                assert word == word.lower()
                restored = [word, word.capitalize(), word.upper()]
                if tag < 3:
                    assert restored[tag] == right
                else:
                    assert right not in restored
            assert any(example.tags)


class TestIndependence:
    def test_neither_processes_nor_order_nor_names_matter(
        self, probes: dict[str, TaskData], folder: Path, corpus: Documents, tmp_path: Path
    ) -> None:
        (tmp_path / "parted").mkdir()
        for number, start in enumerate(range(0, 60, 15)):
            write_corpus(tmp_path / "parted" / f"{number}.jsonl", corpus[::-1][start : start + 15])
        data = built(probe_task("bigram_shift", tmp_path / "parted"), tmp_path / "cache", workers=2)
        assert data.splits == probes["bigram_shift"].splits

    def test_the_seed_matters(self, probes: dict[str, TaskData], folder: Path) -> None:
        other = built(probe_task("bigram_shift", folder / "corpus.jsonl", seed=1), folder / "cache")
        assert other.fingerprint != probes["bigram_shift"].fingerprint

    def test_a_document_more_moves_no_example_within_a_document(
        self, probes: dict[str, TaskData], corpus: Documents, tmp_path: Path
    ) -> None:
        write_corpus(tmp_path / "more.jsonl", [*corpus, *invented(1, seed=9)])
        before = {example.id: example for example in probes["truecasing"].splits["train"]}
        after = built(probe_task("truecasing", tmp_path / "more.jsonl"), tmp_path / "cache").splits["train"]
        common = [example for example in after if example.id in before]
        assert len(common) > 60
        assert all(before[example.id] == example for example in common)

    def test_two_processes_at_once_make_one_file(self, folder: Path, probes: dict[str, TaskData], tmp_path: Path) -> None:
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path; from probe_corpora import built, probe_task\n"
            "print(built(probe_task('truecasing', Path(sys.argv[2])), Path(sys.argv[3])).fingerprint)"
        )
        words = [sys.executable, "-c", code, str(Path(__file__).parent), str(folder / "corpus.jsonl"), str(tmp_path)]
        processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        printed = {process.communicate()[0].strip() for process in processes}
        assert [process.returncode for process in processes] == [0, 0]
        assert printed == {probes["truecasing"].fingerprint}
        assert sorted(path.suffix for path in (tmp_path / "probes").iterdir() if path.suffix != ".lock") == [".jsonl", ".jsonl"]


class TestHeldOut:
    """A corpus of 60 documents, some paragraphs of which stand in several, and a store that holds a third of them out."""

    SHARE = 0.33

    @pytest.fixture(scope="class")
    def repeating(self, tmp_path_factory: pytest.TempPathFactory, corpus: Documents) -> tuple[Path, Documents]:
        documents = [[*document, corpus[(number + 1) % 60][0]] if number % 3 == 0 else document for number, document in enumerate(corpus)]
        folder = tmp_path_factory.mktemp("held_out")
        write_corpus(folder / "corpus.jsonl", documents)
        return folder, documents

    @pytest.mark.parametrize("duplicate_lines", [False, True])
    def test_dev_and_test_show_nothing_that_the_store_trains_on(self, repeating: tuple[Path, Documents], duplicate_lines: bool) -> None:
        folder, _ = repeating
        task = probe_task(
            "bigram_shift", folder / "corpus.jsonl", duplicate_lines=duplicate_lines, held_out=self.SHARE, documents="held_out", train=4000
        )
        data = built(task, folder / "cache")
        assert "holds out" in data.notes[0]
        assert "may have" in data.notes[0]
        store = prepare(
            task.probe.corpus, task.probe.tokenizer, PathsConfig(cache=str(folder / "cache")), workers=1, progress=False, say=lambda _: None
        )
        trained, held = store.split(self.SHARE)

        def sentences(numbers: list[int]) -> set[tuple[int, ...]]:
            """Their tokens, sorted: an exchange of two words does not matter."""
            found = set()
            for number in numbers:
                for place in range(store.document_sentences[number], store.document_sentences[number + 1]):
                    found.add(tuple(sorted(store.tokens[store.sentence_offsets[place] : store.sentence_offsets[place + 1]].tolist())))
            return found

        seen, unseen = sentences(list(trained)), sentences(list(held))
        assert len(held) >= 18

        def tokens(text: str) -> tuple[int, ...]:
            return tuple(sorted(store.vocabulary.tokenizer.encode(text, add_special_tokens=False).ids))

        evaluated = [tokens(example.text) for name in ("dev", "test") for example in data.splits[name]]
        assert len(evaluated) == 80
        assert set(evaluated) <= unseen
        # With the filter these lose their first paragraph to the document before them, and are held out all the same.
        assert set(evaluated) & sentences([number for number in held if number % 3 == 1])
        repeated = seen & unseen  # without the filter, paragraphs that stand in a document of either side
        assert duplicate_lines <= (not repeated)
        assert len(set(evaluated) & seen) <= len(repeated)
        trained_on = {tokens(example.text) for example in data.splits["train"]}
        if not duplicate_lines:
            assert trained_on <= seen
        # With it, a held-out document that lost a paragraph to another held-out one is not recognised, and serves for training.
        assert len(trained_on & seen) > 0.8 * len(trained_on)

    def test_all_splits_are_held_out_where_there_is_enough(self, repeating: tuple[Path, Documents]) -> None:
        folder, _ = repeating
        task = probe_task("bigram_shift", folder / "corpus.jsonl", held_out=self.SHARE, documents="auto")
        data = built(task, folder / "cache")
        assert data.notes == ["The examples are of documents that pre-training holds out."]
        assert {name: len(examples) for name, examples in data.splits.items()} == {"train": 120, "dev": 40, "test": 40}

    def test_auto_takes_any_document_where_too_few_are_held_out_and_says_so(self, repeating: tuple[Path, Documents]) -> None:
        folder, _ = repeating
        task = probe_task("bigram_shift", folder / "corpus.jsonl", held_out=0.001, dev=400, test=400)
        data = built(replace(task, probe=replace(task.probe, documents="auto")), folder / "cache")
        assert "may have seen" in data.notes[0]
        assert "corpus.held_out=0.001" in data.notes[0]
        assert len(data.splits["dev"]) == 400

    def test_a_given_vocabulary_is_as_good_as_a_trained_one(self, repeating: tuple[Path, Documents], tmp_path: Path) -> None:
        folder, _ = repeating
        task = probe_task("bigram_shift", folder / "corpus.jsonl", held_out=self.SHARE, documents="auto")
        store = prepare(
            task.probe.corpus, task.probe.tokenizer, PathsConfig(cache=str(folder / "cache")), workers=1, progress=False, say=lambda _: None
        )
        given = replace(task, probe=replace(task.probe, tokenizer=TokenizerConfig(path=str(store.folder))))
        assert built(given, tmp_path).splits == built(task, folder / "cache").splits


class TestCopies:
    def test_copies_that_differ_in_case_and_spacing_are_one_document(self, corpus: Documents, tmp_path: Path) -> None:
        copies = [[[sentence.upper().replace(" ", "  ") for sentence in paragraph] for paragraph in document] for document in corpus]
        write_corpus(tmp_path / "corpus.jsonl", [*corpus, *copies])
        twice = built(probe_task("sentence_order", tmp_path / "corpus.jsonl"), tmp_path / "cache")
        once = built(probe_task("sentence_order", write_corpus(tmp_path / "once.jsonl", corpus)), tmp_path / "cache")
        for name in SPLITS:
            assert {document_of(example) for example in twice.splits[name]} == {document_of(example) for example in once.splits[name]}


class TestRefusals:
    def refusal(self, task: TaskConfig, cache: Path) -> str:
        with pytest.raises(UserError) as caught:
            built(task, cache)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_too_little_text(self, tmp_path: Path) -> None:
        path = write_corpus(tmp_path / "corpus.jsonl", invented(2))
        said = self.refusal(probe_task("continuation", path, train=8000, dev=4000, test=4000), tmp_path / "cache")
        assert "continuation" in said
        assert str(path) in said
        assert not list((tmp_path / "cache").glob("probes/continuation-*.jsonl"))

    def test_too_few_held_out(self, tmp_path: Path) -> None:
        path = write_corpus(tmp_path / "corpus.jsonl", invented(30, paragraphs=4))
        said = self.refusal(probe_task("continuation", path, documents="held_out", dev=4000, test=4000), tmp_path / "cache")
        assert "corpus.held_out=0.01" in said
        assert "documents=any" in said

    def test_unknown_words_and_kinds_that_do_not_fit(self, folder: Path) -> None:
        task = probe_task("bigram_shift", folder / "corpus.jsonl")
        assert "bigram_shift" in self.refusal(replace(task, probe=replace(task.probe, kind="bigram_shfit")), folder)
        assert "held_out" in self.refusal(replace(task, probe=replace(task.probe, documents="heldout")), folder)
        assert "task.kind=span" in self.refusal(replace(task, kind="span"), folder)
        assert "task.probe.dev=1" in self.refusal(replace(task, probe=replace(task.probe, dev=1)), folder)

    def test_no_corpus(self, tmp_path: Path) -> None:
        assert "nowhere" in self.refusal(probe_task("bigram_shift", tmp_path / "nowhere"), tmp_path / "cache")


def test_a_probe_is_loaded_as_other_tasks_are(folder: Path, probes: dict[str, TaskData]) -> None:
    task = probe_task("truecasing", folder / "corpus.jsonl")
    paths = PathsConfig(cache=str(folder / "cache"))
    assert available_splits(task, paths) == list(SPLITS)
    assert load_task(task, paths, ["dev"]).splits == {"dev": probes["truecasing"].splits["dev"]}


def test_the_file_in_the_cache_is_json_lines(folder: Path, probes: dict[str, TaskData]) -> None:
    (path,) = folder.glob("cache/probes/sentence_order-*.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["split"] for row in rows[1:]] == ["train"] * 120 + ["dev"] * 40 + ["test"] * 40
