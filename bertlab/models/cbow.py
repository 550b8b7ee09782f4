"""A bag of words: the mean of the context's embeddings (the shape of word2vec's CBOW, Mikolov et al. 2013), the floor for encoders."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertlab.data.batches import Batch
from bertlab.models.architecture import Architecture
from bertlab.models.norms import make_norm
from bertlab.models.padding import PaddedLayout
from bertlab.models.precision import at_least_fp32
from bertlab.models.ragged_rows import part_of_each_row


class BagOfWords(nn.Module):
    """The mean over what a position may look at, within ``window`` words of it, then a norm. The order of the words plays no part.

    bidirectional: all other tokens of the sequence, never the position's own. causal: itself and the tokens before it. anticausal:
    itself and the tokens after it.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.norm = make_norm(architecture)
        self.attention = architecture.attention
        self.window = architecture.window

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """(T, H) → (T, H)."""
        own = self.attention != "bidirectional"
        sums, counts = x.new_zeros(x.shape), torch.zeros_like(batch.positions)
        if self.attention != "anticausal":
            sums, counts = self._before(x, PaddedLayout.of(batch), batch.positions, own)
        if self.attention != "causal":
            lengths = batch.offsets.diff()
            row = part_of_each_row(lengths, len(x))
            after, counts_after = self._before(x, PaddedLayout.of(batch, reverse=True), lengths[row] - 1 - batch.positions, own)
            sums, counts = sums + after, counts + counts_after
        return self.norm((sums / counts.clamp(min=1)[:, None]).to(x.dtype))

    def states(self, x: Tensor, batch: Batch) -> list[Tensor]:
        """(T, H) → what its one layer makes of it."""
        return [self(x, batch)]

    def parts(self) -> list[list[nn.Module]]:
        """The modules of its one layer."""
        return [[self.norm]]

    def _before(self, x: Tensor, layout: PaddedLayout, places: Tensor, own: bool) -> tuple[Tensor, Tensor]:
        """Sums (T, H) over the tokens read before each, with its ``own`` or not, and how many they are (T,).

        ``places`` (T,) counts what was read before a token. Sums run within a sequence, so no sequence touches another even in
        rounding, and an excluded token is never added in the first place.
        """
        padded = layout.pad(at_least_fp32(x))  # (B, S, H)
        running = torch.cat((torch.zeros_like(padded[:, :1]), padded.cumsum(1)), 1)  # (B, S + 1, H), what lies before slot s
        end = running[:, 1:] if own else running[:, :-1]
        if self.window is None:
            return layout.unpad(end), places + int(own)
        slots = torch.arange(layout.width, device=x.device)
        start = running.index_select(1, (slots - self.window).clamp(min=0))
        return layout.unpad(end - start), places.clamp(max=self.window) + int(own)
