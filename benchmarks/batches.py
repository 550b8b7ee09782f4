"""Tokens a second on one core (CPU time) of making batches: sampling, masking and collating to tensors.

    python benchmarks/batches.py

The text is random, as large as fits the processor's caches badly (100 million tokens in a file), with documents and sentences of
lengths like Wikipedia's.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import torch

from bertlab.config import PretrainConfig
from bertlab.data.assembly import PretrainingData
from bertlab.data.schedule import plan_training
from bertlab.data.store import TokenStore

TOKENS = 100_000_000
VOCABULARY = 30_522
SECONDS = 2.0  # of CPU time a line


class SyntheticStore:
    """Random text in the layout of a token store."""

    def __init__(self, folder: Path, tokens: int) -> None:
        generator = np.random.default_rng(0)
        path = folder / "tokens.bin"
        generator.integers(1000, VOCABULARY, tokens, dtype=np.uint16).tofile(path)
        self.tokens = np.memmap(path, np.uint16, "r")
        sizes = generator.geometric(1 / 25, tokens // 25)
        ends = np.cumsum(sizes)
        ends = ends[ends < tokens]
        self.sentence_offsets = np.concatenate([[0], ends, [tokens]]).astype(np.int64)
        sentences = self.sentence_offsets.size - 1
        document_ends = np.cumsum(generator.geometric(1 / 30, sentences // 20))
        self.document_sentences = np.concatenate([[0], document_ends[document_ends < sentences], [sentences]]).astype(np.int64)
        self.document_offsets = self.sentence_offsets[self.document_sentences]
        self.documents = self.document_sentences.size - 1
        self.sources = [SimpleNamespace(name="text", first_document=0, end_document=self.documents, weight=1.0)]
        self.vocabulary = SimpleNamespace(
            size=VOCABULARY, pad=0, unknown=100, cls=101, sep=102, mask=103,
            ordinary=np.arange(999, VOCABULARY), starts_word=generator.random(VOCABULARY) < 0.8,
        )  # fmt: skip

    def split(self, held_out: float) -> tuple[np.ndarray, np.ndarray]:
        """The first documents are held out."""
        held = round(self.documents * held_out)
        return np.arange(held, self.documents), np.arange(held)


def tokens_a_second(store: SyntheticStore, kind: str, length: int, sequences: int, **masking: object) -> float:
    config = PretrainConfig()
    config.objective.kind = kind
    config.batch.length, config.batch.sequences, config.budget.steps = length, sequences, 1_000_000_000
    for name, value in masking.items():
        setattr(config.masking, name, value)
    predict = "next" if kind == "ltr" else "masked"
    data = PretrainingData(cast(TokenStore, store), config, plan_training(config), predict=predict, pair=kind == "mlm_nsp")
    data.step_batch(0)
    made, step, start = 0, 1, time.process_time()
    while time.process_time() - start < SECONDS:
        made += data.step_batch(step).tokens_in_step
        step += 1
    return made / (time.process_time() - start)


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = SyntheticStore(Path(folder), TOKENS)
        print("| length × sequences | mlm_nsp | mlm | mlm, whole words | ltr |   (million tokens a second)\n|---|---|---|---|---|")
        for length, sequences in [(32, 32), (32, 128), (32, 256), (128, 32), (128, 64), (128, 256), (512, 8), (512, 32), (512, 256)]:
            rates = [
                tokens_a_second(store, "mlm_nsp", length, sequences),
                tokens_a_second(store, "mlm", length, sequences),
                tokens_a_second(store, "mlm", length, sequences, whole_word=True),
                tokens_a_second(store, "ltr", length, sequences),
            ]
            print(f"| {length} × {sequences} | " + " | ".join(f"{rate / 1e6:.1f}" for rate in rates) + " |", flush=True)


if __name__ == "__main__":
    main()
