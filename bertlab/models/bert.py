"""The assembled model: embeddings, a backbone, and the heads of pre-training. A plain module, usable by itself."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from bertlab.data.batches import Batch
from bertlab.models.architecture import Architecture
from bertlab.models.bilstm import BiLSTM, Stack
from bertlab.models.cbow import BagOfWords
from bertlab.models.embeddings import Embeddings
from bertlab.models.heads import LanguageHead, Pooler
from bertlab.models.initialisation import initialise
from bertlab.models.pooling import pool
from bertlab.models.transformer import Transformer

Backbone = Transformer | BiLSTM | BagOfWords
BACKBONES: dict[str, type[Backbone]] = {"transformer": Transformer, "bilstm": BiLSTM, "cbow": BagOfWords}


class Bert(nn.Module):
    """``Bert(architecture)(batch)`` gives the hidden states (T, H) of the batch's tokens; the heads turn them into predictions."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.embeddings = Embeddings(architecture)
        self.backbone: Backbone = BACKBONES[architecture.backbone](architecture)
        self.language_head = LanguageHead(architecture)
        self.pooler = Pooler(architecture) if architecture.next_sentence else None
        self.next_sentence_head = nn.Linear(architecture.hidden, 2) if architecture.next_sentence else None
        self.apply(partial(initialise, deviation=architecture.initializer_range))

    def forward(self, batch: Batch, rows: Tensor | None = None, with_words: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Hidden states (T, H), one a token; and, if asked for, the word table (V, H) for ``language_loss``.

        Of ``rows`` (R,), tokens of the batch, only their states (R, H): the same ones, for which a transformer has less to compute.
        """
        embedded, words = self.embeddings(batch)
        if rows is None:
            hidden = self.backbone(embedded, batch)
        elif isinstance(self.backbone, Transformer):
            hidden = self.backbone(embedded, batch, rows)
        else:
            hidden = self.backbone(embedded, batch).index_select(0, rows)
        return (hidden, words) if with_words else hidden

    def states(self, batch: Batch) -> list[Tensor]:
        """What every layer makes of the batch: the embeddings' output, then layers 1 to L, each (T, H).

        The last one is what ``forward`` gives, so under placement "pre" it is after the final norm, which counts with the top layer.
        A bag of words has one layer.
        """
        embedded, _ = self.embeddings(batch)
        return [embedded, *self.backbone.states(embedded, batch)]

    def checkpoint_activations(self) -> None:
        """From now on keep in training only what goes into each layer, see ``recomputing``: the same numbers in less memory."""
        for module in self.modules():
            if isinstance(module, Transformer | Stack):
                module.recompute = True

    def pool(self, hidden: Tensor, offsets: Tensor) -> Tensor:
        """The state that stands for each sequence (B, H), see ``Architecture.pooling``; through the pooler where there is one.

        ``offsets`` (B + 1,): where the sequences begin among the ``hidden`` states, of all tokens or of those that ``tokens_read`` names.
        """
        states = pool(hidden, offsets, self.architecture.pooling, directions=1)
        return states if self.pooler is None else self.pooler(states)

    def next_sentence_logits(self, hidden: Tensor, offsets: Tensor) -> Tensor:
        """(B, 2): entry 0 speaks for "B follows A", as in BERT. The arguments are those of ``pool``."""
        if self.next_sentence_head is None:
            raise ValueError("this model was built without a next-sentence head")
        return self.next_sentence_head(self.pool(hidden, offsets))

    def language_logits(self, states: Tensor) -> Tensor:
        """States (P, W) → logits over the vocabulary (P, V); W is ``Architecture.language_width``."""
        return self.language_head(states, self.embeddings.words.weight)

    def language_loss(self, states: Tensor, targets: Tensor, denominator: float, words: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The cross-entropy of predicting ``targets`` (P,) from ``states`` (P, W), summed and divided by ``denominator``.

        Also the number of positions whose target is the highest, as a tensor without gradient. ``words`` is the word table that came
        with the states: the result is the same without it, the gradient takes longer.
        """
        return self.language_head.loss(states, self.embeddings.words.weight if words is None else words, targets, denominator)
