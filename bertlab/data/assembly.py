"""The batches of a pre-training run: that of each step, made from (seed, step) alone, and those of the validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertlab.config import PretrainConfig
from bertlab.counting import counted
from bertlab.data.batches import Batch, StepBatch
from bertlab.data.masking import Masker, Prediction, ordinary_only, predict_next, predict_previous
from bertlab.data.randomness import derive
from bertlab.data.sampling import FOUR, Sequences, SequenceSampler
from bertlab.data.schedule import Stage, TrainingPlan
from bertlab.errors import UserError

if TYPE_CHECKING:
    from bertlab.data.store import TokenStore

_VALIDATION_POSITIONS = 16384  # at most in a validation batch, whatever the length
_POSITIONS_AT_ONCE = (
    16384  # batches smaller than that are made several steps together: NumPy's cost is then that of its work, not of its calls
)


class PretrainingData:
    """Makes the share of one rank in the global batch of any step. Also a map-style data set whose items are steps."""

    def __init__(
        self,
        store: TokenStore,
        config: PretrainConfig,
        plan: TrainingPlan,
        rank: int = 0,
        world: int = 1,
        *,
        predict: str,
        pair: bool,
        validation_alone: bool = False,
    ) -> None:
        """``predict``: masked, next or previous; ``pair``: whether sequences have a segment B.

        ``validation_alone``: nothing of the corpus is trained on, so that all its documents are validated on.

        Raises:
            UserError: where a rank would have no sequence, or fewer micro-batches than another where they meet in each.
        """
        self._store, self._config, self._plan = store, config, plan
        self._rank, self._world = rank, world
        self._predict, self._pair = predict, pair
        for stage in plan.stages:
            # Batch normalisation, and weights that are parted, meet the other ranks in every micro-batch: there each rank needs as many.
            meeting = config.norm.kind == "batch" or config.trainer.strategy == "fsdp"
            if stage.sequences // world < (self._micro_count(stage.sequences) if meeting else 1):
                raise UserError(
                    f"A batch of {counted(stage.sequences, 'sequence')} (at length {stage.length}) cannot be shared by {world} devices"
                    + (f" in micro-batches of {config.batch.micro}" if config.batch.micro else "")
                    + ": raise batch.sequences or batch.micro, or lower trainer.devices."
                )
        self._next_sentence = config.objective.kind == "mlm_nsp"
        every_document = np.arange(store.documents)
        split = (every_document[:0], every_document) if validation_alone else store.split(config.corpus.held_out)
        self.training_documents, self.held_out_documents = split
        self._current: tuple[int, SequenceSampler, Masker] | None = None
        self._latest: tuple[tuple[int, int], Sequences, Prediction] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the current sampler: a worker process makes its own, as the maps of the store's files are not to be copied."""
        return self.__dict__ | {"_current": None, "_latest": None}

    def __len__(self) -> int:
        if self._plan.total_steps is None:
            raise TypeError("a run with a budget in minutes does not know its number of steps")
        return self._plan.total_steps

    def __getitem__(self, step: int) -> StepBatch:
        return self.step_batch(step)

    def step_batch(self, step: int) -> StepBatch:
        """The share of this rank in a step's global batch. Not for a budget in minutes, where only the time says which stage it is."""
        stage = self._plan.stage_at(step)
        assert stage.first_step is not None
        return self.step_batch_at(stage, step - stage.first_step, step)

    def step_batch_at(self, stage: Stage, step_in_stage: int, step: int) -> StepBatch:
        """The same where the caller knows the stage and how many steps of it came before."""
        group, place = divmod(step_in_stage, max(1, _POSITIONS_AT_ONCE // stage.positions))
        sequences, prediction = self._group(stage, group)
        whole = _Cut(sequences, prediction, place * stage.sequences, (place + 1) * stage.sequences)
        cuts = self._micro_shares(stage.sequences)
        micro_batches = [whole.part(first, end).collate(whole.predicted, stage.sequences, first) for first, end in cuts]
        return StepBatch(step, stage.length, micro_batches, stage.positions, whole.tokens)

    def validation_batches(self, length: int) -> list[Batch]:
        """The share of this rank in the validation at a length: the same held-out sequences, equally masked, whatever the seed.

        Ordinary words are all that is predicted, also by a left-to-right model, so that each figure compares with the unigram one. Which
        sequences share a batch does not depend on the number of ranks. Where weights are parted every rank has as many batches, the last of
        which may not count.
        """
        sampler = self._validation_sampler(length)
        masker = Masker(self._store.vocabulary, self._config.masking, derive(int(derive("validation", length)), "masking"))
        sequences = sampler.draw(0, self._validation_count(sampler.epoch_length))
        prediction = ordinary_only(self._predicting(sequences, masker), self._store.vocabulary)
        count, size = sequences.places.size, max(1, _VALIDATION_POSITIONS // length)
        batches, whole = -(-count // size), _Cut(sequences, prediction, 0, count)

        def batch(number: int) -> Batch:
            part = whole.part(number * size, min((number + 1) * size, count))
            return replace(part.collate(whole.predicted, count, number), ordinary_only=True)

        own = [batch(number) for number in range(*share_of(batches, self._rank, self._world))]
        missing = -(-batches // self._world) - len(own) if self._config.trainer.strategy == "fsdp" else 0
        return own + [replace(whole.part(0, 1).collate(whole.predicted, count, 0), counts=False) for _ in range(missing)]

    def validation_sequences(self, length: int) -> tuple[int, int]:
        """How many sequences the validation at a length reads, and how many there are in the documents that it reads of."""
        there = self._validation_sampler(length).epoch_length
        return self._validation_count(there), there

    def _validation_count(self, there: int) -> int:
        """How many sequences are validated on where an epoch has so many.

        With next sentences to tell they are whole fours, as only of these exactly half are true. Where there are fewer than four, the
        stream goes on into further passes.
        """
        count = min(self._config.validation.sequences, there)
        return max(FOUR, count - count % FOUR) if self._next_sentence else count

    def _validation_sampler(self, length: int) -> SequenceSampler:
        return self._sampler(self.held_out_documents, length, derive("validation", length), short_probability=0.0, weighted=False)

    def _group(self, stage: Stage, group: int) -> tuple[Sequences, Prediction]:
        """The global batches of as many steps as are made together; the latest are held, as steps mostly follow one another."""
        if self._latest is None or self._latest[0] != (stage.number, group):
            sampler, masker = self._makers(stage)
            count = stage.sequences * max(1, _POSITIONS_AT_ONCE // stage.positions)
            sequences = sampler.draw(group * count, count)
            self._latest = (stage.number, group), sequences, self._predicting(sequences, masker)
        return self._latest[1:]

    def _makers(self, stage: Stage) -> tuple[SequenceSampler, Masker]:
        """The sampler and the masker of a stage; only the latest are held, as training goes through the stages in order."""
        if self._current is None or self._current[0] != stage.number:
            key = derive(self._config.seed, "sampling", stage.number)
            sampler = self._sampler(
                self.training_documents, stage.length, key, short_probability=self._config.batch.short_probability, weighted=True
            )
            masker = Masker(self._store.vocabulary, self._config.masking, derive(self._config.seed, "masking", stage.number))
            self._current = (stage.number, sampler, masker)
        return self._current[1], self._current[2]

    def _sampler(
        self, documents: NDArray[np.int64], length: int, key: np.uint64, *, short_probability: float, weighted: bool
    ) -> SequenceSampler:
        return SequenceSampler(
            self._store,
            documents,
            length,
            key,
            pair=self._pair,
            next_sentence=self._next_sentence,
            short_probability=short_probability,
            weighted=weighted,
        )

    def _predicting(self, sequences: Sequences, masker: Masker) -> Prediction:
        if self._predict == "masked":
            return masker.mask(sequences)
        return predict_next(sequences) if self._predict == "next" else predict_previous(sequences)

    def _micro_count(self, sequences: int) -> int:
        """Micro-batches of every rank, as many on each wherever that is possible."""
        largest_share = -(-sequences // self._world)
        return -(-largest_share // (self._config.batch.micro or largest_share))

    def _micro_shares(self, sequences: int) -> list[tuple[int, int]]:
        """The ranges of this rank among the global batch's sequences, one a micro-batch.

        They are cut over all ranks at once, of sizes as equal as can be: so one rank with two micro-batches has the same as two with one.
        """
        count = self._micro_count(sequences)
        shares = [share_of(sequences, self._rank * count + number, self._world * count) for number in range(count)]
        return [(first, end) for first, end in shares if first < end]


def share_of(count: int, part: int, parts: int) -> tuple[int, int]:
    """The range of ``count`` things that falls to one of ``parts``; sizes differ by one at most."""
    return part * count // parts, (part + 1) * count // parts


@dataclass(frozen=True)
class _Cut:
    """The sequences from ``first`` to ``end`` of those made together."""

    sequences: Sequences
    prediction: Prediction
    first: int
    end: int

    @property
    def edges(self) -> tuple[int, int]:
        """Where they begin and end in the flat tokens."""
        return int(self.sequences.offsets[self.first]), int(self.sequences.offsets[self.end])

    @property
    def tokens(self) -> int:
        """Their number of tokens."""
        return self.edges[1] - self.edges[0]

    @property
    def predicted(self) -> int:
        """Their number of predicted positions."""
        first, end = self._within(self.prediction.predicted)
        return end - first

    def part(self, first: int, end: int) -> _Cut:
        """Those of them from ``first`` to ``end``, counted within."""
        return _Cut(self.sequences, self.prediction, self.first + first, self.first + end)

    def collate(self, predicted_in_step: int, sequences_in_step: int, place: int) -> Batch:
        """As tensors, with the denominators of the whole step, and the place in it."""
        start, end = self.edges
        offsets = self.sequences.offsets[self.first : self.end + 1] - start
        labels = self.sequences.next_sentence
        predicted = slice(*self._within(self.prediction.predicted))
        return Batch(
            tokens=torch.from_numpy(self.prediction.tokens[start:end]),
            segments=torch.from_numpy(self.sequences.segments[start:end]),
            positions=torch.from_numpy(self.sequences.positions[start:end]),
            offsets=torch.from_numpy(offsets),
            predicted=torch.from_numpy(self.prediction.predicted[predicted] - start),
            targets=torch.from_numpy(self.prediction.targets[predicted]),
            next_sentence=None if labels is None else torch.from_numpy(labels[self.first : self.end]),
            zeroed=self._local(self.prediction.zeroed),
            noised=self._local(self.prediction.noised),
            max_length=int(np.diff(offsets).max()),
            predicted_in_step=predicted_in_step,
            sequences_in_step=sequences_in_step,
            place=place,
        )

    def _within(self, indices: NDArray[np.int64]) -> tuple[int, int]:
        """Where those of the ascending flat ``indices`` are that fall here."""
        start, end = np.searchsorted(indices, self.edges)
        return int(start), int(end)

    def _local(self, indices: NDArray[np.int64] | None) -> Tensor | None:
        return None if indices is None else torch.from_numpy(indices[slice(*self._within(indices))] - self.edges[0])
