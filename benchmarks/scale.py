"""Start-up time and memory of making batches from a token store as large as Wikipedia and Books together.

    python benchmarks/scale.py [--folder DIR]

Writes a store of 4.4 billion tokens, 180 million sentences and 6 million documents (11,000 of them whole books) to a temporary folder:
the tokens are a hole of 8.8 GB in a file, the offsets are real and take 1.6 GB. Then a process of its own, with the files thrown out
of the system's cache, opens it and makes the first batch and a thousand more, at length 128 and at 512.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

BOOKS, BOOK_SENTENCES = 11_000, 4_000
ARTICLES, ARTICLE_SENTENCES = 6_000_000, 22.7
SENTENCE_TOKENS = 24.4
VOCABULARY = 30_522
BATCHES = 1000


def write_store(folder: Path) -> None:
    """The files of a token store, but with nothing in place of hashes and text."""
    from bertlab.data import store as layout
    from bertlab.data.tokenizer import SPECIAL_TOKENS, Vocabulary, wordpiece

    generator = np.random.default_rng(0)
    sentences_of = np.concatenate(
        [generator.geometric(1 / ARTICLE_SENTENCES, ARTICLES), generator.poisson(BOOK_SENTENCES, BOOKS)]
    )  # as in a mixture: one source after the other
    document_sentences = np.concatenate([[0], np.cumsum(sentences_of)]).astype(layout.OFFSET_TYPE)
    document_sentences.tofile(folder / layout.DOCUMENT_SENTENCES)
    generator.integers(0, 1 << 63, sentences_of.size, dtype=np.uint64).tofile(folder / layout.DOCUMENT_HASHES)
    tokens = 0
    with (folder / layout.SENTENCE_OFFSETS).open("wb") as file:
        np.zeros(1, layout.OFFSET_TYPE).tofile(file)
        for first in range(0, int(document_sentences[-1]), 1 << 22):
            count = min(1 << 22, int(document_sentences[-1]) - first)
            offsets = tokens + np.cumsum(generator.geometric(1 / SENTENCE_TOKENS, count))
            offsets.astype(layout.OFFSET_TYPE).tofile(file)
            tokens = int(offsets[-1])
    with (folder / layout.TOKENS).open("wb") as file:
        file.truncate(2 * tokens)
    words = [*SPECIAL_TOKENS, *(f"w{n}" for n in range(VOCABULARY - len(SPECIAL_TOKENS)))]
    Vocabulary(wordpiece(words, lowercase=True), "this benchmark").save(folder / layout.TOKENIZER)
    sources = [("wikipedia", 0, ARTICLES), ("books", ARTICLES, ARTICLES + BOOKS)]
    manifest = {
        "format": layout.FORMAT,
        "documents": sentences_of.size,
        "sentences": int(document_sentences[-1]),
        "tokens": tokens,
        "token_type": "uint16",
        "sources": [{"name": name, "first_document": first, "end_document": end} for name, first, end in sources],
        "files": {name: {"bytes": (folder / name).stat().st_size, "blake2b": ""} for name in layout.FILES},
    }
    (folder / layout.MANIFEST).write_text(json.dumps(manifest))


def forget(folder: Path) -> None:
    """Throws the files out of the system's cache, as after a restart."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class MemoryWatch(threading.Thread):
    """Looks every few milliseconds at what this process holds; ``peaks`` in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, float] = {}

    def run(self) -> None:
        """Watch until the process ends."""
        while True:
            lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            for key in ("RssAnon", "VmRSS"):
                self.peaks[key] = max(self.peaks.get(key, 0), int(lines[key].split()[0]) / 1024)
            time.sleep(0.005)

    def __str__(self) -> str:
        return f"peak of own memory {self.peaks['RssAnon']:,.0f} MB, with the mapped files {self.peaks['VmRSS']:,.0f} MB"


def measure(folder: Path) -> None:
    start = time.perf_counter()
    watch = MemoryWatch()
    watch.start()
    import torch

    from bertlab.config import LengthsConfig, PretrainConfig, StageConfig
    from bertlab.data.assembly import PretrainingData
    from bertlab.data.schedule import plan_training
    from bertlab.data.store import TokenStore

    torch.set_num_threads(1)
    print(f"imports: {time.perf_counter() - start:.1f} s; {watch}")
    start = time.perf_counter()
    config = PretrainConfig(lengths=LengthsConfig(stages=[StageConfig(0.9, 128, 256), StageConfig(0.1, 512, 256)]))
    config.budget.steps = 1_000_000
    store = TokenStore.open(folder)
    print(f"store: {store.token_count:,} tokens, {store.sentences:,} sentences, {store.documents:,} documents")
    plan = plan_training(config)
    data = PretrainingData(store, config, plan, predict="masked", pair=True)
    for stage in plan.stages:
        assert stage.first_step is not None
        data.step_batch(stage.first_step)
        print(f"length {stage.length}: first batch after {time.perf_counter() - start:.1f} s; {watch}", flush=True)
        start, tokens = time.perf_counter(), 0
        for step in range(stage.first_step + 1, stage.first_step + 1 + BATCHES):
            tokens += data.step_batch(step).tokens_in_step
        seconds = time.perf_counter() - start
        print(
            f"length {stage.length}: {BATCHES} batches more in {seconds:.1f} s ({tokens / seconds / 1e6:.1f} M tokens/s); {watch}",
            flush=True,
        )
        start = time.perf_counter()
    data.validation_batches(128)
    print(f"validation batches: {time.perf_counter() - start:.1f} s; {watch}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the store is written and left, to be used again; default: a temporary folder")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "manifest.json").exists():
            write_store(folder)
        forget(folder)
        subprocess.run([sys.executable, __file__, "--measure", "--folder", str(folder)], check=True)


if __name__ == "__main__":
    main()
