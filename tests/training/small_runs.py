"""Pre-trainings of a second on invented text."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from changing import change

from bertlab.config import (
    BudgetConfig,
    CheckpointConfig,
    CorpusConfig,
    LoggerConfig,
    ModelConfig,
    PathsConfig,
    PretrainConfig,
    TrainerConfig,
)

# What make_config is. It stands here for processes of tests: there are several conftest.py, and which one they find is chance.
MakeConfig = Callable[..., PretrainConfig]


def write_corpus(folder: Path) -> Path:
    """Twenty documents of invented sentences, in each of which a word depends on the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(5)
    words = ["".join(draw.choice("bdklmnrst") + draw.choice("aeiou") for _ in range(draw.randint(1, 3))) for _ in range(120)]
    followers = {word: draw.sample(words, 4) for word in words}
    for number in range(20):
        sentences = []
        for _ in range(40):
            sentence = [draw.choice(words)]
            while len(sentence) < 9:
                sentence.append(draw.choice(followers[sentence[-1]]))
            sentences.append(" ".join(sentence).capitalize() + ".")
        (folder / f"{number:02d}.txt").write_text("\n".join(sentences) + "\n")
    return folder


def small_pretraining(corpus: Path, cache: Path, runs: Path, /, **changes: object) -> PretrainConfig:
    """``small_pretraining(corpus, cache, runs, seed=2, **{"batch.micro": 4})``."""
    config = PretrainConfig(
        model=ModelConfig(name="small", layers=1, hidden=32, heads=2, positions=64),
        corpus=CorpusConfig(kind="text", path=str(corpus), held_out=0.2, sentence_splitting="line"),
        budget=BudgetConfig(steps=30),
        checkpointing=CheckpointConfig(every=3),
        trainer=TrainerConfig(accelerator="cpu", threads=1, log_every=4, progress=False),
        logger=LoggerConfig(kind="none"),
        paths=PathsConfig(runs=str(runs), cache=str(cache)),
    )
    config.tokenizer.vocab_size = 200
    config.batch.sequences, config.batch.length = 8, 24
    config.optimizer.lr, config.optimizer.warmup = 1e-3, 0.1
    config.validation.sequences = 16
    change(config, changes)
    return config
