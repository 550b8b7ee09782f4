"""What the intervals, tests and verdicts of ablation tables promise, against synthetic tables whose truth is known.

    python benchmarks/coverage.py [--repetitions N] [--part intervals|collapses|tables|power|stability|cost]

Prints Markdown tables; docs/statistics.md holds what they were. With 400 repetitions (the default) a share near 95% is known to ± 2.2
points and one near 50% to ± 5; coverage is measured on half as many again, with a true difference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
from plain_bootstrap import hierarchical_bootstrap, percentile_interval
from scipy import special, stats

from bertlab.ablation.bootstrap import generator, metrics_on, resample_counts
from bertlab.ablation.comparison import Comparison, Resamples, compare
from bertlab.ablation.power import seeds_for
from bertlab.ablation.runs import Run
from bertlab.ablation.stability import compare_deviations, deviation
from bertlab.ablation.synthetic import SyntheticColumn, synthetic_column
from bertlab.ablation.table import UNRESOLVED, Table, analyse
from bertlab.arrays import Floats

DRAWS = 500  # a simulation needs fewer than a table: what they miss averages out over repetitions

REGIMES = {
    "seeds vary most": SyntheticColumn((0.5, 0.5), 3, examples=600, pretraining=0.2, finetuning=0.05),
    "both alike": SyntheticColumn((0.5, 0.5), 3, examples=400, pretraining=0.09, finetuning=0.04),
    "examples vary most": SyntheticColumn((0.5, 0.5), 3, examples=150, pretraining=0.03, finetuning=0.02),
    "both alike, F1": SyntheticColumn((0.5, 0.5), 3, examples=400, pretraining=0.09, finetuning=0.04, metric="f1"),
    "both alike, 3 fine-tunings each": SyntheticColumn((0.5, 0.5), 3, 3, examples=400, pretraining=0.09, finetuning=0.09),
    "both alike, shared luck": SyntheticColumn((0.5, 0.5), 3, examples=400, pretraining=0.09, finetuning=0.04, shared=0.6),
}

REGIMES_UNPAIRED = list(REGIMES)[:3]  # those also tried with seeds that do not pair


@cache
def counts_of(examples: int) -> Floats:
    """The resamples of all repetitions: their data differ, so these need not."""
    return resample_counts(generator("coverage"), DRAWS, examples)


def resamples_of(rows: list[list[Run]], examples: int) -> Resamples:
    sums = [run.sums for row in rows for run in row if run.sums is not None]
    return Resamples(dict(zip(sums, metrics_on(sums, counts_of(examples)).T, strict=True)))


def satterthwaite(comparison: Comparison) -> float:
    """Half of the width of the usual shortcut: one Student's t for the sum of the variances."""
    seeds = comparison.units[0]
    parts = np.array(comparison.seed_variances) / seeds
    variance = parts.sum() + comparison.example_variance
    degrees = variance**2 / np.sum(parts**2 / (seeds - 1)) if parts.any() else 1e9
    return float(special.stdtrit(min(degrees, 1e9), 0.975) * np.sqrt(variance))


def plain(rows: list[list[Run]], resamples: Resamples, paired: bool) -> tuple[float, float]:
    """The percentile interval of the plain hierarchical bootstrap."""
    means = []
    for number, row in enumerate(rows):
        values = np.stack([resamples.values[run.sums] for run in row if run.sums], axis=1)  # (draws, runs)
        groups = [run.pretraining_seed or 0 for run in row]
        means.append(hierarchical_bootstrap(values, groups, "plain", 0 if paired else number))
    return percentile_interval(means[0] - means[1])


def intervals(column: SyntheticColumn, repetitions: int) -> Floats:
    """Shares of: intervals that hold the truth (ours, Satterthwaite's, plain), p values at most 5% (ours, permutation); and our width."""
    truth = column.truth()
    found = []
    for repetition in range(repetitions):
        rows = synthetic_column(column, "coverage", repetition)
        resamples = resamples_of(rows, column.examples)
        comparison = compare(rows[0], rows[1], resamples, "coverage", repetition)
        assert comparison is not None
        assert comparison.low is not None
        assert comparison.high is not None
        assert comparison.permutation is not None
        wanted = truth[0] - truth[1]
        low, high = plain(rows, resamples, column.paired)
        found.append(
            (
                comparison.low <= wanted <= comparison.high,
                abs(comparison.difference - wanted) <= satterthwaite(comparison),
                low <= wanted <= high,
                comparison.p_value <= 0.05,
                comparison.permutation.p_value <= 0.05,
                comparison.high - comparison.low,
            )
        )
    return np.array(found, dtype=np.float64).mean(axis=0)


def print_intervals(repetitions: int) -> None:
    heads = ["regime", "seeds", "paired", "covers: bertlab", "Satterthwaite", "plain bootstrap", "false positives: t", "permutation"]
    print_row([*heads, "power: t", "permutation", "true difference"], header=True)
    for name, regime in REGIMES.items():
        for seeds in (2, 3, 5, 10):
            for paired in (True, False) if name in REGIMES_UNPAIRED else (True,):
                column = replace(regime, pretrainings=seeds, paired=paired, shared=regime.shared)
                null = intervals(column, repetitions)
                apart = replace(column, skills=(0.75, 0.5))
                effect = intervals(apart, repetitions // 2)
                truth = apart.truth()
                covered = [percent((2 * null[number] + effect[number]) / 3) for number in range(3)]
                tests = [percent(value) for value in (null[3], null[4], effect[3], effect[4])]
                print_row([name, str(seeds), "yes" if paired else "no", *covered, *tests, f"{100 * (truth[0] - truth[1]):.1f} points"])


def print_collapses(repetitions: int) -> None:
    heads = ["fine-tunings that collapse", "in the baseline", "seeds", "covers: bertlab", "plain bootstrap", "no collapse seen"]
    print_row(heads, header=True)
    for collapse in ((0.1, 0.0), (0.1, 0.1), (0.3, 0.0)):
        for seeds in (3, 5, 10):
            column = SyntheticColumn((0.8, 0.8), seeds, examples=400, collapse=collapse)
            found = intervals(column, repetitions)
            unseen = (1 - collapse[0]) ** seeds * (1 - collapse[1]) ** seeds
            print_row([*map(percent, collapse), str(seeds), percent(found[0]), percent(found[2]), percent(unseen)])


def print_tables(repetitions: int) -> None:
    print_row(["seeds", "tables without any difference with a verdict", "with a verdict before Holm's correction"], header=True)
    for seeds in (2, 3, 5, 10):
        false, uncorrected = 0, 0
        for repetition in range(repetitions):
            cells = {}
            for name, metric in (("a", "accuracy"), ("b", "f1"), ("c", "accuracy")):
                column = SyntheticColumn((0.5,) * 4, seeds, examples=200, metric=metric)
                for number, runs in enumerate(synthetic_column(column, "tables", repetition, name)):
                    cells[f"row {number}", name] = runs
            table = Table("null", [f"row {number}" for number in range(4)], ["a", "b", "c"], "row 0", cells)
            differences = analyse(table, draws=DRAWS).differences.values()
            false += any(one.verdict != UNRESOLVED for one in differences)
            uncorrected += any(one.comparison is not None and one.comparison.p_value <= 0.05 for one in differences)
        print_row([str(seeds), percent(false / repetitions), percent(uncorrected / repetitions)])


def print_power(repetitions: int) -> None:
    print_row(["true difference", "seeds that the formula wants for 80%", "power there"], header=True)
    for skill in (0.7, 0.8, 1.0):
        column = SyntheticColumn((skill, 0.5), 60, examples=1000, pretraining=0.12, finetuning=0.05)
        components = []
        for repetition in range(20):
            rows = synthetic_column(column, "variances", repetition)
            known = compare(rows[0], rows[1], resamples_of(rows, column.examples), "power")
            assert known is not None
            components.append((known.seed_variances[0], known.example_variance))
        seed_variance, example_variance = np.mean(components, axis=0)
        truth = column.truth()
        seeds = seeds_for(truth[0] - truth[1], [seed_variance], example_variance)
        measured = intervals(replace(column, pretrainings=seeds), repetitions)[3] if seeds else float("nan")
        print_row([f"{100 * (truth[0] - truth[1]):.1f} points", str(seeds), percent(measured)])


def print_stability(repetitions: int) -> None:
    random = np.random.default_rng(0)
    kinds: dict[str, Callable[[int], Floats]] = {
        "normal": lambda size: random.normal(0, 1, size),
        "15% collapse by five deviations": lambda size: random.normal(0, 1, size) - 5 * (random.random(size) < 0.15),
    }
    true = {"normal": 1.0, "15% collapse by five deviations": float(np.sqrt(1 + 25 * 0.15 * 0.85))}
    heads = ["values", "seeds", "interval of the deviation: bertlab", "chi-square", "false positives: bertlab", "F test"]
    print_row([*heads, "finds a threefold deviation: bertlab", "F test"], header=True)
    for name, draw in kinds.items():
        for seeds in (3, 5, 10, 20):
            found = []
            for repetition in range(repetitions):
                one, other = draw(seeds), draw(seeds)
                ours = deviation(one)
                assert ours is not None
                assert ours.interval is not None
                ends = np.sqrt(np.var(one, ddof=1) * (seeds - 1) / stats.chi2.ppf([0.975, 0.025], seeds - 1))
                covered = [ours.interval[0] <= true[name] <= ours.interval[1], ends[0] <= true[name] <= ends[1]]
                for second in (other, 3 * other):
                    test = compare_deviations(second, one, 500, "stability", repetition)
                    assert test is not None
                    tail = stats.f.cdf(np.var(second, ddof=1) / np.var(one, ddof=1), seeds - 1, seeds - 1)
                    covered += [test.p_value <= 0.05, 2 * min(tail, 1 - tail) <= 0.05]
                found.append(covered)
            print_row([name, str(seeds), *(percent(value) for value in np.mean(found, axis=0))])


def print_cost(repetitions: int) -> None:
    """A large table: the processor time is measured once, whatever ``repetitions`` says."""
    cells = {}
    for name, metric in (("a", "accuracy"), ("b", "f1"), ("c", "accuracy"), ("d", "f1"), ("e", "accuracy")):
        column = SyntheticColumn((0.5,) * 6, 10, examples=10_000, metric=metric)
        for number, runs in enumerate(synthetic_column(column, "cost", name)):
            cells[f"row {number}", name] = runs
    rows = [f"row {number}" for number in range(6)]
    table = Table("cost", rows, list("abcde"), "row 0", cells, random=dict.fromkeys(rows[:-1], "row 5"))
    begin = time.process_time()
    analyse(table)
    print_row(["rows", "columns", "seeds", "examples", "resamples", "processor time"], header=True)
    print_row(["6", "5", "10", "10,000", "2,000", f"{time.process_time() - begin:.1f} s"])


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def print_row(cells: list[str], header: bool = False) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)
    if header:
        print("|" + "---|" * len(cells), flush=True)


PARTS = {
    "intervals": print_intervals,
    "collapses": print_collapses,
    "tables": print_tables,
    "power": print_power,
    "stability": print_stability,
    "cost": print_cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--part", choices=PARTS, help="only this one")
    given = parser.parse_args()
    for name, part in PARTS.items():
        if given.part in (None, name):
            print(f"\n## {name}\n", flush=True)
            part(given.repetitions)


if __name__ == "__main__":
    main()
