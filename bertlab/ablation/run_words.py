"""The words that give the runs of a table: those of the scale, the table, the command and the row, in the order in which the later win."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bertlab.ablation.composer import Composer
from bertlab.ablation.grid import Column, Grid, Row
from bertlab.ablation.scales import GridScale, load_scale
from bertlab.ablation.settings import Settings
from bertlab.ablation.words import key_of_word, merged, probe_words, section_of, without_settled
from bertlab.config import PretrainConfig
from bertlab.overrides import text_of
from bertlab.schemas import FINETUNE
from bertlab.task_config import TaskConfig

_COMPOSED_WITH = ("checkpoint=none",)  # a fine-tuning's checkpoint is known only when it is run


class RunWords:
    """Of one command: its scale and settings, and what composes configurations with them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.scale: GridScale = load_scale(settings.scale, settings.config_dir)
        self.composer = Composer(settings.config_dir)

    def of_every_row(self, grid: Grid) -> tuple[str, ...]:
        """What all pretrainings of a table have in common."""
        scale, settings = self.scale, self.settings
        return tuple(merged([f"scale={scale.name}"], scale.pretrain, grid.pretrain, settings.pretrain, settings.machine))

    def of_pretraining(self, grid: Grid, row: Row, rows: Mapping[str, Row]) -> tuple[str, ...]:
        """The words that give the row's configuration: those of a row that it goes on from hold for it, too."""
        inherited = () if row.of is None else self.of_pretraining(grid, rows[row.of], rows)
        return tuple(merged(self.of_every_row(grid), inherited, row.pretrain))

    def of_pretraining_node(self, row: Row, words: Iterable[str], budget: Iterable[str]) -> tuple[str, ...]:
        """Of the words of a row those that its run gets: ``budget`` replaces theirs, and each machine has its own settings."""
        kept = self._without(words, self.settings.machine)
        if row.of is not None:  # model and vocabulary come with the weights, and so does an objective that the row does not name
            named = {key_of_word(word) for word in row.pretrain if section_of(word) != "tokenizer"}
            kept = merged(without_settled(kept), [word for word in kept if key_of_word(word) in named])
        return tuple(merged(kept, budget))

    def of_finetuning(self, grid: Grid, row: Row, column: Column, base: PretrainConfig) -> tuple[str, ...]:
        """The words that give a cell's fine-tuning. ``base``: a pretraining of the table, whose corpus and vocabulary make its probes."""
        task, scale = self.task(column), self.scale
        is_probe = task.format == "probe"
        data = probe_words(base.corpus, base.tokenizer, dict(scale.probe)) if is_probe else self._of_folder()
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

    def of_finetuning_node(self, words: Iterable[str]) -> tuple[str, ...]:
        """Of the words of a fine-tuning those that its run gets."""
        return tuple(self._without(words, (*self.settings.machine, *_COMPOSED_WITH)))

    def task(self, column: Column) -> TaskConfig:
        """The task of a column as it stands in its file."""
        return self.composer.task(str(column.task))

    def task_in_folder(self, grid: Grid, column: Column, base: PretrainConfig) -> TaskConfig:
        """The task of a column with everything that is said of it, the folder of labelled tasks first of all."""
        words = self.of_finetuning(grid, Row("", ""), column, base)
        return self.composer.config(FINETUNE, words, f"{grid.path}: columns.{column.name}").task

    def _of_folder(self) -> list[str]:
        return [] if self.settings.tasks is None else [f"task.path={text_of(self.settings.tasks)}"]

    def _without(self, words: Iterable[str], others: Iterable[str]) -> list[str]:
        """The words for keys that ``others`` say nothing of."""
        keys = {key_of_word(word) for word in others}
        return [word for word in words if key_of_word(word) not in keys]
