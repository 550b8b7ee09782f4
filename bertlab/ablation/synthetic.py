"""Tables with a known truth, to check what the statistics promise, and to plan: what would three seeds and 2,000 examples show?

The model of one run's prediction of one example: right if

    skill + pretraining + fine-tuning + example + talent + own > 0,

where skill belongs to the row, pretraining to a pretraining seed, fine-tuning to a fine-tuning of it, example (how easy it is) to the
example for all rows, talent to the row and the example, and own to this prediction alone; all but the skill are normal. So the truth over
all seeds and examples is known by one-dimensional integration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bertlab.ablation.bootstrap import generator
from bertlab.ablation.example_sums import ExampleSums, f1, mean
from bertlab.ablation.runs import Run
from bertlab.arrays import Floats

_NODES = 64


@dataclass(frozen=True)
class SyntheticColumn:
    """What is known of a column: how many runs and examples, and how much each kind of luck varies (standard deviations)."""

    skills: tuple[float, ...]  # one a row; 0 is accuracy .5
    pretrainings: int
    finetunings: int = 1  # of each pretraining
    examples: int = 300
    pretraining: float = 0.1
    finetuning: float = 0.05
    example: float = 1.0
    talent: float = 0.5
    own: float = 0.7
    shared: float = 0.0  # the correlation, between rows, of the luck of the same seed
    positives: float = 0.4  # of the examples, for F1
    metric: str = "accuracy"  # or f1
    paired: bool = True  # whether rows have the same seeds' numbers
    collapse: tuple[float, ...] = ()  # of each row the probability that a fine-tuning predicts at random; none: never

    def truth(self) -> Floats:
        """The expected metric of each row over all seeds and examples, (rows,)."""
        places, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        luck = np.hypot(self.pretraining, self.finetuning) * places
        spread = np.sqrt(self.example**2 + self.talent**2 + self.own**2)
        right = special.ndtr((np.array(self.skills)[:, None] + luck) / spread)  # (rows, nodes)
        values = right if self.metric == "accuracy" else self._f1(right)
        chance = 0.5 if self.metric == "accuracy" else float(self._f1(np.array([0.5]))[0])
        collapse = np.array(self.collapse or [0.0] * len(self.skills))
        expected: Floats = (1 - collapse) * (values @ weights / weights.sum()) + collapse * chance
        return expected

    def _f1(self, right: Floats) -> Floats:
        there = self.positives
        found: Floats = 2 * there * right / (there * right + there + (1 - there) * (1 - right))
        return found


def synthetic_column(column: SyntheticColumn, *purpose: int | str) -> list[list[Run]]:
    """The runs of each row, drawn with the random numbers of a purpose."""
    random = generator(*purpose)
    gold = random.random(column.examples) < column.positives
    easiness = column.example * random.standard_normal(column.examples)
    ids = tuple(map(str, range(column.examples)))
    common = _luck(random, column)  # of the seeds, for all rows
    rows = []
    for number, skill in enumerate(column.skills):
        talent = column.talent * random.standard_normal(column.examples)
        luck = np.sqrt(column.shared) * common + np.sqrt(1 - column.shared) * _luck(random, column)
        runs = []
        for place, tuning in np.ndindex(luck.shape):
            own = column.own * random.standard_normal(column.examples)
            right = skill + luck[place, tuning] + easiness + talent + own > 0
            if random.random() < (column.collapse[number] if column.collapse else 0.0):
                right = random.random(column.examples) < 0.5
            sums = _sums(column, ids, gold, right)
            first = 0 if column.paired else number * column.pretrainings
            runs.append(Run(first + place, tuning if column.finetunings > 1 else first + place, sums.value(), sums=sums))
        rows.append(runs)
    return rows


def _luck(random: np.random.Generator, column: SyntheticColumn) -> Floats:
    """(pretrainings, finetunings)"""
    pretraining = column.pretraining * random.standard_normal((column.pretrainings, 1))
    found: Floats = pretraining + column.finetuning * random.standard_normal((column.pretrainings, column.finetunings))
    return found


def _sums(column: SyntheticColumn, ids: tuple[str, ...], gold: NDArray[np.bool_], right: NDArray[np.bool_]) -> ExampleSums:
    if column.metric == "accuracy":
        return ExampleSums(mean, ids, right[:, None] / column.examples)
    predicted = gold == right
    return ExampleSums(f1, ids, np.stack([gold & predicted, gold, predicted], axis=1).astype(np.float64))
