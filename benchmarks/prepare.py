"""How fast ``bertlab prepare`` is beside what ``tokenizers`` alone does: the rate of the whole preparation over that of ``encode_batch``.

    python benchmarks/prepare.py ../shared/data/wikipedia --kind wikiextractor --vocab ../shared/data/vocab/bert-base-uncased-vocab.txt

Both use the same cores on the same text, alternately. Prepare reads the files, splits sentences, tokenises, hashes, writes and joins the
store, its processes started anew; ``encode_batch`` gets the text in memory, once as paragraphs and once as sentences, and its result
is thrown away.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "true"

from bertlab.config import CorpusConfig, PathsConfig, TokenizerConfig
from bertlab.data.documents import ReadingReport
from bertlab.data.pieces import pieces
from bertlab.data.prepare import prepare
from bertlab.data.readers import read
from bertlab.data.sentences import split_sentences
from bertlab.data.tokenizer import given_vocabulary
from bertlab.data.workers import available_cores

BATCH = 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a file or folder of text")
    parser.add_argument("--kind", default="text")
    parser.add_argument("--vocab", required=True, help="a vocab.txt, tokenizer.json or Hugging Face folder")
    parser.add_argument("--megabytes", type=int, default=20, help="of files to read")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "corpus"
        size = link_files(arguments.path, folder, arguments.megabytes * 10**6) / 1e6
        corpus = CorpusConfig(kind=arguments.kind, path=str(folder))
        compare(corpus, TokenizerConfig(path=arguments.vocab), Path(scratch) / "cache", size, arguments.runs)


def link_files(source: Path, folder: Path, wanted: int) -> int:
    """Link as many files of ``source`` into ``folder`` as make ``wanted`` bytes; returns how many bytes they are."""
    folder.mkdir()
    taken = 0
    for number, path in enumerate(sorted(p for p in [source, *source.rglob("*")] if p.is_file())):
        if taken >= wanted:
            break
        (folder / f"{number:06d}{path.suffix}").symlink_to(path.resolve())
        taken += path.stat().st_size
    return taken


def compare(corpus: CorpusConfig, tokenizer: TokenizerConfig, cache: Path, megabytes: float, runs: int) -> None:
    paragraphs = [block for piece in pieces(corpus) for document in read(piece, ReadingReport()) for block in document.blocks]
    sentences = [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]
    raw = given_vocabulary(str(tokenizer.path), tokenizer.lowercase).tokenizer

    def encode(texts: list[str]) -> None:
        for start in range(0, len(texts), BATCH):
            raw.encode_batch(texts[start : start + BATCH], add_special_tokens=False)

    def prepare_anew() -> None:
        shutil.rmtree(cache, ignore_errors=True)
        prepare(corpus, tokenizer, PathsConfig(cache=str(cache)), progress=False, say=lambda _: None)

    contestants: dict[str, Callable[[], None]] = {
        "encode_batch of paragraphs": lambda: encode(paragraphs),
        "encode_batch of sentences": lambda: encode(sentences),
        "prepare": prepare_anew,
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(runs):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            contestant()
            seconds[name].append(time.perf_counter() - start)
    rates = {name: megabytes / statistics.median(taken) for name, taken in seconds.items()}
    print(f"{megabytes:.1f} MB, {available_cores()} cores, median of {runs} alternating runs")
    for name, rate in rates.items():
        print(f"{name:28} {rate:6.2f} MB/s   prepare is {rates['prepare'] / rate:.2f} of it")


if __name__ == "__main__":
    main()
