"""What can be guessed of the probes without reading: baselines that see words but not their order, or lengths alone.

    python benchmarks/probe_cues.py                                               # on the builtin corpus
    python benchmarks/probe_cues.py --kind wikiextractor --path DIR               # on another one

Each line is a baseline, trained on the probe's train split and scored on dev and test together, with what chance gives and how far
from it chance would come once in twenty times. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import hstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bertlab.config import CorpusConfig, FilterConfig, PathsConfig
from bertlab.task_config import ProbeConfig, TaskConfig
from bertlab.tasks.examples import ChoiceExample, SpanExample, TaggingExample, TaskData, TextExample
from bertlab.tasks.probes import build_probe
from bertlab.tasks.probes.build import PROBES

Features = Callable[[Sequence[Any]], Any]


@dataclass
class Score:
    """What a baseline reaches."""

    probe: str
    baseline: str
    metric: str
    value: float
    chance: float | None  # None: no figure says what guessing gives
    examples: int

    @property
    def margin(self) -> float:
        """Chance stays within this of its expectation nineteen times in twenty."""
        return 1.96 * math.sqrt(self.chance * (1 - self.chance) / self.examples) if self.chance else math.nan


def evaluated(data: TaskData) -> list[Any]:
    return data.splits["dev"] + data.splits["test"]


# ---- sentences and pairs


def text_lengths(examples: Sequence[TextExample]) -> Any:
    def row(text: str) -> list[float]:
        words = text.split()
        return [len(text), len(words), len(words[0]), len(words[-1]), sum(map(str.isupper, text)), text.count(",")]

    rows = [row(one.text) + ([*row(one.pair), len(one.text) - len(one.pair)] if one.pair else []) for one in examples]
    return StandardScaler().fit_transform(np.array(rows, float))


class BagOfWords:
    """Which words there are, of text and pair together or apart."""

    def __init__(self, train: Sequence[TextExample], apart: bool) -> None:
        self.apart = apart
        self._counts = CountVectorizer(binary=True, min_df=2, token_pattern=r"\w+|[^\w\s]")
        self._counts.fit([f"{one.text} {one.pair or ''}" for one in train])

    def __call__(self, examples: Sequence[TextExample]) -> Any:
        """A row an example."""
        if self.apart:
            return hstack([self._counts.transform([one.text for one in examples]), self._counts.transform([one.pair for one in examples])])
        return self._counts.transform([f"{one.text} {one.pair or ''}" for one in examples])


def classified(data: TaskData, features: Features) -> float:
    """Accuracy of a logistic regression."""
    train, test = data.splits["train"], evaluated(data)
    model = LogisticRegression(C=0.1, max_iter=2000).fit(features(train), [one.label for one in train])
    return float(model.score(features(test), [one.label for one in test]))


def classification_scores(name: str, data: TaskData) -> list[Score]:
    count = len(evaluated(data))
    train = data.splits["train"]
    values = {"lengths and capitals": classified(data, text_lengths), "bag of words": classified(data, BagOfWords(train, apart=False))}
    if train[0].pair is not None:
        values["bag of words, a bag for each sentence"] = classified(data, BagOfWords(train, apart=True))
    return [Score(name, baseline, "accuracy", value, 0.5, count) for baseline, value in values.items()]


# ---- choices


def chosen(examples: Sequence[ChoiceExample], score: Callable[[ChoiceExample, str], float]) -> float:
    """Accuracy of taking the choice with the highest score, ties by chance."""
    generator = random.Random(0)
    right = 0
    for one in examples:
        scores = [(score(one, choice), generator.random()) for choice in one.choices]
        right += scores.index(max(scores)) == one.label
    return right / len(examples)


def words(text: str) -> set[str]:
    return {word.strip(".,;:!?()\"'").casefold() for word in text.split()}


def overlap(one: ChoiceExample, choice: str) -> float:
    common = words(one.text) & words(choice)
    return len(common) / math.sqrt(len(words(choice)))


def choice_lengths(examples: Sequence[ChoiceExample]) -> Any:
    rows = []
    for one in examples:
        lengths = np.array([len(choice) for choice in one.choices], float)
        spread = (lengths - lengths.mean()) / (lengths.std() + 1e-9)
        rows += [[*row, abs(row[0])] for row in np.stack([spread, lengths / 100, (lengths - len(one.text)) / 100], axis=1)]
    return np.array(rows)


def chosen_by_regression(data: TaskData, features: Features) -> float:
    """Accuracy of taking the choice that a logistic regression of right against wrong ones thinks the likeliest."""
    train, test = data.splits["train"], evaluated(data)
    targets = np.concatenate([np.arange(len(one.choices)) == one.label for one in train])
    model = LogisticRegression(C=0.1, max_iter=2000).fit(features(train), targets)
    scores = model.decision_function(features(test)).reshape(len(test), -1)
    scores = scores + 1e-9 * np.random.default_rng(0).random(scores.shape)
    return float((scores.argmax(1) == [one.label for one in test]).mean())


def choice_scores(name: str, data: TaskData) -> list[Score]:
    test = evaluated(data)
    bag = CountVectorizer(binary=True, min_df=2, token_pattern=r"\w+|[^\w\s]")
    bag.fit([choice for one in data.splits["train"] for choice in one.choices])
    values = {
        "always the longest": chosen(test, lambda _, choice: len(choice)),
        "lengths": chosen_by_regression(data, choice_lengths),
        "bag of words of the choice": chosen_by_regression(
            data, lambda examples: bag.transform([choice for one in examples for choice in one.choices])
        ),
        "words in common with the context": chosen(test, overlap),
    }
    return [Score(name, baseline, "accuracy", value, 0.25, len(test)) for baseline, value in values.items()]


# ---- spans


def spans_of(context: str) -> list[str]:
    """Runs of one to three words without punctuation between them."""
    found = []
    for run in "".join(character if character.isalnum() or character in "-'’ " else "\n" for character in context).split("\n"):
        parts = run.split()
        found += [" ".join(parts[a:b]) for a in range(len(parts)) for b in range(a + 1, min(a + 3, len(parts)) + 1)]
    return found


def exact(examples: Sequence[SpanExample], answer: Callable[[SpanExample], str]) -> float:
    matched = [answer(one).casefold() in {right.text.casefold() for right in one.answers or ()} for one in examples]
    return sum(matched) / len(matched)


def rarest_recurring(frequency: Counter[str]) -> Callable[[SpanExample], str]:
    """The longest span among those that the context repeats most often, for how rare they are in the training contexts."""

    def answer(one: SpanExample) -> str:
        counts = Counter(span.casefold() for span in spans_of(one.context))
        return max(counts, key=lambda span: (counts[span] - 1) * math.log(1e6 / (1 + frequency[span])) + 0.01 * len(span))

    return answer


def span_scores(name: str, data: TaskData) -> list[Score]:
    test = evaluated(data)
    frequency = Counter(span.casefold() for one in data.splits["train"] for span in spans_of(one.context))
    generator = random.Random(0)

    def rarest_word(one: SpanExample) -> str:
        return min((span for span in spans_of(one.context) if " " not in span), key=lambda span: frequency[span.casefold()])

    def capitalised(one: SpanExample) -> str:
        inner = [word for word, before in zip(one.context.split()[1:], one.context.split(), strict=False) if before[-1] not in ".!?"]
        return next((word.strip(".,;:") for word in inner if word[0].isupper()), "")

    values = {
        "a random run of one to three words": exact(test, lambda one: generator.choice(spans_of(one.context))),
        "the rarest word": exact(test, rarest_word),
        "the first capitalised word inside a sentence": exact(test, capitalised),
        "the run of words that recurs most in the context": exact(test, rarest_recurring(frequency)),
    }
    return [Score(name, baseline, "exact match", value, None, len(test)) for baseline, value in values.items()]


# ---- tags

Key = Callable[[TaggingExample, int], Any]  # what is looked at of a word at a place


def tagged_f1(examples: Sequence[TaggingExample], guess: Callable[[TaggingExample, int], int]) -> float:
    """F1 over the words that are, or are said to be, other than O."""
    right = said = there = 0
    for one in examples:
        for place, tag in enumerate(one.tags or ()):
            found = guess(one, place)
            said += found > 0
            there += tag > 0
            right += tag == found > 0
    return 2 * right / max(1, said + there)


def majorities(examples: Sequence[TaggingExample], key: Key) -> dict[Any, int]:
    counts: defaultdict[Any, Counter[int]] = defaultdict(Counter)
    for one in examples:
        for place, tag in enumerate(one.tags or ()):
            counts[key(one, place)][tag] += 1
    return {word: found.most_common(1)[0][0] for word, found in counts.items()}


def tagging_scores(name: str, data: TaskData) -> list[Score]:
    test = evaluated(data)
    keys: dict[str, Key] = {
        "length of the word and place in the sentence": lambda one, place: (len(one.words[place]), min(place, 5)),
        "place after punctuation": lambda one, place: one.words[place - 1] if place and not one.words[place - 1][0].isalnum() else "",
        "the word's commonest tag": lambda one, place: one.words[place],
    }
    scores = []
    for baseline, key in keys.items():
        known = majorities(data.splits["train"], key)

        def guess(one: TaggingExample, place: int, key: Key = key, known: dict[Any, int] = known) -> int:
            return known.get(key(one, place), 0)

        value = tagged_f1(test, guess)
        scores.append(Score(name, baseline, "F1 of capitals", value, None, len(test)))
    return scores


SCORES = {"classification": classification_scores, "choice": choice_scores, "span": span_scores, "tagging": tagging_scores}


def scores_of(name: str, data: TaskData) -> list[Score]:
    return SCORES[data.kind](name, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="builtin", help="of the corpus")
    parser.add_argument("--path", help="of the corpus")
    parser.add_argument("--probes", nargs="*", default=list(PROBES), choices=list(PROBES))
    parser.add_argument("--cache", help="folder for what is made (default: the user's cache)")
    arguments = parser.parse_args()
    corpus = CorpusConfig(kind=arguments.kind, path=arguments.path, filter=FilterConfig(duplicate_lines=arguments.kind == "builtin"))
    print("| probe | examples | baseline | metric | value | chance |\n|---|---|---|---|---|---|")
    for name in arguments.probes:
        probe = ProbeConfig(kind=name, corpus=corpus, documents="any")
        data = build_probe(TaskConfig(name=name, kind=PROBES[name].kind, format="probe", probe=probe), PathsConfig(cache=arguments.cache))
        for score in scores_of(name, data):
            chance = "" if score.chance is None else f"{100 * score.chance:.0f} ± {100 * score.margin:.1f}"
            cells = (score.probe, f"{score.examples:,}", score.baseline, score.metric, f"{100 * score.value:.1f}", chance)
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
