"""What a fine-tuning reads: the task's examples, which of them are taken, and the batch of every step, made from (seed, step) alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch.utils.data import Dataset

from bertlab.counting import counted
from bertlab.data.cache import cache_folder
from bertlab.data.task_batch import TaskBatch
from bertlab.data.tokenizer import Vocabulary
from bertlab.errors import UserError
from bertlab.finetune_config import FinetuneConfig, TuningConfig
from bertlab.tasks.batching import TaskBatches, collate, step_share
from bertlab.tasks.examples import ChoiceExample, Example, SpanExample, TaggingExample, TaskData, TextExample
from bertlab.tasks.featurise import featurise
from bertlab.tasks.inputs import Inputs
from bertlab.tasks.load import load_task
from bertlab.training.loader import StepLoader

Attach = Callable[[TaskBatch], TaskBatch]  # adds frozen features to a batch, where there are any


@dataclass
class TaskStep:
    """The share of one rank in the global batch of one optimizer step, as micro-batches whose gradients are summed."""

    step: int
    micro_batches: list[TaskBatch]
    examples_in_step: int
    sequences_in_step: int
    tokens_in_step: int
    stands_in: bool = False  # there are fewer examples than ranks, and this one repeats an example that must not count

    @property
    def positions_in_step(self) -> int:
        """As many as tokens: there is no padding and no length to fill."""
        return self.tokens_in_step

    def pin_memory(self) -> Self:
        """The same with every micro-batch in page-locked memory."""
        return replace(self, micro_batches=[batch.pin_memory() for batch in self.micro_batches])


class TaskSteps(Dataset[TaskStep]):
    """The steps of a fine-tuning, as one rank sees them."""

    def __init__(self, inputs: Inputs, config: FinetuneConfig, rank: int, world: int, attach: Attach | None) -> None:
        tuning = config.tuning
        self._inputs, self._micro, self._attach = inputs, tuning.micro, attach
        self._rank, self._world = rank, world
        self._batches = TaskBatches(inputs, tuning.batch, config.seed, tuning.group_by_length)

    @property
    def per_epoch(self) -> int:
        """How many an epoch has."""
        return self._batches.steps_per_epoch

    def __getitem__(self, step: int) -> TaskStep:
        examples = self._batches.at(step)
        share = step_share(self._inputs, examples, self._rank, self._world, self._micro)
        stands_in = not share
        if stands_in:
            share = [collate(self._inputs, examples[:1])]
        return TaskStep(
            step,
            share if self._attach is None else [self._attach(batch) for batch in share],
            examples_in_step=examples.size,
            sequences_in_step=int((self._inputs.first_sequence[examples + 1] - self._inputs.first_sequence[examples]).sum()),
            tokens_in_step=int(self._inputs.tokens_per_example[examples].sum()),
            stands_in=stands_in,
        )


class TaskLoader(StepLoader[TaskStep]):
    """The steps from ``first`` up to ``total``."""

    def __init__(self, steps: TaskSteps, first: int, total: int, *, workers: int, pinned: bool) -> None:
        super().__init__(steps, workers=workers, pinned=pinned)
        self._range = range(first, total)

    def __len__(self) -> int:
        return len(self._range)

    def keys(self) -> Iterator[int]:
        """The numbers of the steps."""
        return iter(self._range)


@dataclass(frozen=True)
class ChosenTask:
    """A task that is read, and which of its examples a run takes."""

    data: TaskData
    left_out: dict[str, int] = field(default_factory=dict)  # why → how many examples are not taken

    @property
    def examples(self) -> dict[str, int]:
        """How many are taken, by split."""
        return {split: len(examples) for split, examples in self.data.splits.items()}


def read_task(config: FinetuneConfig, splits: Sequence[str]) -> ChosenTask:
    """Read the ``splits`` of the configured task and choose examples.

    Raises:
        UserError: a file is missing or malformed, or no training example is left.
    """
    tuning, data = config.tuning, load_task(config.task, config.paths, splits)
    chosen: dict[str, list[Any]] = {}
    left_out = dict(data.left_out)
    for split, examples in data.splits.items():
        kept = examples
        if split == "train":
            kept = _of_right_length(examples, tuning, left_out)
        wanted = tuning.train_examples if split == "train" else tuning.eval_examples
        chosen[split] = _take(kept, wanted)
        if len(chosen[split]) < len(kept):
            left_out[f"{split}: beyond the number asked for"] = len(kept) - len(chosen[split])
    return ChosenTask(replace(data, splits=chosen), left_out)


def _of_right_length(examples: list[Example], tuning: TuningConfig, left_out: dict[str, int]) -> list[Example]:
    """Those within the bounds of ``tuning``; the others are counted."""
    least, most = tuning.min_words, tuning.max_words
    if least is None and most is None:
        return examples
    lengths = [word_count(example) for example in examples]
    if least is not None and (short := sum(length < least for length in lengths)):
        left_out[f"train: fewer than {counted(least, 'word')}"] = short
    if most is not None and (long := sum(length > most for length in lengths)):
        left_out[f"train: more than {counted(most, 'word')}"] = long
    kept = [
        example
        for example, length in zip(examples, lengths, strict=True)
        if (least is None or length >= least) and (most is None or length <= most)
    ]
    if not kept:
        bounds = [] if least is None else [f"at least {counted(least, 'word')}"]
        bounds += [] if most is None else [f"at most {counted(most, 'word')}"]
        raise UserError(f"No training example has {' and '.join(bounds)}: loosen tuning.min_words and tuning.max_words.")
    return kept


def word_count(example: Example) -> int:
    """Whitespace-separated words of all texts of an example."""
    if isinstance(example, TaggingExample):
        return len(example.words)
    if isinstance(example, SpanExample):
        texts = [example.question, example.context]
    elif isinstance(example, ChoiceExample):
        texts = [example.text, *example.choices]
    else:
        assert isinstance(example, TextExample)
        texts = [example.text, example.pair or ""]
    return sum(len(text.split()) for text in texts)


def _take(examples: list[Example], count: int | None) -> list[Example]:
    """``count`` of the examples, chosen by a hash of their ids, in their order: the same whatever the seed, and some of more."""
    if count is None or count >= len(examples):
        return examples
    hashed = [hashlib.blake2b(example.id.encode(errors="surrogatepass"), digest_size=8).digest() for example in examples]
    first = sorted(range(len(examples)), key=lambda place: (hashed[place], place))[:count]
    return [examples[place] for place in sorted(first)]


def inputs_of(config: FinetuneConfig, data: TaskData, split: str, vocabulary: Vocabulary) -> Inputs:
    """A split as numbers, from the cache where they are there."""
    return featurise(data, split, config.task, vocabulary, cache_folder(config.paths), progress=config.trainer.progress)
