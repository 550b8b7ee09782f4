"""The parts of probes one by one: samples, shares, groups, spans, tags, against slow computations."""

from __future__ import annotations

import random
import re
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe_corpora import invented

from bertlab.tasks.probes import continuation, documents, recurring_span, splits, stretches, truecasing
from bertlab.tasks.probes.bigram_shift import exchangeable
from bertlab.tasks.probes.continuation import APART, CHOICES, Sentence, grouped
from bertlab.tasks.probes.documents import ProbeDocument, Sample, probe_document
from bertlab.tasks.probes.recurring_span import PASSAGE_WORDS, passages, recurring
from bertlab.tasks.probes.splits import Supply, evenly, taken
from bertlab.tasks.probes.stretches import Source, Stretch, is_usable, sources
from bertlab.tasks.probes.truecasing import begins_anew, tag


def document(priority: int, characters: int) -> ProbeDocument:
    return ProbeDocument(priority, priority, False, [["x" * characters]])


class TestSample:
    @given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 900), st.randoms(use_true_random=False))
    def test_it_is_the_smallest_priorities_in_any_order_and_parted_in_any_way(
        self, lengths: list[int], wanted: int, random_: random.Random
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(documents, "LEAST_DOCUMENTS", 3)
            everything = [document(priority, length) for priority, length in enumerate(lengths)]
            expected: list[ProbeDocument] = []
            while len(expected) < len(everything) and (len(expected) < 3 or sum(one.characters for one in expected) < wanted):
                expected.append(everything[len(expected)])
            shuffled = random_.sample(everything, len(everything))
            cut = random_.randint(0, len(shuffled))
            whole = Sample(wanted)
            for part in (shuffled[:cut], shuffled[cut:]):
                sample = Sample(wanted, whole.bound)
                for one in part:
                    sample.add(one)
                for one in sample.documents():
                    whole.add(one)
            assert whole.documents() == expected

    def test_copies_count_once_and_the_same_one_is_kept_in_any_order(self) -> None:
        copies = [probe_document([[text]], False, 7) for text in ("One text here.", "one  TEXT here.")]
        assert copies[0]
        assert copies[1]
        assert copies[0].priority == copies[1].priority
        kept = []
        for order in (copies, copies[::-1]):
            sample = Sample(1000)
            for one in order:
                if one:
                    sample.add(one)
            kept.append(sample.documents())
        assert len(kept[0]) == 1
        assert kept[0] == kept[1]
        bounded = Sample(1000, copies[0].priority)  # of no higher priority than this: it belongs to the sample itself
        bounded.add(copies[0])
        assert bounded.documents() == [copies[0]]

    def test_of_a_long_document_a_part_is_taken_and_of_a_short_one_all(self) -> None:
        sentences = [f"sentence number {number:05d} of the document" for number in range(20000)]
        taken = probe_document([sentences[:9999], sentences[9999:]], False, 7)
        assert taken
        assert abs(taken.characters - documents.MOST_CHARACTERS) < 2 * len(sentences[0])
        flat = [sentence for block in taken.blocks for sentence in block]
        first = sentences.index(flat[0])
        assert flat == sentences[first : first + len(flat)]
        for key in range(8):  # wherever the part begins, there is as much of it
            part = probe_document([sentences], False, key)
            assert part
            assert abs(part.characters - documents.MOST_CHARACTERS) < 2 * len(sentences[0])
        short = probe_document([sentences[:2], sentences[2:5]], True, 7)
        assert short
        assert short.blocks == [sentences[:2], sentences[2:5]]

    def test_lines_of_a_corpus_are_a_paragraph_as_far_as_they_follow_one_another(self) -> None:
        lines = [["one"], ["two"], ["three"], ["four"], ["five"]]
        assert documents._joined(lines, [0, 1, 3, 4]) == [["one", "two"], ["four", "five"]]
        assert lines[0] == ["one"]

    def test_no_text_is_no_document(self) -> None:
        assert probe_document([[" "], []], False, 7) is None


def supplies(counts: list[int], held_out: bool = False) -> list[Supply]:
    return [Supply(number, held_out, [(place, None) for place in range(count)]) for number, count in enumerate(counts)]


class TestShares:
    @given(st.lists(st.integers(0, 30), max_size=20), st.integers(0, 200))
    def test_documents_give_as_evenly_as_they_can(self, counts: list[int], wanted: int) -> None:
        shares = [share for _, share in taken(supplies(counts), wanted)]
        slow = [0] * len(counts)  # one more from each in turn
        while sum(slow) < min(wanted, sum(counts)):
            least = min(slow[number] for number in range(len(counts)) if slow[number] < counts[number])
            slow[next(n for n in range(len(counts)) if slow[n] == least and slow[n] < counts[n])] += 1
        assert sum(shares) == sum(slow)
        assert sorted(shares) == sorted(slow)
        assert all(share <= count for share, count in zip(shares, counts, strict=True))

    @given(st.lists(st.integers(1, 30), min_size=3, max_size=60))
    def test_every_document_goes_to_one_split_and_splits_are_filled_alike(self, counts: list[int]) -> None:
        wanted = {"train": 100, "dev": 20, "test": 20}
        parted = evenly(supplies(counts), wanted)
        assert sorted(one.document for found in parted.values() for one in found) == list(range(len(counts)))
        shares = {name: sum(len(one.candidates) for one in found) / wanted[name] for name, found in parted.items()}
        assert max(shares.values()) - min(shares.values()) <= max(counts) / 20  # no more than the last document makes

    def test_held_out_documents_serve_dev_and_test_first(self) -> None:
        wanted = {"train": 100, "dev": 20, "test": 20}
        few = supplies([10, 10, 10], held_out=True) + supplies([50, 60])
        parted = splits.by_held_out(few, wanted)
        assert all(one.held_out for name in ("dev", "test") for one in parted[name])
        assert [one.held_out for one in parted["train"]] == [False, False]
        for count in (10, 7):  # more than enough, and just enough
            many = supplies([20] * count, held_out=True) + supplies([50, 60])
            assert all(one.held_out for found in splits.by_held_out(many, wanted).values() for one in found)


class TestStretches:
    def test_sentences_that_were_met_before_and_unusable_ones_break_a_stretch(self) -> None:
        one, two, three, four = (f"This is the sentence of {name} alone." for name in ("one", "two", "three", "four"))
        first = ProbeDocument(0, 0, False, [[one, two, "Too short.", three], [four]])
        second = ProbeDocument(1, 1, False, [[two.upper(), "And now something else entirely is said."], ["Short."]])
        found = list(sources([first, second]))
        assert [(s.first, s.sentences, s.opens) for s in found[0].stretches] == [
            (0, (one, two), True),
            (3, (three,), False),
            (4, (four,), True),
        ]
        assert [(s.first, s.opens) for s in found[1].stretches] == [(1, False)]
        assert list(found[0].sentences) == [(0, one), (1, two), (3, three), (4, four)]

    @pytest.mark.parametrize(
        ("sentence", "usable"),
        [
            ("Five words make a sentence.", True),
            ("Four words do not.", False),
            (" ".join(["word"] * 41), False),
            ("1 2 3 4 5 6 7 8 9", False),
            ("x" * 500 + " a b c d e", False),
            (" ".join(["word"] * 40), True),
            ("x" * 80 + (" " + "x" * 79) * 4, True),
            ("a b c d e f g", True),  # spaces are not counted
            ("ab cd ef g 123", True),
            ("ab cd ef 1 123", False),
        ],
    )
    def test_usable(self, sentence: str, usable: bool) -> None:
        assert is_usable(sentence) is usable

    def test_common_words_are_the_most_frequent_of_all_documents(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = [ProbeDocument(n, n, False, [[text]]) for n, text in enumerate(("The cat and the dog sat.", "The cat ran to a hen."))]
        for most, expected in ((2, {"the", "cat"}), (3, {"the", "cat", "a"})):  # of equally frequent ones the first in the alphabet
            monkeypatch.setattr(stretches, "COMMON", most)
            assert [source.common for source in sources(made)] == [expected] * 2


class TestBigramShift:
    @given(st.lists(st.sampled_from(["The", "the", "cat", "sat,", "don't", "3", "on", "mat."]), min_size=1, max_size=12))
    def test_pairs_are_two_different_words_of_letters_after_the_first(self, words: list[str]) -> None:
        plain = {"The", "the", "cat", "don't", "on"}
        expected = [
            place
            for place in range(len(words) - 1)
            if place > 0 and {words[place], words[place + 1]} <= plain and words[place].lower() != words[place + 1].lower()
        ]
        assert exchangeable(words) == expected


class TestContinuation:
    @settings(max_examples=50)
    @given(st.lists(st.tuples(st.integers(0, 100), st.integers(5, 60)), max_size=40, unique_by=lambda pair: pair[0]))
    def test_groups_are_apart_disjoint_and_of_similar_length(self, made: list[tuple[int, int]]) -> None:
        groups = grouped([Sentence(number, "x" * length, "") for number, length in made])
        numbers = [one.number for group in groups for one in group]
        assert len(set(numbers)) == len(numbers)
        for group in groups:
            assert len(group) == CHOICES
            assert all(abs(a.number - b.number) >= APART for a, b in combinations(group, 2))

    def test_where_nothing_is_near_groups_are_neighbours_in_length(self) -> None:
        sentences = [Sentence(10 * (number * 7 % 16), "x" * (number + 1), "") for number in range(16)]
        assert [[len(one.text) for one in group] for group in grouped(sentences)] == [[a + b for b in range(4)] for a in (1, 5, 9, 13)]

    def test_of_every_group_one_choice_comes_first_then_the_second_ones(self) -> None:
        (blocks,) = invented(1)
        (source,) = sources([ProbeDocument(0, 0, False, blocks)])
        found = [frozenset(one.number for one in (choice.right, *choice.wrong)) for _, choice in continuation.candidates(source, 7)]
        groups = len(set(found))
        assert groups > 3
        assert len(found) == CHOICES * groups
        for turn in range(CHOICES):
            assert len(set(found[turn * groups : (turn + 1) * groups])) == groups


class TestRecurringSpan:
    def slow(self, sentences: list[str], common: frozenset[str]) -> set[frozenset[tuple[int, int, int]]]:
        """All runs of up to six words, counted one by one, as sets of their places."""
        runs: dict[str, set[tuple[int, int, int]]] = {}
        for number, sentence in enumerate(sentences):
            words = list(re.finditer(r"\w+", sentence))
            for a, b in combinations(range(len(words) + 1), 2):
                text = sentence[words[a].start() : words[b - 1].end()]
                ends = {words[a][0].lower(), words[b - 1][0].lower()}
                if b - a <= 6 and len(text) >= 3 and re.fullmatch(r"\w+( \w+)*", text) and not ends & common:
                    runs.setdefault(text.lower(), set()).add((number, words[a].start(), words[b - 1].end()))
        several = {text: found for text, found in runs.items() if len({place[0] for place in found}) > 1}
        return {
            frozenset(found)
            for text, found in several.items()
            if not any(text != other and text in other and len(there) == len(found) for other, there in several.items())
        }

    @settings(max_examples=60)
    @given(st.lists(st.lists(st.sampled_from(["Ann", "ann", "Bob,", "the", "of", "Cat", "dog"]), min_size=2, max_size=8), max_size=4))
    def test_spans_are_those_of_a_slow_search(self, made: list[list[str]]) -> None:
        sentences = [" ".join(words) + "." for words in made]
        common = frozenset({"the", "of"})
        found = {frozenset((one.sentence, one.start, one.end) for one in places) for places in recurring(sentences, common)}
        assert found == self.slow(sentences, common)

    def test_a_span_has_six_words_at_most(self) -> None:
        seven = "one two three four five six seven"
        found = recurring([f"{seven} here", f"so {seven}"], frozenset())
        assert {" ".join(seven.split()[first : first + 6]) for first in (0, 1)} == {
            f"{seven} here"[place.start : place.end] for places in found for place in places if place.sentence == 0
        }

    def test_what_is_asked_for_stands_nowhere_else_in_the_question(self) -> None:
        sentences = ("Mirabel saw that Mirabel was gone.", "Then came Mirabel with a lamp.")
        source = Source(ProbeDocument(0, 0, False, [list(sentences)]), [Stretch(0, sentences, False)], frozenset())
        for key in range(20):
            ((_, question),) = recurring_span.candidates(source, key)
            assert question.asked.sentence == 1
            assert [one.sentence for one in question.others] == [0, 0]

    def test_passages_part_the_document_and_are_not_long(self) -> None:
        (blocks,) = invented(1)
        (source,) = sources([ProbeDocument(0, 0, False, blocks)])
        found = list(passages(source))
        assert [sentence for _, passage in found for sentence in passage] == [sentence for _, sentence in source.sentences]
        assert all(len(" ".join(passage).split()) <= PASSAGE_WORDS for _, passage in found)
        assert isinstance(source, Source)


class TestTruecasing:
    @pytest.mark.parametrize(
        ("word", "expected"),
        [("word", 0), ("Word", 1), ("I", 1), ("WORD", 2), ("U.S.", 2), ("iPhone", 3), ("McCoy", 3), ("1990s", 0), ("3D", 1), (",", 0),
         ("日本", 0)],
    )  # fmt: skip
    def test_tags(self, word: str, expected: int) -> None:
        assert tag(word) == expected

    def test_sentences_have_some_capitals_after_the_first_word_and_not_many(self) -> None:
        sentences = (
            "Nobody here knows any of it.",
            "We met Ann and Bob there.",
            "Ann Bob Cid Dora Eve left.",
            "Ann Bob Cid Dora now left.",
        )
        source = Source(ProbeDocument(0, 0, False, [list(sentences)]), [Stretch(0, sentences, True)], frozenset())
        assert sorted(number for number, _ in truecasing.candidates(source, 7)) == [1, 3]

    @pytest.mark.parametrize(
        ("sentence", "expected"),
        [
            ("We saw Ann in Rome .", False),
            ("He said : Come here .", True),
            ('He said , " Come here . "', True),
            ('" Come here , Ann .', False),
            ("( See Rome , too . )", False),
        ],
    )
    def test_words_after_a_new_beginning(self, sentence: str, expected: bool) -> None:
        assert begins_anew(sentence.split()) is expected
