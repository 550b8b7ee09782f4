"""Reading a table's file: what YAML gives is turned into a ``Grid``, or refused in one sentence that names the file and the key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bertlab.ablation.grid import HELD_OUT, RANDOM, RANDOM_CAUSAL, SHOW, VARY, Column, Grid, Number, Row, Seeds
from bertlab.ablation.task_files import task_named
from bertlab.ablation.yaml_values import Values
from bertlab.counting import counted
from bertlab.errors import UserError
from bertlab.schemas import FINETUNE, PRETRAIN
from bertlab.task_config import TaskConfig
from bertlab.tasks.metric_names import known_metrics

_TOP = ("title", "source", "pretrain", "finetune", "rows", "columns", "baseline", "random", "published", "seeds", "points", "show")
_ROW = ("label", "pretrain", "finetune", "of", "budget", "random", "scales", "columns", "published_only")
_COLUMN = ("label", "task", "metric", "split", "probe", "probe_metric", "finetune", "probe_finetune", "scales")
_HELD_OUT_COLUMN = ("label", "held_out", "length", "scales")
_SEEDS = ("vary", "count", "finetunings")


class GridReader(Values):
    """Turns what YAML gives into a Grid, and refuses what cannot be meant."""

    def grid(self, content: Any) -> Grid:
        """The table that ``content`` describes."""
        top = self.mapping(content, "", _TOP)
        rows = {str(name): self._row(str(name), value) for name, value in self.named(top, "rows", "rows").items()}
        columns = {str(name): self._column(str(name), value) for name, value in self.named(top, "columns", "columns").items()}
        self._check_rows(rows, columns)
        baselines = self._baselines(top, rows)
        points, seeds = self._points(top), self._seeds(top)
        return Grid(
            name=self.path.stem,
            path=self.path,
            title=self.text(top, "title", "title") or self.path.stem,
            source=self.text(top, "source", "source"),
            rows=rows,
            columns=columns,
            baseline=baselines[0],
            pretrain=self.words(top, "pretrain", "pretrain", PRETRAIN),
            finetune=self.words(top, "finetune", "finetune", FINETUNE),
            random=self._random(top, rows),
            add_random=top.get("random") is not False,
            published=self._published(top, rows, columns, points),
            seeds=seeds,
            points=points,
            show=self._show(top, seeds),
            baselines=baselines,
        )

    # Rows

    def _row(self, name: str, value: Any) -> Row:
        where = f"rows.{name}"
        found = self.mapping({} if value is None else value, where, _ROW)
        row = Row(
            name=name,
            label=self.text(found, "label", f"{where}.label") or name,
            pretrain=self.words(found, "pretrain", f"{where}.pretrain", PRETRAIN),
            finetune=self.words(found, "finetune", f"{where}.finetune", FINETUNE),
            of=self.text(found, "of", f"{where}.of"),
            budget=self.positive(found, "budget", f"{where}.budget", 1.0),
            random=self.flag(found, "random", f"{where}.random"),
            scales=self._scales(found, where),
            columns=self.names(found, "columns", f"{where}.columns"),
            published_only=self.flag(found, "published_only", f"{where}.published_only"),
        )
        if row.random and (row.of or row.budget != 1):
            raise self.error(where, "a row with random: true is not pre-trained: leave of and budget out")
        if row.published_only and len(found) > len({"label", "published_only", "scales"} & found.keys()):
            raise self.error(where, "a row with published_only: true is not run: give it a label and nothing else")
        if name in (RANDOM, RANDOM_CAUSAL) and not row.random:
            raise self.error(where, f"the row {name} is the randomly initialised one: say random: true, or choose another name")
        return row

    def _check_rows(self, rows: Mapping[str, Row], columns: Mapping[str, Column]) -> None:
        for row in rows.values():
            for column in row.columns:
                self.known(f"rows.{row.name}.columns", "column", column, columns)
            if row.of is not None:
                self.known(f"rows.{row.name}.of", "row", row.of, rows)
                self._check_source(row, rows)
        if all(row.published_only or row.random for row in rows.values()):
            raise self.error("rows", "no row is trained: give one at least")

    def _check_source(self, row: Row, rows: Mapping[str, Row]) -> None:
        """A row goes on from one that is pre-trained, and in the end from one that goes on from none."""
        chain = [row.name]
        while (source := rows[chain[-1]].of) is not None:
            if source in chain:
                raise self.error(f"rows.{row.name}.of", f"{' → '.join([*chain, source])} goes round in a circle")
            chain.append(source)
            if source in rows and (rows[source].random or rows[source].published_only):
                raise self.error(f"rows.{row.name}.of", f"the row {source} is not pre-trained: name one that is")
            if source not in rows:
                return  # which its own check tells

    def _baselines(self, top: Mapping[str, Any], rows: Mapping[str, Row]) -> tuple[str, ...]:
        if top.get("baseline") is None:
            raise self.error("baseline", f"is missing: name the row that the others are compared with, as in baseline: {next(iter(rows))}")
        found = self.names(top, "baseline", "baseline")
        for name in found:
            self.known("baseline", "row", name, rows)
            if rows[name].published_only or rows[name].random:
                raise self.error("baseline", f"the row {name} is not trained: name one that is")
        if not found:
            raise self.error("baseline", "names no row")
        return tuple(found)

    def _random(self, top: Mapping[str, Any], rows: Mapping[str, Row]) -> dict[str, str]:
        value = top.get("random")
        if value is None or isinstance(value, bool):
            return {}
        found, randoms = self.mapping(value, "random", None), [row.name for row in rows.values() if row.random]
        for name, other in found.items():
            self.known("random", "row", str(name), rows)
            if not randoms:
                raise self.error(f"random.{name}", f"{other} cannot be its random row, since no row says random: true: add one that does")
            self.known(f"random.{name}", "row", str(other), randoms)
        return {str(name): str(other) for name, other in found.items()}

    def _scales(self, found: Mapping[str, Any], where: str) -> tuple[str, ...]:
        """At which a row or a column exists; empty: at all."""
        scales = self.names(found, "scales", f"{where}.scales")
        for scale in scales:
            self.known(
                f"{where}.scales", "scale", scale, {"smoke", "laptop", "gpu_hour", "gpu_day", "paper", *self.groups.get("scale", {})}
            )
        return scales

    # Columns

    def _column(self, name: str, value: Any) -> Column:
        where = f"columns.{name}"
        if isinstance(value, Mapping) and "held_out" in value:
            return self._held_out_column(name, value)
        found = self.mapping({} if value is None else value, where, _COLUMN)
        for key in ("task", "metric"):
            if found.get(key) is None:
                example = "task: mnli, metric: accuracy" if key == "task" else f"metric: {self._example_metric(found)}"
                raise self.error(where, f"has no {key}: give {example} (or held_out: perplexity for a pre-training's own measure)")
        task = self._choice_of_task(found, "task", where)
        probe = self._choice_of_task(found, "probe", where)
        metric = self._metric(found, "metric", where, task)
        if probe is not None and probe.format != "probe":
            raise self.error(f"{where}.probe", f"{found['probe']} needs labelled files: choose a task that is made of text")
        return Column(
            name=name,
            label=self.text(found, "label", f"{where}.label") or name,
            task=str(found["task"]),
            metric=metric,
            split=self.text(found, "split", f"{where}.split"),
            probe=None if probe is None else str(found["probe"]),
            probe_metric=None if probe is None else self._probe_metric(found, where, probe, metric),
            finetune=self.words(found, "finetune", f"{where}.finetune", FINETUNE),
            probe_finetune=self.words(found, "probe_finetune", f"{where}.probe_finetune", FINETUNE),
            scales=self._scales(found, where),
        )

    def _held_out_column(self, name: str, value: Mapping[str, Any]) -> Column:
        where = f"columns.{name}"
        found = self.mapping(value, where, _HELD_OUT_COLUMN)
        length = found.get("length", "last")
        if length != "last" and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
            raise self.error(f"{where}.length", f"takes a number of tokens or last, not {length!r}")
        return Column(
            name=name,
            label=self.text(found, "label", f"{where}.label") or name,
            held_out=self.word(found, "held_out", f"{where}.held_out", HELD_OUT, HELD_OUT[0]),
            length=None if length == "last" else length,
            scales=self._scales(found, where),
        )

    def _example_metric(self, found: Mapping[str, Any]) -> str:
        name = str(found.get("task"))
        task = self._task_config(name, "columns") if name in self.groups.get("task", {}) else None
        return (task.metrics[0] if task.metrics else known_metrics(task)[0]) if task else "accuracy"

    def _probe_metric(self, found: Mapping[str, Any], where: str, probe: TaskConfig, metric: str) -> str:
        """What the file says, else the same metric where the probe has it, else the probe's own."""
        if found.get("probe_metric") is not None:
            return self._metric(found, "probe_metric", where, probe)
        return metric if metric in known_metrics(probe) else probe.metrics[0]

    def _choice_of_task(self, found: Mapping[str, Any], key: str, where: str) -> TaskConfig | None:
        if found.get(key) is None:
            return None
        self.known(f"{where}.{key}", "task", str(found[key]), self.groups.get("task", {}))
        return self._task_config(str(found[key]), f"{where}.{key}")

    def _task_config(self, name: str, where: str) -> TaskConfig:
        """What metrics there are depends on."""
        try:
            return task_named(name, self.config_dir)
        except UserError as error:
            raise self.error(where, str(error).rstrip(".")) from error

    def _metric(self, found: Mapping[str, Any], key: str, where: str, task: TaskConfig | None) -> str:
        assert task is not None
        self.known(f"{where}.{key}", f"metric of task {task.name}", str(found[key]), known_metrics(task))
        return str(found[key])

    # The rest

    def _published(
        self, top: Mapping[str, Any], rows: Mapping[str, Row], columns: Mapping[str, Column], points: Sequence[float]
    ) -> dict[str, dict[str, Number]]:
        found: dict[str, dict[str, Number]] = {}
        for row, numbers in self.mapping(top.get("published") or {}, "published", None).items():
            self.known("published", "row", str(row), rows)
            within = found.setdefault(str(row), {})
            for column, number in self.mapping(numbers, f"published.{row}", None).items():
                self.known(f"published.{row}", "column", str(column), columns)
                within[str(column)] = self._number(number, f"published.{row}.{column}", len(points))
        return found

    def _number(self, value: Any, where: str, points: int) -> Number:
        if isinstance(value, list):
            if len(value) != points:
                given = f"has {counted(len(value), 'number')} for {counted(points, 'point')}"
                raise self.error(
                    where, f"{given}: give one for each" if points else f"{given}: a table without points has one number a cell"
                )
            return tuple(self._single_number(each, where) for each in value)
        return self._single_number(value, where)

    def _single_number(self, value: Any, where: str) -> float | None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)):
            raise self.error(where, f"takes a number, not {value!r}")
        return None if value is None else float(value)

    def _seeds(self, top: Mapping[str, Any]) -> Seeds:
        found = self.mapping(top.get("seeds") or {}, "seeds", _SEEDS)
        counts = {}
        for key in ("count", "finetunings"):
            value = found.get(key)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise self.error(f"seeds.{key}", f"takes a whole number from 1, not {value!r}")
            counts[key] = value
        seeds = Seeds(self.word(found, "vary", "seeds.vary", VARY, "both"), counts["count"], counts["finetunings"] or 1)
        if seeds.finetunings > 1 and seeds.vary != "both":
            raise self.error("seeds.finetunings", "several fine-tunings of each pre-training go with vary: both")
        return seeds

    def _show(self, top: Mapping[str, Any], seeds: Seeds) -> str:
        shown = self.word(top, "show", "show", SHOW, "mean")
        if shown == "deviation" and seeds.finetunings > 1:  # its intervals and tests take every run for a repetition
            raise self.error(
                "show",
                "deviation takes runs that are independent, which several fine-tunings of one pre-training are not: leave"
                " seeds.finetunings out, or say seeds: {vary: finetune} for the deviation of fine-tuning one pre-training",
            )
        return shown

    def _points(self, top: Mapping[str, Any]) -> tuple[float, ...]:
        value = top.get("points") or []
        if not isinstance(value, list) or not all(type(each) in (int, float) and 0 < each <= 1 for each in value):  # true is an int
            raise self.error("points", "takes a list of shares of the pre-training, each more than 0 and at most 1")
        if sorted(set(value)) != value:
            raise self.error("points", "go upwards, each once")
        return tuple(float(each) for each in value)
