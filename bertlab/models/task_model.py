"""A pre-trained model under a task's head: outputs and losses of the five kinds of tasks. A plain module, usable by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from bertlab.arrays import Int64s
from bertlab.data.batches import Batch
from bertlab.data.task_batch import TaskBatch
from bertlab.finetune_config import FeaturesConfig, HeadConfig
from bertlab.models import task_losses
from bertlab.models.bert import Bert
from bertlab.models.features import FeatureSource, frozen_states, kept_features, layers_read
from bertlab.models.norms import TokenBatchNorm
from bertlab.models.task_checks import check_head
from bertlab.models.task_heads import TaskHead


@dataclass
class Outputs:
    """What a task model makes of a batch, in at least fp32."""

    # classification (E, classes); regression (E,), the numbers; choice (S,), one a sequence; tagging (W, classes), one row a word; span
    # (T, 2), of each token as the answer's first and as its last one
    logits: Tensor

    @property
    def starts(self) -> Tensor:
        """Of a span: (T,) of each token as the answer's first one."""
        return self.logits[:, 0]

    @property
    def ends(self) -> Tensor:
        """Of a span: (T,) of each token as the answer's last one."""
        return self.logits[:, 1]


@dataclass
class TaskLoss:
    """The loss to differentiate, and sums to report.

    ``loss`` is the micro-batch's share of the step's loss: its sum divided by the count of the whole global batch. ``sums`` are
    detached: task_loss, summed over the micro-batch, and items, how many things that is: examples; of tagging words, of span windows.
    """

    loss: Tensor
    sums: dict[str, Tensor]


class TaskModel(nn.Module):
    """A ``Bert`` under a head (see ``TaskHead``) for tasks of a ``kind``, with ``classes`` classes or tags.

    With features of another kind than "none" the whole ``Bert`` is frozen and in evaluation mode. Otherwise all of it that the task uses is
    trained, unless ``bertlab.models.freezing`` says less; the heads of pre-training stay where they are, untrained.
    """

    def __init__(self, bert: Bert, kind: str, classes: int, head: HeadConfig, features: FeaturesConfig) -> None:
        """UserError for a head that the task can't have or the model can't feed. Draws from PyTorch's global generator."""
        super().__init__()
        check_head(kind, head, features, bert.architecture)
        self.kind, self.layers, self.features = kind, head.layers, features.kind
        self.bert = bert
        self.head = TaskHead(bert.architecture, kind, classes, head, features)
        unused = [bert.language_head, bert.next_sentence_head, None if self.head.takes_pretrained_pooler else bert.pooler]
        bert.requires_grad_(not self.is_frozen)
        for module in unused:
            if module is not None:
                module.requires_grad_(False)
        self.train()

    @property
    def is_frozen(self) -> bool:
        """Whether the approach is feature-based."""
        return self.features != "none"

    def head_parameters(self) -> list[nn.Parameter]:
        """What is trained beside embeddings and backbone: the fresh parts, and the pre-trained pooler where it is used."""
        pooler = self.bert.pooler if self.head.takes_pretrained_pooler else None
        return [*self.head.parameters(), *([] if pooler is None else pooler.parameters())]

    def train(self, mode: bool = True) -> Self:
        """Training mode, but for what is frozen: features are made without dropout, and a frozen norm's running statistics stay.

        A layer that is frozen in fine-tuning keeps its dropout: freezing changes what is trained and nothing else.
        """
        super().train(mode)
        if self.is_frozen:
            self.bert.eval()
        for module in self.bert.modules():
            if isinstance(module, TokenBatchNorm) and not module.weight.requires_grad:
                module.eval()
        return self

    def outputs(self, batch: TaskBatch) -> Outputs:
        """The logits of a batch."""
        logits: Tensor = self(batch)
        return Outputs(logits)

    def loss(self, batch: TaskBatch) -> TaskLoss:
        """The loss of a batch whose labels are known, see ``task_losses.summed_loss``."""
        total = task_losses.summed_loss(self.kind, self(batch), batch, self.head.crf)
        sums = {"task_loss": total.detach(), "items": task_losses.items(self.kind, batch)}
        return TaskLoss(total / max(1, batch.count_in_step), sums)

    def predictions(self, outputs: Outputs, batch: TaskBatch) -> Tensor:
        """Classes (E,), numbers (E,), places among an example's choices (E,), or tags (W,); an answer is found in ``tasks.answers``."""
        return task_losses.predictions(self.kind, outputs.logits, batch, self.head.crf)

    def log_probabilities(self, outputs: Outputs, batch: TaskBatch) -> Tensor:
        """Of classification (E, classes); of choice (S,), among the choices of each example."""
        return task_losses.log_probabilities(self.kind, outputs.logits, batch)

    def forward(self, batch: TaskBatch) -> Tensor:
        """The logits, see ``Outputs``."""
        words = batch.word_tokens if self.kind == "tagging" else None
        if not self.is_frozen:
            return self._trained(batch.inputs, words)
        states = self.frozen_states(batch) if batch.features is None else batch.features
        rows = batch.inputs if words is None else task_losses.sentences_of(batch)
        return self.head(states, rows, None, None)

    def _trained(self, batch: Batch, words: Tensor | None) -> Tensor:
        """The logits where the ``Bert`` is trained with the head."""
        if self.layers > 1:
            states = torch.cat(self.bert.states(batch)[-self.layers :], -1)
            return self.head(states, batch, words, self.bert.pooler)
        read = self.head.tokens_read(batch, words)
        if read is None:
            return self.head(self.bert(batch), batch, words, self.bert.pooler)
        return self.head.logits(self.bert(batch, rows=read), self.bert.pooler)

    def frozen_states(self, batch: TaskBatch) -> Tensor:
        """The states (R, n, H) that features are made of: n layers of each token, or of each word if words are tagged."""
        return frozen_states(self.bert, batch.inputs, self.features, batch.word_tokens if self.kind == "tagging" else None)

    def kept_features(
        self,
        folder: Path,
        fingerprints: tuple[str, str],
        row_offsets: Int64s,
        batches: Callable[[], Iterable[TaskBatch]],
        advance: Callable[[int], None] = lambda rows: None,
    ) -> FeatureSource:
        """The features of a split, from ``folder`` or made and kept there, for ``FeatureSource.attach``.

        Args:
            folder: Where features are kept.
            fingerprints: Of the pre-trained model and of the split's inputs.
            row_offsets: (E + 1,), where each example's rows begin: of tagging its words, else its tokens.
            batches: Gives batches, on the model's device, that hold every example of the split exactly once, in any order.
            advance: Told how many rows were made, again and again.

        Raises:
            UserError: there is not enough room on the disk.
        """
        layers = layers_read(self.features, self.bert.architecture)
        rows_are = "words" if self.kind == "tagging" else "tokens"
        made_from = {"model": fingerprints[0], "inputs": fingerprints[1], "layers": list(layers), "rows": rows_are}
        shape = (int(row_offsets[-1]), len(layers), self.bert.architecture.hidden)
        return kept_features(folder, made_from, shape, row_offsets, batches, self.frozen_states, advance)
