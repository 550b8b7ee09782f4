"""What a task puts on top of a backbone's states: mix of layers, convolution, BiLSTM, pooling, the last layer.

A head may look at every token of its sequence, before and after: what a left-to-right or right-to-left model may see is restricted in
the model itself, in fine-tuning as in pre-training, and the head reads the states that came of it. So the paper's "+ BiLSTM" row, a
bidirectional reader on top of left-to-right states, is what it says.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertlab.data.batches import Batch
from bertlab.finetune_config import FeaturesConfig, HeadConfig
from bertlab.models.architecture import Architecture
from bertlab.models.bilstm import BACKWARD, FORWARD, layouts_of, read
from bertlab.models.crf import LinearChainCRF
from bertlab.models.dropout import drop
from bertlab.models.features import is_weighted, layers_read
from bertlab.models.initialisation import initialise
from bertlab.models.pooling import pool, pooled_width, tokens_read
from bertlab.models.precision import at_least_fp32
from bertlab.models.ragged_rows import RaggedRows
from bertlab.models.task_checks import OF_A_SEQUENCE


class Convolution(nn.Module):
    """ReLU of a convolution over the tokens of each sequence (Kim 2014), as wide out as in: beyond the sequence's ends lie zeros.

    A window of ``width`` tokens reaches (width - 1) // 2 to the left and width // 2 to the right.
    """

    def __init__(self, inputs: int, filters: int, width: int) -> None:
        super().__init__()
        self.weights = nn.Linear(inputs, width * filters, bias=False)  # place after place of the window
        self.bias = nn.Parameter(torch.zeros(filters))
        self.width = width

    def forward(self, x: Tensor, sequences: Batch) -> Tensor:
        """(T, inputs) → (T, filters)."""
        rows = len(x)
        place = sequences.positions
        following = sequences.offsets[1:][RaggedRows.of(sequences.offsets, rows).of_row] - 1 - torch.arange(rows, device=x.device)
        total = self.bias.expand(rows, -1)
        for index, part in enumerate(self.weights(x).view(rows, self.width, -1).unbind(1)):
            shift = index - (self.width - 1) // 2  # of the token that is read from the one that reads
            reach = min(abs(shift), rows)
            inside = (place >= -shift) if shift < 0 else (following >= shift)
            moved = F.pad(part[: rows - reach], (0, 0, reach, 0)) if shift < 0 else F.pad(part[reach:], (0, 0, 0, reach))
            total = total + moved.masked_fill(~inside[:, None], 0)
        return F.relu(total)


class Reader(nn.Module):
    """A BiLSTM of some layers over states, each direction ``hidden`` wide, with dropout between its layers."""

    def __init__(self, inputs: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        widths = [inputs] + [2 * hidden] * (layers - 1)
        self.layers = nn.ModuleList(nn.ModuleDict({way: nn.LSTM(width, hidden) for way in (FORWARD, BACKWARD)}) for width in widths)
        self.dropout = dropout

    def forward(self, x: Tensor, sequences: Batch) -> Tensor:
        """(T, inputs) → (T, 2 hidden), the states of both directions side by side."""
        layouts = layouts_of(sequences)
        for number, lstms in enumerate(self.layers):
            assert isinstance(lstms, nn.ModuleDict)
            x = read(lstms, x if number == 0 else drop(x, self.dropout, self.training), layouts)
        return x


class LayerMix(nn.Module):
    """A learned weighted sum of n layers' states, the weights a softmax, and a learned scale (Peters et al. 2018, equation 1)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, states: Tensor) -> Tensor:
        """(T, n, H) → (T, H)."""
        return torch.einsum("tnh,n->th", states, self.scale * torch.softmax(self.weights, 0))


class Dense(nn.Module):
    """A fresh pooler: a dense layer and tanh, as the pre-trained one, over states of any width."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, outputs)

    def forward(self, states: Tensor) -> Tensor:
        """(B, inputs) → (B, outputs)."""
        return torch.tanh(self.dense(states))


class TaskHead(nn.Module):
    """All that is put on top of the backbone's states, down to the logits.

    In the order of the data: a mix of layers, convolution, BiLSTM; then, of a whole sequence, pooling, pooler, dropout and the last layer;
    of tagging the words' first sub-tokens, dropout and the last layer; of a span the last layer alone, as in the released BERT.

    Pooling "auto" takes the state that has seen the whole sequence (``Architecture.pooling``), under a BiLSTM its two ends. The pooler is
    the pre-trained one where that reads what it has always read, else a fresh one; frozen features have none.
    """

    def __init__(self, architecture: Architecture, kind: str, classes: int, config: HeadConfig, features: FeaturesConfig) -> None:
        super().__init__()
        self.kind, self.dropout = kind, config.dropout
        hidden, frozen = architecture.hidden, features.kind != "none"
        layers = len(layers_read(features.kind, architecture)) if frozen else config.layers
        self.mix = LayerMix(layers) if is_weighted(features.kind) else None
        width = hidden * (1 if self.mix else layers)
        # Pairs of halves that read rightward and leftward, side by side in the states.
        self.directions = layers if architecture.backbone == "bilstm" and architecture.directions in ("both", "pair") else 0
        self.convolution = None
        if config.convolution is not None:
            self.convolution = Convolution(width, config.filters or hidden, config.convolution)
            width, self.directions = config.filters or hidden, 0
        self.reader = None
        if frozen or config.bilstm:
            each_way = features.hidden // 2 if frozen else config.bilstm_hidden or max(1, hidden // 2)
            self.reader = Reader(width, each_way, features.layers if frozen else config.bilstm_layers, config.dropout)
            width, self.directions = 2 * each_way, 1
        automatic = architecture.pooling if self.reader is None else "ends"
        self.pooling = automatic if config.pooling == "auto" else config.pooling
        plain = layers == 1 and self.convolution is None and self.reader is None
        wants_pooler = config.pooler and not frozen and kind in OF_A_SEQUENCE
        self.takes_pretrained_pooler = wants_pooler and architecture.next_sentence and plain and self.pooling == architecture.pooling
        if kind in OF_A_SEQUENCE:
            width = pooled_width(width, self.pooling, self.directions)
        self.pooler = Dense(width, hidden) if wants_pooler and not self.takes_pretrained_pooler else None
        self.classifier = nn.Linear(
            hidden if wants_pooler else width, {"classification": classes, "tagging": classes, "span": 2}.get(kind, 1)
        )
        self.crf = LinearChainCRF(classes) if config.crf else None
        self.apply(partial(initialise, deviation=architecture.initializer_range))

    def forward(self, states: Tensor, rows: Batch, words: Tensor | None, pretrained_pooler: nn.Module | None) -> Tensor:
        """Logits, in at least fp32, of states (T, W), or (T, n, H) of n frozen layers, whose sequences lie as those of ``rows``.

        ``words`` (W,) are the states to be tagged; None where all are.
        """
        if states.dim() == 3:
            states = states.flatten(1) if self.mix is None else self.mix(states)
        if self.convolution is not None:
            states = self.convolution(states, rows)
        if self.reader is not None:
            states = self.reader(states, rows)
        if self.kind in OF_A_SEQUENCE:
            states = pool(states, rows.offsets, self.pooling, self.directions)
        elif words is not None:
            states = states.index_select(0, words)
        return self.logits(states, pretrained_pooler)

    def tokens_read(self, rows: Batch, words: Tensor | None) -> Tensor | None:
        """The tokens whose states alone, one for each sequence or word, make ``logits``; None where the head reads others too."""
        if self.mix is not None or self.convolution is not None or self.reader is not None:
            return None
        if self.kind not in OF_A_SEQUENCE:
            return words
        return tokens_read(rows.offsets, self.pooling)[0] if self.pooling in ("first", "last") else None

    def logits(self, states: Tensor, pretrained_pooler: nn.Module | None) -> Tensor:
        """Logits, in at least fp32, of the states (N, W) of sequences, of words to be tagged or of a span's tokens."""
        if self.kind in OF_A_SEQUENCE:
            pooler = pretrained_pooler if self.takes_pretrained_pooler else self.pooler
            states = states if pooler is None else pooler(states)
        if self.kind != "span":
            states = drop(states, self.dropout, self.training)
        states = at_least_fp32(states)  # logits of few bits tie, which the order of numbers and of spans would decide by chance
        with torch.autocast(states.device.type, enabled=False):
            logits: Tensor = self.classifier(states)
        return logits.view(-1) if self.kind in ("regression", "choice") else logits
