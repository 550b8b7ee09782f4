"""What an objective gives back for a micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from bertlab.data.batches import Batch
from bertlab.models.bert import Bert


@dataclass
class Outcome:
    """The loss to differentiate, and sums to report.

    ``loss`` is the micro-batch's share of the step's loss: its sums divided by the counts of the whole global batch, so that the
    shares of all micro-batches and ranks add up to the loss of the one big batch. ``sums`` are detached sums (never means), which
    add up likewise: language_loss (nats), correct, predicted; with next-sentence prediction nsp_loss (nats), nsp_correct, sequences;
    of a pair of language models opposite_loss and opposite_correct, of the one that reads the other way.
    """

    loss: Tensor
    sums: dict[str, Tensor]


@dataclass(frozen=True)
class Objective:
    """A way to pre-train."""

    kind: str  # mlm_nsp | mlm | ltr | rtl
    predict: str  # masked | next | previous: what the targets of a batch are
    pair: bool  # whether sequences are two segments, A and B, or one contiguous piece
    loss: Callable[[Bert, Batch], Outcome]
