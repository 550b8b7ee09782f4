"""Entities beside seqeval's and beside a scorer that goes through words as conlleval does, counting chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertlab.task_config import TaskConfig
from bertlab.tasks.entities import as_bio, entities_of, is_entity_tag
from bertlab.tasks.examples import Prediction
from bertlab.tasks.metrics import metrics_of

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-creative-work", "I-creative-work"]
SENTENCES = st.lists(
    st.integers(1, 9).flatmap(lambda n: st.tuples(*[st.lists(st.sampled_from(TAGS), min_size=n, max_size=n)] * 2)), min_size=1, max_size=5
)


def predictions_of(sentences: Sequence[tuple[list[str], list[str]]]) -> list[Prediction]:
    return [Prediction(str(number), predicted, gold) for number, (gold, predicted) in enumerate(sentences)]


def slow_scores(sentences: Sequence[tuple[list[str], list[str]]]) -> tuple[float, float, float]:
    """Precision, recall and F1 by one pass over all words with a state, as the scorer of the shared tasks works."""
    found = there = right = 0
    agree = False
    before = {"gold": ("O", ""), "said": ("O", "")}
    for gold, said in [pair for sentence in sentences for pair in [*zip(*sentence, strict=True), ("O", "O")]]:
        now = {name: (tag[0], tag[2:]) for name, tag in (("gold", gold), ("said", said))}
        ends = {name: _ends(before[name], now[name]) for name in now}
        begins = {name: _begins(before[name], now[name]) for name in now}
        if agree:
            if ends["gold"] and ends["said"]:
                right, agree = right + 1, False
            elif ends["gold"] != ends["said"] or now["gold"][1] != now["said"][1]:
                agree = False
        if begins["gold"] and begins["said"] and now["gold"][1] == now["said"][1]:
            agree = True
        there, found = there + begins["gold"], found + begins["said"]
        before = now
    precision, recall = right / found if found else 0.0, right / there if there else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _ends(before: tuple[str, str], now: tuple[str, str]) -> bool:
    if before[0] == "O":
        return False
    return now[0] in ("B", "O") or before[1] != now[1]


def _begins(before: tuple[str, str], now: tuple[str, str]) -> bool:
    if now[0] == "O":
        return False
    return now[0] == "B" or before[0] == "O" or before[1] != now[1]


@pytest.mark.filterwarnings("ignore")  # seqeval warns where nothing is found
@given(SENTENCES)
def test_scores_are_those_of_conlleval_and_of_seqeval(sentences: list[tuple[list[str], list[str]]]) -> None:
    from seqeval import metrics as seqeval

    metrics = metrics_of(TaskConfig(kind="tagging"), predictions_of(sentences), TAGS)
    gold, said = [pair[0] for pair in sentences], [pair[1] for pair in sentences]
    assert (metrics["precision"], metrics["recall"], metrics["f1"]) == pytest.approx(slow_scores(sentences), abs=1e-12)
    assert metrics["precision"] == pytest.approx(seqeval.precision_score(gold, said), abs=1e-12)
    assert metrics["recall"] == pytest.approx(seqeval.recall_score(gold, said), abs=1e-12)
    assert metrics["f1"] == pytest.approx(seqeval.f1_score(gold, said), abs=1e-12)
    assert metrics["accuracy"] == pytest.approx(seqeval.accuracy_score(gold, said), abs=1e-12)


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        (["I-PER", "I-PER", "O"], [(0, 2, "PER")]),  # IOB1, and I- at the start of a sentence
        (["I-PER", "B-PER", "I-PER"], [(0, 1, "PER"), (1, 3, "PER")]),  # IOB1: B- parts neighbours
        (["B-PER", "I-LOC", "I-LOC"], [(0, 1, "PER"), (1, 3, "LOC")]),  # I- after another type begins one
        (["O", "I-LOC"], [(1, 2, "LOC")]),
        (["B-creative-work", "I-creative-work"], [(0, 2, "creative-work")]),  # the type has a hyphen of its own
        ([], []),
    ],
    ids=str,
)
def test_where_entities_begin_and_end(tags: list[str], entities: list[tuple[int, int, str]]) -> None:
    assert entities_of(tags) == entities


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_bio_keeps_the_entities_and_is_its_own_bio(tags: list[str]) -> None:
    bio = as_bio(tags)
    assert entities_of(bio) == entities_of(tags)
    assert as_bio(bio) == bio
    assert sum(tag.startswith("B-") for tag in bio) == len(entities_of(tags))


def test_what_is_an_entity_tag() -> None:
    assert all(map(is_entity_tag, TAGS))
    assert not any(map(is_entity_tag, ["", "X", "B", "B-", "S-PER", "PER", "b-PER", "OO"]))
