"""Reading a sequence token by token, left to right: what was read is kept, so that a token costs no reading of those before it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bertlab.data.batches import Batch
from bertlab.errors import UserError
from bertlab.models.bert import Bert
from bertlab.models.bilstm import FORWARD, BiLSTM, Recurrence, Stack
from bertlab.models.transformer import Block, Transformer


class Reader:
    """The state of a left-to-right model within one sequence. ``read`` gives what the model expects next.

    The states are those of ``Bert.forward`` over the whole sequence, computed for the newest token only.
    """

    def __init__(self, bert: Bert) -> None:
        """Stand before the first token. UserError for a model that reads in another way."""
        architecture = bert.architecture
        if architecture.attention != "causal":
            raise UserError(
                "Only a left-to-right model (objective=ltr) can continue a text: this one was trained "
                + ("to fill masked words; use fill." if architecture.attention == "bidirectional" else "to read from right to left.")
            )
        self._bert = bert
        self._backbone: Any = {Transformer: _Attending, BiLSTM: _Recurring}.get(type(bert.backbone), _Averaging)(bert)
        self._place = 0

    @property
    def room(self) -> int | None:
        """How many tokens more the model has positions for; None: any number."""
        positions = self._bert.embeddings.positions
        return None if positions is None else positions.num_embeddings - self._place

    @torch.no_grad()
    def read(self, token: int) -> Tensor:
        """Read the next token; the logits (V,) of what follows it."""
        device = self._bert.embeddings.words.weight.device

        def one(value: int) -> Tensor:
            return torch.tensor([value], device=device)

        nothing = torch.empty(0, dtype=torch.int64, device=device)
        offsets = torch.tensor([0, 1], device=device)
        batch = Batch(one(token), one(0), one(self._place), offsets, nothing, nothing, max_length=1)
        embedded, _ = self._bert.embeddings(batch)
        self._place += 1
        return self._bert.language_logits(self._backbone(embedded))[0]


class _Attending:
    """A transformer; of every layer the keys and values are kept."""

    def __init__(self, bert: Bert) -> None:
        assert isinstance(bert.backbone, Transformer)
        self._backbone = bert.backbone
        self._heads = bert.architecture.heads
        self._kept: list[tuple[Tensor, Tensor] | None] = [None] * len(bert.backbone.layers)

    def __call__(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self._backbone.layers):
            assert isinstance(block, Block)
            if block.pre:
                x = x + self._attend(number, block, block.attention_norm(x))
                x = x + block.feed_forward(block.feed_forward_norm(x))
            else:
                x = block.attention_norm(x + self._attend(number, block, x))
                x = block.feed_forward_norm(x + block.feed_forward(x))
        return x if self._backbone.norm is None else self._backbone.norm(x)

    def _attend(self, number: int, block: Block, x: Tensor) -> Tensor:
        """(1, H) → (1, H): the newest token looks at itself and at all before it."""
        query, key, value = block.attention.queries_keys_values(x).view(3, self._heads, 1, -1)  # each (A, 1, D)
        if (kept := self._kept[number]) is not None:
            key, value = torch.cat((kept[0], key), 1), torch.cat((kept[1], value), 1)  # (A, tokens, D)
        self._kept[number] = key, value
        mixed = F.scaled_dot_product_attention(query, key, value)
        return block.attention.output(mixed.reshape(1, -1))


class _Recurring:
    """An LSTM, of a pair the one that reads rightwards; of every layer the state is kept."""

    def __init__(self, bert: Bert) -> None:
        assert isinstance(bert.backbone, BiLSTM)
        stack = bert.backbone.stacks[0]
        assert isinstance(stack, Stack)
        self._stack = stack
        self._kept: list[Any] = [None] * len(stack.layers)

    def __call__(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self._stack.layers):
            assert isinstance(layer, Recurrence)
            update, self._kept[number] = layer.lstms[FORWARD](layer.norm(x) if layer.pre else x, self._kept[number])
            x = x + update if layer.residual else update
            x = x if layer.pre else layer.norm(x)
        return x if self._stack.norm is None else self._stack.norm(x)


class _Averaging:
    """A bag of words: the sums of the embeddings read so far."""

    def __init__(self, bert: Bert) -> None:
        self._norm: Any = bert.backbone.norm
        self._window = bert.architecture.window
        self._sums: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self._sums.append(self._sums[-1] + x if self._sums else x)
        total, count = self._sums[-1], len(self._sums)
        if self._window is not None and count > self._window + 1:
            total, count = total - self._sums[-self._window - 2], self._window + 1
        return self._norm(total / count)
