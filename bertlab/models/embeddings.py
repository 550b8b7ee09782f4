"""From ids to vectors: the sum of a word's, a position's and a segment's embedding, normalised, with dropout."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bertlab.data.batches import Batch
from bertlab.models.architecture import Architecture
from bertlab.models.dropout import drop, standard_normal
from bertlab.models.norms import make_norm


class Embeddings(nn.Module):
    """The input of every backbone.

    A transformer is told positions and segments. An LSTM reads in order and so is told segments only. A bag of words has no order
    to be told about and takes the words alone, as word2vec does. Under placement "pre" the first norm stands inside the backbone.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        kind, hidden = architecture.backbone, architecture.hidden
        self.words = nn.Embedding(architecture.vocab_size, hidden)
        self.positions = nn.Embedding(architecture.positions, hidden) if kind == "transformer" else None
        self.segments = nn.Embedding(architecture.segments, hidden) if kind != "cbow" else None
        self.norm = make_norm(architecture) if architecture.placement == "post" else None
        self.dropout = architecture.dropout
        self.noise_std = architecture.noise_std

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(T,) ids → (T, H), and the word table (V, H) for the output embedding, see ``_Shared``."""
        table: Tensor = self.words.weight
        if batch.tokens.is_cuda:  # where a pass over the table costs nothing, and torch.compile may be at work
            words = F.embedding(batch.tokens, table)
        else:
            words, table = _Shared.apply(table, batch.tokens)
        x = self._corrupted(words, batch)
        if self.positions is not None:
            x = x + self.positions(batch.positions)
        if self.segments is not None:
            x = x + self.segments(batch.segments)
        if self.norm is not None:
            x = self.norm(x)
        return drop(x, self.dropout, self.training), table

    def _corrupted(self, words: Tensor, batch: Batch) -> Tensor:
        """Word embeddings with the denoising objective's corruptions: the word is hidden, its position and segment are not."""
        if batch.zeroed is not None:
            words = words.index_fill(0, batch.zeroed, 0.0)
        if batch.noised is not None:
            spread = self.noise_std * self.words.weight.detach().std()
            noise = standard_normal(batch.noised.numel(), words.shape[1], like=words)
            words = words.index_add(0, batch.noised, noise * spread)
        return words


class _Shared(torch.autograd.Function):
    """Rows of a table, and the table once more for its use as output embedding.

    The gradient of the first use is added to that of the second in place, row by row: a dense gradient of its own and the sum of the
    two would cost several passes over the whole table for the few rows that a batch reads.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(tokens)
        ctx.set_materialize_grads(False)
        ctx.like = table.detach()
        return table.index_select(0, tokens), table.view_as(table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_rows: Tensor | None, of_table: Tensor | None) -> tuple[Tensor | None, None]:
        (tokens,) = ctx.saved_tensors
        if of_rows is None:
            return of_table, None
        total = torch.zeros_like(ctx.like) if of_table is None else of_table
        return total.index_add_(0, tokens, of_rows.to(total.dtype)), None
