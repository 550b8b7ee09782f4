"""What several fine-tunings of one command say together: a row for each setting, over its seeds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bertlab.commands.jobs import Ended
from bertlab.finetune_config import FinetuneConfig
from bertlab.messages import say

_COLUMNS = ("setting", "measured", "n", "mean", "sd", "median", "best", "failed")


@dataclass
class Setting:
    """The jobs that differ in nothing but their seed."""

    label: str
    results: list[dict[str, Any]] = field(default_factory=list)  # of those that came to their end
    ended_badly: list[int] = field(default_factory=list)  # the seeds of the others

    @property
    def measured(self) -> str:
        """Task, split and metric."""
        return f"{self.results[0]['task']} {self.results[0]['split']} {self.results[0]['metric']}" if self.results else ""

    @property
    def values(self) -> list[float]:
        """The metric of each, in hundredths."""
        return [100.0 * result["value"] for result in self.results]

    @property
    def failed(self) -> dict[int, str]:
        """Seed → why, of runs that ended badly or have learnt nothing."""
        degenerate = {result["seed"]: result["degenerate"] for result in self.results if result["degenerate"]}
        return degenerate | dict.fromkeys(self.ended_badly, "the job failed")


def show_seeds(ended: Sequence[Ended[FinetuneConfig]]) -> None:
    """Print the table on standard error."""
    for line in seed_table(settings_of(ended)):
        say(line)


def settings_of(ended: Sequence[Ended[FinetuneConfig]]) -> list[Setting]:
    """The jobs by setting, in the order in which they came."""
    varying = _varying([each.job.overrides for each in ended])
    found: dict[str, Setting] = {}
    for each in ended:
        same = json.dumps({**asdict(each.job.config), "seed": None}, sort_keys=True)
        label = " ".join(word for word in each.job.overrides if word in varying and not word.startswith("seed="))
        setting = found.setdefault(same, Setting(label or "as given"))
        if each.folder is None:
            setting.ended_badly.append(each.job.config.seed)
        else:
            setting.results.append(json.loads((each.folder / "result.json").read_text(encoding="utf-8")))
    return list(found.values())


def _varying(overrides: Sequence[Sequence[str]]) -> set[str]:
    """The overrides that not every job has."""
    return {word for words in overrides for word in words if not all(word in others for others in overrides)}


def seed_table(settings: Sequence[Setting]) -> Iterator[str]:
    """The rows as lines, then what is best and what has failed.

    A degenerate run counts in mean, deviation, median: leaving it out would make an unstable setting look like a good one.
    """
    rows = [_COLUMNS, *(_row(setting) for setting in settings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield "  ".join([*left, *right]).rstrip()
    yield from _best(settings)
    for setting in settings:
        for seed, reason in setting.failed.items():
            yield f"failed: {setting.label}, seed {seed}: {reason}"


def _row(setting: Setting) -> tuple[str, ...]:
    values = setting.values
    if not values:
        return (setting.label, "", "0", "", "", "", "", str(len(setting.failed)))
    deviation = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""
    figures = [f"{statistics.mean(values):.2f}", deviation, f"{statistics.median(values):.2f}", f"{max(values):.2f}"]
    return (setting.label, setting.measured, str(len(values)), *figures, str(len(setting.failed)))


def _best(settings: Sequence[Setting]) -> Iterator[str]:
    """Of settings that were measured alike, the one with the highest mean."""
    for measured in dict.fromkeys(setting.measured for setting in settings if setting.results):
        alike = [setting for setting in settings if setting.measured == measured]
        if len(alike) > 1:
            best = max(alike, key=lambda setting: statistics.mean(setting.values))
            yield f"best on {measured} by its mean: {best.label}"
