"""From tables to the graph of runs behind them: everything is composed and checked, what is the same run is one node.

The order of the nodes is the order in which they are to be run: the first seed of every row, then the second one, each run after what it
starts from. So a whole, provisional table exists early.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertlab.ablation.composer import Composer
from bertlab.ablation.costs import Cost, finetuning_cost, pretraining_cost
from bertlab.ablation.fairness import BUDGETS, allotted, in_words
from bertlab.ablation.graph import FINETUNING, PRETRAINING, CellPlan, Node, Plan, TablePlan
from bertlab.ablation.grid import RANDOM, RANDOM_CAUSAL, Column, Grid, Row, Seeds
from bertlab.ablation.meaning import Meanings, architecture_of, key_of, shape_of
from bertlab.ablation.measures import measures_of
from bertlab.ablation.plan_notes import data_in_words, hold_out_others, model_in_finetuning, seeds_in_words, unlike_random
from bertlab.ablation.scales import GridScale, load_scale
from bertlab.ablation.words import key_of_word, merged, probe_words, section_of, without_settled
from bertlab.config import BudgetConfig, PretrainConfig
from bertlab.data.schedule import plan_training
from bertlab.errors import UserError, unknown
from bertlab.finetune_config import FinetuneConfig
from bertlab.interop.initial import check_goes_on
from bertlab.models.architecture import Architecture
from bertlab.models.task_checks import check_head, check_length, check_tuning
from bertlab.schemas import FINETUNE, PRETRAIN, C, Schema
from bertlab.task_config import TaskConfig
from bertlab.training.identity import readable_name
from bertlab.validation import is_masked

_COMPOSED_WITH = ("checkpoint=none",)  # a fine-tuning's checkpoint is known only when it is run


@dataclass(frozen=True)
class Settings:
    """What the command says of all tables."""

    scale: str = "laptop"
    seeds: int | None = None  # None: as the table or the scale says
    budget: str = "tokens"  # tokens | flops | minutes: what rows have alike
    tasks: str | None = None  # the folder of labelled tasks
    pretrain: tuple[str, ...] = ()  # overrides of every pretraining
    finetune: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()  # overrides of both that change no number: logger, paths, threads
    config_dir: Path | None = None


def plan(grids: Sequence[Grid], settings: Settings) -> Plan:
    """The runs behind ``grids``.

    Raises:
        UserError: something cannot be meant: which table, which row, and what to change.
    """
    if settings.budget not in BUDGETS:
        raise unknown("budget", settings.budget, BUDGETS)
    if settings.seeds is not None and settings.seeds < 1:
        raise UserError(f"--seeds {settings.seeds} is too few: give 1 or more.")
    names = [grid.name for grid in grids]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"Two tables are called {repeated}: name each once, or give one of the files another name.")
    return _Planner(grids, settings).plan()


@dataclass
class _Row:
    """A row with what it is pre-trained as."""

    row: Row
    config: PretrainConfig  # with its budget
    words: tuple[str, ...]  # that give it, as a node has them, but for the seed and the weights to keep
    source: str | None = None  # the row that it goes on from


@dataclass
class _Table:
    """A grid on its way to a plan."""

    grid: Grid
    rows: dict[str, _Row]
    columns: dict[str, Column]
    runs: list[tuple[int, int]]  # the seeds of pretraining and of fine-tuning
    notes: list[str]
    base: PretrainConfig  # what all rows have in common
    finetunings: dict[tuple[str, str], tuple[FinetuneConfig, tuple[str, ...]]] = field(default_factory=dict)  # by row and column
    cells: dict[tuple[str, str, float | None], list[str]] = field(default_factory=dict)


@dataclass
class _Draft:
    """A node that may still be wanted by more, and for more of its weights."""

    node: Node
    keep: set[int] = field(default_factory=set)
    wanted_by: dict[str, None] = field(default_factory=dict)


class _Planner:
    def __init__(self, grids: Sequence[Grid], settings: Settings) -> None:
        self.settings, self.grids = settings, grids
        self.scale: GridScale = load_scale(settings.scale, settings.config_dir)
        self.composer = Composer(settings.config_dir)
        self.meanings = Meanings()
        self.drafts: dict[str, _Draft] = {}
        self.naive_runs, self.naive_flops = 0, 0.0

    def plan(self) -> Plan:
        tables = [self.table(grid) for grid in self.grids]
        for table in tables:
            self.check_held_out(table)
            self.add_random_rows(table)
            self.compose_finetunings(table)
        for turn in range(max(len(table.runs) for table in tables)):
            for table in tables:
                if turn < len(table.runs):
                    self.add_runs(table, turn, tables)
        for table in tables:
            self.refuse_equal_rows(table)
        return Plan(
            nodes={key: self.finished(draft) for key, draft in self.drafts.items()},
            cells={table.grid.name: self.cells(table) for table in tables},
            naive_runs=self.naive_runs,
            naive_flops=self.naive_flops,
            tables={table.grid.name: self.table_plan(table) for table in tables},
        )

    # Rows and columns

    def table(self, grid: Grid) -> _Table:
        """The rows of this scale with their pretrainings, and the columns that these data give."""
        rows = {name: row for name, row in grid.rows.items() if not row.published_only and self.exists(row)}
        grid = replace(grid, columns={name: column for name, column in grid.columns.items() if self.exists(column)})
        if not grid.columns:
            raise UserError(f"{grid.path}: columns: none exists at scale={self.scale.name}: add one that does.")
        baseline = next((name for name in grid.baselines or (grid.baseline,) if name in rows), None)
        if baseline is None:
            raise UserError(f"{grid.path}: baseline: no row of that name exists at scale={self.scale.name}: add one that does.")
        for row in rows.values():
            if row.of is not None and row.of not in rows:
                raise UserError(f"{grid.path}: rows.{row.name}.of: the row {row.of} does not exist at scale={self.scale.name}.")
        grid = replace(grid, baseline=baseline, rows=self.shown_rows(grid, rows))
        words = {name: self.pretraining_words(grid, row, rows) for name, row in rows.items()}
        common = self.common_words(grid)
        self.composer.prepare(PRETRAIN, [common, *words.values()])
        base = self.composer.config(PRETRAIN, common, str(grid.path))
        configs = {name: self.composer.config(PRETRAIN, words[name], f"{grid.path}: rows.{name}") for name in rows}
        configs = {name: self.with_budget(grid, rows[name], config, configs[baseline]) for name, config in configs.items()}
        for name, row in rows.items():
            if row.of is not None:
                _check_goes_on(row, configs[name], configs[row.of], f"{grid.path}: rows.{name}")
        planned = {name: self.planned_row(rows[name], configs[name], words[name]) for name in rows}
        measured = measures_of(grid, self.settings.tasks, self.bare_task, lambda column: self.task_in_folder(grid, column, base))
        table = _Table(replace(grid, columns=measured.columns), planned, measured.columns, self.runs_of(grid.seeds), [], base)
        trained = {name: config for name, config in configs.items() if not rows[name].random}
        table.notes += [
            in_words(
                trained,
                baseline,
                self.settings.budget,
                {name: rows[name].budget for name in trained},
                {name: source for name in trained if (source := rows[name].of) is not None},
            ),
            seeds_in_words(grid.seeds.vary, table.runs),
            data_in_words(trained, base),
            *measured.notes,
        ]
        return table

    def exists(self, what: Row | Column) -> bool:
        """Whether a row or a column is there at this scale."""
        return not what.scales or self.scale.name in what.scales

    def shown_rows(self, grid: Grid, rows: Mapping[str, Row]) -> dict[str, Row]:
        """The rows to show: those that are run, those of the paper alone, and of the paper's others what it has published."""
        shown: dict[str, Row] = {}
        for name, row in grid.rows.items():
            if name in rows or row.published_only:
                shown[name] = row
            elif grid.published.get(name):
                shown[name] = Row(name, row.label, published_only=True)
        return shown

    def common_words(self, grid: Grid) -> tuple[str, ...]:
        scale = self.scale
        return tuple(merged([f"scale={scale.name}"], scale.pretrain, grid.pretrain, self.settings.pretrain, self.settings.machine))

    def pretraining_words(self, grid: Grid, row: Row, rows: Mapping[str, Row]) -> tuple[str, ...]:
        """The words that give the row's configuration: those of a row that it goes on from hold for it, too."""
        inherited = () if row.of is None else self.pretraining_words(grid, rows[row.of], rows)
        return tuple(merged(self.common_words(grid), inherited, row.pretrain))

    def planned_row(self, row: Row, config: PretrainConfig, words: tuple[str, ...]) -> _Row:
        own = {key_of_word(word) for word in self.settings.machine}
        kept = [word for word in words if key_of_word(word) not in own]
        if row.of is not None:  # model and vocabulary come with the weights, and so does an objective that the row does not name
            named = {key_of_word(word) for word in row.pretrain if section_of(word) != "tokenizer"}
            kept = merged(without_settled(kept), [word for word in kept if key_of_word(word) in named])
        return _Row(row, config, tuple(merged(kept, _budget_words(config.budget))), row.of)

    def with_budget(self, grid: Grid, row: Row, config: PretrainConfig, baseline: PretrainConfig) -> PretrainConfig:
        _validate(PRETRAIN, config, f"{grid.path}: rows.{row.name}")
        return replace(config, budget=allotted(config, baseline, self.settings.budget, row.budget, self.scale.minutes))

    def runs_of(self, seeds: Seeds) -> list[tuple[int, int]]:
        count = self.settings.seeds
        if count is None:
            count = seeds.count or self.scale.seeds
            count = min(count, self.scale.most_seeds or count)
        numbers = range(1, count + 1)
        if seeds.vary == "pretrain":
            return [(number, 1) for number in numbers]
        if seeds.vary == "finetune":
            return [(1, number) for number in numbers]
        each = seeds.finetunings  # the first of every pretraining before any second one
        return [(number, (number - 1) * each + 1 + turn) for turn in range(each) for number in numbers]

    def check_held_out(self, table: _Table) -> None:
        """Refuse columns of pre-trainings' own figures that none has, or that some will not be evaluated for."""
        of_rows = {name: self.columns_of(table, name) for name in table.rows}
        for column in table.columns.values():
            if column.held_out is None:
                continue
            where = f"{table.grid.path}: columns.{column.name}"
            rows = [name for name, columns in of_rows.items() if column in columns]
            if not rows:
                said = "" if column.held_out != "nsp_accuracy" else ", since none predicts next sentences (objective=mlm_nsp)"
                raise UserError(f"{where}: no row at scale={self.scale.name} has {column.held_out}{said}: leave the column out.")
            for name in rows:
                config = table.rows[name].config
                lengths = config.validation.lengths or plan_training(config).lengths
                if column.length is not None and column.length not in lengths:
                    raise UserError(
                        f"{where}.length: row {name} is evaluated at length {', '.join(map(str, lengths))}, not at {column.length}: choose"
                        f" one of these, or add validation.lengths=[{','.join(map(str, sorted({*lengths, column.length})))}] to pretrain."
                    )

    # Randomly initialised rows

    def add_random_rows(self, table: _Table) -> None:
        """Every trained row that the file names none for gets one: its counterpart among the file's, else one with its way of attending."""
        if not table.grid.add_random or all(column.held_out is not None for column in table.columns.values()):
            return
        shown = dict(table.grid.rows)
        mapping = {name: other for name, other in table.grid.random.items() if {name, other} <= table.rows.keys()}  # at this scale
        of_file = [name for name, row in table.rows.items() if row.row.random]
        order = [table.grid.baseline, *table.rows]
        for name in list(dict.fromkeys(order)):
            if table.rows[name].row.random or name in mapping:
                continue
            causal = not is_masked(table.rows[name].config)
            random = self.random_counterpart(table, name, of_file) or (RANDOM_CAUSAL if causal else RANDOM)
            mapping[name] = random
            if random not in table.rows:
                label = "Random weights, left to right" if causal else "Random weights"
                table.rows[random] = replace(table.rows[name], row=Row(random, label, random=True), source=None)
                shown[random] = table.rows[random].row
        table.grid = replace(table.grid, random=mapping, rows=shown)

    def random_counterpart(self, table: _Table, name: str, randoms: Iterable[str]) -> str | None:
        """Of the file's random rows the one that differs from a row in nothing but the training, first of all not in its fine-tuning."""
        row = table.rows[name]
        columns = {column.name for column in self.columns_of(table, name) if column.held_out is None}
        found = [
            random
            for random in randoms
            if _same_when_untrained(table.rows[random].config, row.config)
            and columns <= {column.name for column in self.columns_of(table, random)}
        ]
        return min(found, key=lambda random: table.rows[random].row.finetune != row.row.finetune, default=None)

    # Fine-tunings

    def compose_finetunings(self, table: _Table) -> None:
        wanted = {
            (name, column.name): self.finetuning_words(table.grid, row.row, column, table.base)
            for name, row in table.rows.items()
            for column in self.columns_of(table, name)
            if column.held_out is None
        }
        self.composer.prepare(FINETUNE, list(wanted.values()))
        row_architectures = {name: architecture_of(row.config) for name, row in table.rows.items()}
        for (name, column), words in wanted.items():
            where = f"{table.grid.path}: rows.{name}, columns.{column}"
            config = self.composer.config(FINETUNE, words, where)
            _validate(FINETUNE, config, where)
            _check_fits(config, row_architectures[name], where)
            self.check_split(table, column, config, where)
            own = {key_of_word(word) for word in (*self.settings.machine, *_COMPOSED_WITH)}
            table.finetunings[name, column] = (config, tuple(word for word in words if key_of_word(word) not in own))
        tunings = {cell: config for cell, (config, _) in table.finetunings.items()}
        if any(config.task.format == "probe" for config in tunings.values()):
            table.notes += hold_out_others({name: row.config for name, row in table.rows.items() if not row.row.random}, table.base)
        table.notes += unlike_random(table.grid.random, {name: row.config for name, row in table.rows.items()}, tunings)

    def check_split(self, table: _Table, column: str, config: FinetuneConfig, where: str) -> None:
        split = table.columns[column].split
        if split is not None and split not in config.task.evaluate:
            raise UserError(f"{where}: the task is not evaluated on {split}: add task.evaluate=[{config.task.evaluate[0]},{split}].")

    def columns_of(self, table: _Table, row: str) -> list[Column]:
        """Those that a row has a cell in. What a row names by the file's columns means the probes that stand in for them."""
        names, config = table.rows[row].row.columns, table.rows[row].config
        columns = [column for column in table.columns.values() if column.held_out != "nsp_accuracy" or config.objective.kind == "mlm_nsp"]
        if table.rows[row].row.random:
            columns = [column for column in columns if column.held_out is None]
        if not names:
            return columns
        return [column for column in columns if column.name in names or set(column.stands_for) & set(names)]

    def finetuning_words(self, grid: Grid, row: Row, column: Column, base: PretrainConfig) -> tuple[str, ...]:
        assert column.task is not None
        task, scale = self.bare_task(column), self.scale
        is_probe = task.format == "probe"
        data = probe_words(base.corpus, base.tokenizer, dict(scale.probe)) if is_probe else self.path_words()
        by_kind = [*scale.kinds.get(task.kind, ()), *(() if is_probe else scale.labelled.get(task.kind, ()))]
        random = ["weights=random"] if row.random else []
        return tuple(
            merged(
                [f"task={column.task}"],
                scale.finetune,
                by_kind,
                data,
                grid.finetune,
                column.finetune,
                self.settings.finetune,
                row.finetune,
                random,
                self.settings.machine,
                _COMPOSED_WITH,
            )
        )

    def path_words(self) -> list[str]:
        from bertlab.overrides import text_of

        return [] if self.settings.tasks is None else [f"task.path={text_of(self.settings.tasks)}"]

    def bare_task(self, column: Column) -> TaskConfig:
        return self.composer.task(str(column.task))

    def task_in_folder(self, grid: Grid, column: Column, base: PretrainConfig) -> TaskConfig:
        words = self.finetuning_words(grid, Row("", ""), column, base)
        return self.composer.config(FINETUNE, words, f"{grid.path}: columns.{column.name}").task

    # Nodes

    def add_runs(self, table: _Table, turn: int, tables: Sequence[_Table]) -> None:
        """The runs of all rows with the seeds of one turn."""
        for name, row in table.rows.items():
            if row.row.random:
                self.add_random_run(table, name, turn, tables)
                continue
            seed, finetuning_seed = table.runs[turn]
            pretraining = self.pretraining(table, name, seed)
            self.drafts[pretraining].wanted_by[f"{table.grid.name}: {name}, seed {seed}"] = None
            if seed not in [earlier for earlier, _ in table.runs[:turn]]:
                self.count(self.drafts[pretraining].node)
            for column in self.columns_of(table, name):
                if column.held_out is not None:
                    cell = table.cells.setdefault((name, column.name, None), [])
                    if pretraining not in cell:
                        cell.append(pretraining)
                    continue
                for point, step in self.points(table, row):
                    key = self.finetuning(table, name, column.name, row.config, pretraining, step, finetuning_seed)
                    self.enter(table, name, column.name, point, key, f"seed {_seeds(seed, finetuning_seed)}")

    def add_random_run(self, table: _Table, name: str, turn: int, tables: Sequence[_Table]) -> None:
        """Fine-tunings from no training at all: each has a seed of its own, whatever varies in the other rows."""
        row, seed = table.rows[name], turn + 1
        source = self.architecture_from(row, tables)
        if not self.drafts[source].wanted_by:
            self.drafts[source].wanted_by[f"{table.grid.name}: {name}, for its architecture and vocabulary"] = None
        for column in self.columns_of(table, name):
            key = self.finetuning(table, name, column.name, row.config, source, None, seed)
            self.enter(table, name, column.name, None, key, f"seed {seed}")

    def enter(self, table: _Table, row: str, column: str, point: float | None, key: str, seed: str) -> None:
        """Put a fine-tuning into its cell."""
        table.cells.setdefault((row, column, point), []).append(key)
        at = "" if point is None else f" after {point:.0%}"
        self.drafts[key].wanted_by[f"{table.grid.name}: {row} × {column}{at}, {seed}"] = None
        self.count(self.drafts[key].node)

    def count(self, node: Node) -> None:
        """A run as it would be if nothing were shared."""
        self.naive_runs += 1
        self.naive_flops += node.flops

    def points(self, table: _Table, row: _Row) -> list[tuple[float | None, int | None]]:
        """The points of a row's curve with their steps; one without either where there is no curve."""
        if not table.grid.points:
            return [(None, None)]
        total = plan_training(row.config).total_steps
        if total is None:
            raise UserError(
                f"{table.grid.path}: points are shares of a pre-training's steps, but a budget in minutes has none: use another budget."
            )
        return [(point, _step(point, total)) for point in table.grid.points]

    def pretraining(self, table: _Table, name: str, seed: int) -> str:
        """The key of a row's pretraining with a seed; the node is drafted where it is new, after what it goes on from."""
        row = table.rows[name]
        source = None if row.source is None else self.pretraining(table, row.source, seed)
        meaning = self.meanings.pretraining(replace(row.config, seed=seed), source)
        what = f"{readable_name(row.config)} ({table.grid.name}: {name}), seed {seed}"
        key = self.draft(PRETRAINING, meaning, row.words, seed, source, None, pretraining_cost(row.config), what)
        total = plan_training(row.config).total_steps
        if total is not None:
            shares = (*self.scale.keep, *table.grid.points)
            self.drafts[key].keep |= {step for share in shares if (step := _step(share, total)) is not None}
        return key

    def finetuning(
        self, table: _Table, name: str, column: str, pretraining: PretrainConfig, source: str, step: int | None, seed: int
    ) -> str:
        config, words = table.finetunings[name, column]
        weights = source if step is None else f"{source}@{step}"
        meaning = self.meanings.finetuning(replace(config, seed=seed), pretraining, weights)
        cost = finetuning_cost(config, architecture_of(pretraining))
        at = "" if step is None else f" after step {step:,}"
        return self.draft(FINETUNING, meaning, words, seed, source, step, cost, f"{column} of {name}{at}, seed {seed}")

    def draft(
        self,
        kind: str,
        meaning: dict[str, Any],
        words: Iterable[str],
        seed: int,
        source: str | None,
        step: int | None,
        cost: Cost,
        label: str,
    ) -> str:
        key = key_of(meaning)
        if key not in self.drafts:
            overrides = (*words, f"seed={seed}")
            # Random weights are those of any source of the architecture.
            is_random = kind == FINETUNING and meaning["pretrained"] is None
            origin = None if source is None or is_random else f"{self.drafts[source].node.shape}@{step}"
            shape = shape_of(meaning, origin)
            self.drafts[key] = _Draft(Node(key, kind, overrides, seed, source, step, cost.tokens, cost.flops, (), label, shape))
        return key

    def architecture_from(self, row: _Row, tables: Sequence[_Table]) -> str:
        """A pretraining that gives architecture and vocabulary to a randomly initialised row: one of the plan, or a single step."""
        for table in tables:
            for name, other in table.rows.items():
                if not other.row.random and _same_model(other.config, row.config):
                    return self.pretraining(table, name, table.runs[0][0])
        config = replace(row.config, budget=BudgetConfig(steps=1))
        words = merged(row.words, ["budget.steps=1"])
        what = f"{readable_name(config)}, a single step for its architecture and vocabulary"
        return self.draft(PRETRAINING, self.meanings.pretraining(config), words, 1, None, None, pretraining_cost(config), what)

    def finished(self, draft: _Draft) -> Node:
        keep = f"checkpointing.keep_at=[{','.join(map(str, sorted(draft.keep)))}]"
        overrides = (*draft.node.overrides, keep) if draft.keep else draft.node.overrides
        return replace(draft.node, overrides=overrides, wanted_by=tuple(draft.wanted_by))

    # Tables

    def cells(self, table: _Table) -> list[CellPlan]:
        return [CellPlan(row, column, tuple(keys), point) for (row, column, point), keys in table.cells.items()]

    def table_plan(self, table: _Table) -> TablePlan:
        grid = replace(table.grid, columns=table.columns)
        return TablePlan(grid, self.scale.name, tuple(table.notes))

    def refuse_equal_rows(self, table: _Table) -> None:
        """Two rows that come to the same runs are a mistake of whoever wrote the table."""
        seen: dict[tuple[Any, ...], str] = {}
        for name in table.rows:
            means = tuple((column, point, keys[0]) for (row, column, point), keys in table.cells.items() if row == name)
            if means and means in seen:
                raise UserError(
                    f"{table.grid.path}: rows {seen[means]} and {name} mean the same runs at scale={self.scale.name}: change one of them,"
                    " or leave it out."
                )
            seen[means] = name


def _validate(schema: Schema[C], config: C, where: str) -> None:
    try:
        schema.validate(config)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _check_goes_on(row: Row, config: PretrainConfig, source: PretrainConfig, where: str) -> None:
    """Refuse what does not fit the weights that a row goes on from, before these are trained for hours."""
    try:
        check_goes_on(config, source, row.pretrain, f"of: {row.of}")
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _check_fits(config: FinetuneConfig, architecture: Architecture, where: str) -> None:
    """Refuse what a row's model cannot do, before it is trained for hours."""
    try:
        check_head(config.task.kind, config.head, config.features, architecture)
        check_tuning(config.tuning, config.features, architecture)
        check_length(config.task.max_length, architecture, "the row's model")
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _budget_words(budget: BudgetConfig) -> list[str]:
    return [f"budget.{name}={_number(value)}" for name, value in vars(budget).items() if value is not None]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _step(share: float, total: int) -> int | None:
    """The step after which ``share`` of ``total`` steps are done; None for the last one, whose weights are the final ones."""
    step = max(1, round(share * total))
    return None if step >= total else step


def _same_model(one: PretrainConfig, other: PretrainConfig) -> bool:
    return architecture_of(one) == architecture_of(other) and (one.tokenizer, one.corpus) == (other.tokenizer, other.corpus)


def _same_when_untrained(one: PretrainConfig, other: PretrainConfig) -> bool:
    """Whether fine-tuning begins with the same model and vocabulary where neither was trained."""
    return model_in_finetuning(one) == model_in_finetuning(other) and (one.tokenizer, one.corpus) == (other.tokenizer, other.corpus)


def _seeds(pretraining: int, finetuning: int) -> str:
    return f"{pretraining}" if pretraining == finetuning else f"{pretraining}.{finetuning}"
