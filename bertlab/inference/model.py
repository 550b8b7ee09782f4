"""A trained model for use from Python: ``bertlab.load(RUN)``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertlab.counting import counted
from bertlab.data.batches import Batch
from bertlab.errors import UserError
from bertlab.inference.incremental import Reader
from bertlab.interop.pretrained import Pretrained, load_pretrained
from bertlab.models.pooling import pool
from bertlab.models.task_checks import layers_of

_TOKENS_AT_ONCE = 4096  # of a batch, unless one text alone has more
MASK = "[MASK]"
_LEAST_TEMPERATURE = 1e-3  # logits divided by less are too large for a softmax to tell from the likeliest word


@dataclass(frozen=True)
class Candidate:
    """A token that could stand in a masked place."""

    token: str  # as in the vocabulary: ``##`` before what continues a word
    probability: float


class Model:
    """A model with its vocabulary, in evaluation mode.

    Texts are tokenised as in training, with [CLS] before and [SEP] after them.
    """

    def __init__(self, pretrained: Pretrained, device: str = "cpu") -> None:
        self.pretrained = pretrained
        self.device = torch.device(device)
        self.bert = pretrained.bert.to(self.device)
        self.vocabulary = pretrained.vocabulary
        self._plain = pretrained.vocabulary.plain_encoder()

    @classmethod
    def load(cls, checkpoint: str | Path, runs: str | Path = "runs", device: str = "cpu") -> Model:
        """The model that ``checkpoint`` means, see ``load_pretrained``."""
        return cls(load_pretrained(str(checkpoint), Path(runs).expanduser()), device)

    def __repr__(self) -> str:
        architecture = self.pretrained.architecture
        size = f"{counted(architecture.layers, 'layer')}, {architecture.hidden} wide"
        return f"<bertlab model {self.pretrained.name}: {architecture.backbone}, {size}, {self.vocabulary.size:,} tokens>"

    @torch.no_grad()
    def fill(self, text: str, k: int = 5) -> list[list[Candidate]]:
        """The ``k`` likeliest tokens for each [MASK] of ``text``, best first; each mask by itself, with the others still masked.

        Raises:
            UserError: there is no [MASK], the text is too long, or the model is none that fills in words.
        """
        self._needs("language head", "fills in words")
        if self.bert.architecture.attention != "bidirectional":
            raise UserError(
                f"{self.pretrained.name} reads in one direction and cannot fill in words: take a model of objective=mlm or mlm_nsp"
                " (generate continues a text)."
            )
        ids, *others = (self._ids(part) for part in text.split(MASK))  # no other special token is one where it is written out
        for part in others:
            ids += [self.vocabulary.mask, *part]
        masks = [place for place, token in enumerate(ids, 1) if token == self.vocabulary.mask]
        if not masks:
            raise UserError(f"The text has no {MASK}: write {MASK}, in capitals, where a word is to be filled in.")
        batch = self._batch([(ids, [])])
        logits = self.bert.language_logits(self._hidden(batch)[torch.tensor(masks, device=self.device)])
        probabilities = logits[:, : self.vocabulary.size].softmax(-1)  # a table can have more rows than there are tokens
        best = probabilities.topk(min(k, self.vocabulary.size), -1)
        return [
            [Candidate(self._token(token), probability) for token, probability in zip(tokens, values, strict=True)]
            for tokens, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    @torch.no_grad()
    def next_sentence(self, first: str, second: str) -> float:
        """The probability that ``second`` follows ``first`` in a text.

        Raises:
            UserError: a text has no word, the texts are too long, or the model was not trained to tell.
        """
        self._needs("next-sentence head", "tells whether sentences follow one another")
        self._needs("pooler", "tells whether sentences follow one another")
        pair = self._ids(first), self._ids(second)
        if not all(pair):
            raise UserError(f"The {'second' if pair[0] else 'first'} text is empty: give two texts.")
        batch = self._batch([pair])
        logits = self.bert.next_sentence_logits(self._hidden(batch), batch.offsets)
        return float(logits.softmax(-1)[0, 0])

    def generate(
        self,
        prompt: str = "",
        max_tokens: int = 50,
        temperature: float = 1.0,
        top_k: int | None = None,
        stop: str | None = None,
        seed: int | None = None,
    ) -> str:
        """``prompt`` and what a left-to-right model writes after it.

        Args:
            prompt: the beginning.
            max_tokens: at most so many tokens are written, and no more than the model has positions for.
            temperature: below 1 the likely becomes likelier; 0 takes the likeliest always.
            top_k: choose among so many of the likeliest only.
            stop: end as soon as the continuation has this in it.
            seed: of the choices; None chooses otherwise every time.

        Raises:
            UserError: the model does not read from left to right, the prompt is too long, or ``temperature`` or ``stop`` cannot be meant.
        """
        self._needs("language head", "writes texts")
        if not (temperature == 0 or _LEAST_TEMPERATURE <= temperature < math.inf):
            raise UserError(f"temperature={temperature}: give 0, for the likeliest word always, or {_LEAST_TEMPERATURE} or more.")
        if stop == "":
            raise UserError("stop is an empty text, which every text has in it: give what the text is to end with, or leave it out.")
        reader, generator = Reader(self.bert), torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        begun = self._ids(prompt)
        self._check_length(1 + len(begun))
        logits = torch.empty(0)
        for token in (self.vocabulary.cls, *begun):
            logits = reader.read(token)
        allowed = torch.from_numpy(self.vocabulary.ordinary)
        written: list[int] = []
        while len(written) < max_tokens:
            chosen = _choose(logits.cpu()[allowed], temperature, top_k, generator)
            written.append(int(allowed[chosen]))
            if (stop is not None and stop in self._continuation(begun, written)) or reader.room == 0:
                break
            if len(written) < max_tokens:
                logits = reader.read(written[-1])
        text = prompt.rstrip() + self._continuation(begun, written)
        return text if prompt else text.lstrip()

    def evaluate(
        self,
        path: str | Path | None = None,
        kind: str = "text",
        lengths: Sequence[int] = (),
        sequences: int = 512,
        held_out: float = 0.01,
    ) -> dict[int, dict[str, Any]]:
        """Loss, perplexity and accuracy on documents of a corpus that were not trained on, by length; what ``bertlab evaluate`` prints.

        Of text that a run's model does not know these are all, of the run's own corpus those that it held out. Of a model that is no run it
        is not known what it was trained on: they are the held-out share.

        Args:
            path: the corpus's files; None is the text that every installation has.
            kind: how they are read, as in corpus.kind.
            lengths: of the sequences; none is 128, or the most that the model has positions for.
            sequences: at most so many at each length.
            held_out: the share of the documents that is evaluated on; of a run's own corpus at most what it held out itself.

        Raises:
            UserError: the corpus cannot be used, it is not known what of it the run was trained on, or the model predicts no words.
        """
        from bertlab.config import CorpusConfig
        from bertlab.interop.initial import config_without_training
        from bertlab.schemas import PRETRAIN
        from bertlab.training.evaluate import evaluate_model
        from bertlab.training.machine import process_left_as_it_is

        self._needs("language head", "predicts words")
        config, run = config_without_training(self.pretrained), self.pretrained.run
        if run is not None:
            config.paths.runs = str(run.path.parent)
            if not run.task.is_file():  # it predicts what it was trained to predict: which positions, masked how, in one segment or two
                trained = run.read_config()
                config.objective, config.masking = trained.objective, trained.masking
        config.corpus = replace(config.corpus if path is None else CorpusConfig(kind=kind, path=str(path)), held_out=held_out)
        config.validation.lengths, config.validation.sequences = list(lengths), sequences
        config.trainer.accelerator = "cpu" if self.device.type == "cpu" else "auto"
        config.trainer.progress = False
        PRETRAIN.validate(config)
        with process_left_as_it_is():
            return evaluate_model(self.bert, Path(self.pretrained.tokenizer), config, run, show=lambda line: None)

    def states(self, texts: Sequence[str], layer: int = -1) -> list[Tensor]:
        """The hidden states of each text, (its tokens, H), those of [CLS] and [SEP] included, after ``layer``.

        Layer 0 are the embeddings, -1 is the last one. What is longer than the model can read is cut off.
        """
        layers = layers_of(self.bert.architecture)
        if not -layers - 1 <= layer <= layers:
            raise UserError(f"layer={layer} does not exist: {self.pretrained.name} has the layers 0 (the embeddings) to {layers}.")
        found: dict[int, Tensor] = {}
        for places, batch in self._batches(texts):
            with torch.no_grad():
                states = self._hidden(batch) if layer == -1 else self.bert.states(batch)[layer]
            found |= zip(places, torch.split(states.cpu(), batch.offsets.diff().tolist()), strict=True)
        return [found[place] for place in range(len(texts))]

    def embed(self, texts: Sequence[str], pooling: str = "mean") -> Tensor:
        """A vector for each text, (N, H).

        ``pooling`` is mean (over the states of all its tokens) or sequence (the state that stands for it: [CLS]'s, or the last one's of
        a left-to-right model, without the pooler).
        """
        if pooling not in ("mean", "sequence"):
            raise UserError(f"pooling={pooling} is not known: choose mean or sequence.")
        if not texts:
            return torch.empty(0, self.bert.architecture.hidden)
        states = self.states(texts)
        if pooling == "mean":
            return torch.stack([state.mean(0) for state in states])
        offsets = torch.tensor([0, *(len(state) for state in states)]).cumsum(0)
        return pool(torch.cat(states), offsets, self.bert.architecture.pooling, directions=1)

    def _needs(self, head: str, what: str) -> None:
        lacking = head in self.pretrained.fresh or (head != "language head" and not self.bert.architecture.next_sentence)
        if lacking:
            raise UserError(f"{self.pretrained.name} has no trained {head}: this needs a model that {what}.")

    def _hidden(self, batch: Batch) -> Tensor:
        hidden = self.bert(batch)
        assert isinstance(hidden, Tensor)
        return hidden

    def _ids(self, text: str) -> list[int]:
        """The ids of a text, in which nothing is a special token."""
        return list(self._plain.encode(text, add_special_tokens=False).ids)

    def _token(self, token: int) -> str:
        return str(self.vocabulary.tokenizer.id_to_token(token))

    def _continuation(self, begun: list[int], written: list[int]) -> str:
        """What ``written`` adds to the text of ``begun``: with a space before it, unless it continues a word or is punctuation."""
        decode = self.vocabulary.tokenizer.decode
        before, whole = decode(begun), decode([*begun, *written])
        return str(whole[len(before) :]) if whole.startswith(before) else f" {decode(written)}"

    @property
    def _longest(self) -> int | None:
        positions = self.bert.embeddings.positions
        return None if positions is None else positions.num_embeddings

    def _check_length(self, length: int) -> None:
        if self._longest is not None and length > self._longest:
            raise UserError(f"The text has {length} tokens and {self.pretrained.name} reads {self._longest} at most: shorten it.")

    def _batches(self, texts: Sequence[str]) -> list[tuple[list[int], Batch]]:
        """The texts in batches of like length, with their places in the list."""
        room = None if self._longest is None else self._longest - 2
        ids = [self._ids(text)[:room] for text in texts]
        groups: list[list[int]] = [[]]
        for place in sorted(range(len(ids)), key=lambda place: len(ids[place])):
            if groups[-1] and (len(groups[-1]) + 1) * (len(ids[place]) + 2) > _TOKENS_AT_ONCE:
                groups.append([])
            groups[-1].append(place)
        return [(group, self._batch([(ids[place], []) for place in group])) for group in groups if group]

    def _batch(self, sequences: list[tuple[list[int], list[int]]]) -> Batch:
        """[CLS] A [SEP], or, where there is a B, [CLS] A [SEP] B [SEP]."""
        cls, sep = self.vocabulary.cls, self.vocabulary.sep
        tokens: list[int] = []
        segments: list[int] = []
        lengths: list[int] = []
        for first, second in sequences:
            a, b = [cls, *first, sep], [*second, sep] if second else []
            self._check_length(len(a) + len(b))
            tokens += a + b
            segments += [0] * len(a) + [1] * len(b)
            lengths.append(len(a) + len(b))
        return Batch(
            tokens=torch.tensor(tokens),
            segments=torch.tensor(segments),
            positions=torch.cat([torch.arange(length) for length in lengths]),
            offsets=torch.tensor([0, *lengths]).cumsum(0),
            predicted=torch.empty(0, dtype=torch.int64),
            targets=torch.empty(0, dtype=torch.int64),
            max_length=max(lengths),
        ).to(self.device)


def _choose(logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator) -> int:
    """An index of ``logits`` (V,), drawn by their probabilities."""
    if temperature == 0:
        return int(logits.argmax())
    best = logits.double().topk(min(top_k or logits.numel(), logits.numel()))
    probabilities = (best.values / temperature).softmax(-1)
    return int(best.indices[torch.multinomial(probabilities, 1, generator=generator)])
