"""From ids to vectors: the sum of a word's, a position's and a segment's embedding, normalised, with dropout."""

from __future__ import annotations

from torch import Tensor, nn

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

    def forward(self, batch: Batch) -> Tensor:
        """(T,) ids → (T, H)."""
        x: Tensor = self._corrupted(self.words(batch.tokens), batch)
        if self.positions is not None:
            x = x + self.positions(batch.positions)
        if self.segments is not None:
            x = x + self.segments(batch.segments)
        if self.norm is not None:
            x = self.norm(x)
        return drop(x, self.dropout, self.training)

    def _corrupted(self, words: Tensor, batch: Batch) -> Tensor:
        """Word embeddings with the denoising objective's corruptions: the word is hidden, its position and segment are not."""
        if batch.zeroed is not None:
            words = words.index_fill(0, batch.zeroed, 0.0)
        if batch.noised is not None:
            spread = self.noise_std * self.words.weight.detach().std()
            noise = standard_normal(batch.noised.numel(), words.shape[1], like=words)
            words = words.index_add(0, batch.noised, noise * spread)
        return words
