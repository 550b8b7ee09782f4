"""A linear-chain conditional random field (Lafferty et al. 2001) over the words of sentences of unequal lengths."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertlab.data.batches import Batch
from bertlab.models.padding import PaddedLayout
from bertlab.models.precision import at_least_fp32
from bertlab.models.ragged_rows import RaggedRows


class LinearChainCRF(nn.Module):
    """Scores of tags that follow one another, begin a sentence, and end it, beside the words' own scores.

        score(y) = start[y_1] + Σ_t emission_t[y_t] + Σ_t transitions[y_{t-1}, y_t] + end[y_n],   p(y) = exp(score(y)) / Σ_y' exp(score(y'))

    All scores start at zero, so that training starts from the tagger without a CRF. Loops run over places in a sentence, all
    sentences at once; a sentence of no words has one tagging, with probability 1. Everything is in at least fp32.
    """

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(torch.zeros(tags, tags))  # [from, to]

    def log_likelihood(self, emissions: Tensor, tags: Tensor, sentences: Batch) -> Tensor:
        """The log-probability of the ``tags`` (W,) of each sentence, given ``emissions`` (W, C) → (E,). Every tag has to be known."""
        emissions = at_least_fp32(emissions)
        with torch.autocast(emissions.device.type, enabled=False):
            return self._scores(emissions, tags, sentences) - self._log_partition(emissions, sentences)

    def _scores(self, emissions: Tensor, tags: Tensor, sentences: Batch) -> Tensor:
        place, rows = sentences.positions, len(tags)
        parts = RaggedRows.of(sentences.offsets, rows)
        last = place == (sentences.offsets.diff() - 1)[parts.of_row]
        entered = torch.where(place == 0, self.start[tags], self.transitions[tags.roll(1), tags])
        score = emissions.gather(1, tags[:, None]).view(-1) + entered + self.end[tags].masked_fill(~last, 0)
        return parts.sum(score)

    def _log_partition(self, emissions: Tensor, sentences: Batch) -> Tensor:
        layout = PaddedLayout.of(sentences)
        places = layout.pad(emissions).unbind(1)  # S of (E, C)
        total = self.start + places[0]  # (E, C) log of the sum over all taggings so far that end in a tag
        for place, emission in enumerate(places[1:], 1):
            longer = torch.logsumexp(total[:, :, None] + self.transitions, 1) + emission
            total = torch.where((place < layout.lengths)[:, None], longer, total)
        return torch.logsumexp(total + self.end, 1).masked_fill(layout.lengths == 0, 0)

    @torch.no_grad()
    def decode(self, emissions: Tensor, sentences: Batch) -> Tensor:
        """The tags (W,) of the most probable tagging of each sentence (Viterbi 1967), given ``emissions`` (W, C)."""
        emissions = at_least_fp32(emissions)
        with torch.autocast(emissions.device.type, enabled=False):
            return self._decode(emissions, sentences)

    def _decode(self, emissions: Tensor, sentences: Batch) -> Tensor:
        layout = PaddedLayout.of(sentences)
        places = layout.pad(emissions).unbind(1)  # S of (E, C)
        best = self.start + places[0]  # (E, C) score of the best tagging so far that ends in a tag
        before: list[Tensor] = []  # S - 1 of (E, C), the tag before in that tagging
        for place, emission in enumerate(places[1:], 1):
            longer, previous = (best[:, :, None] + self.transitions).max(1)
            best = torch.where((place < layout.lengths)[:, None], longer + emission, best)
            before.append(previous)
        tag = (best + self.end).argmax(1)  # (E,) of the last word
        tags = [tag]
        for place in range(layout.width - 2, -1, -1):
            # Past its end a sentence keeps its last tag.
            earlier = before[place].gather(1, tag[:, None]).view(-1)
            tag = torch.where(place + 1 < layout.lengths, earlier, tag)
            tags.append(tag)
        return layout.unpad(torch.stack(tags[::-1], 1)[..., None]).view(-1)
