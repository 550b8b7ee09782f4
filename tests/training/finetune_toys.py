"""A tiny checkpoint in a folder, and tasks of every kind that it can learn in seconds."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import torch
from changing import change

from bertlab.config import CheckpointConfig, LoggerConfig, OptimizerConfig, PathsConfig, TrainerConfig
from bertlab.data.tokenizer import SPECIAL_TOKENS, Vocabulary, wordpiece
from bertlab.files import write_json
from bertlab.finetune_config import FinetuneConfig, TuningConfig
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.run_files.weight_files import write_weights
from bertlab.task_config import ColumnsConfig, TaskConfig

GOOD, BAD, PLAIN = (
    ["fine", "lovely", "bright"],
    ["grim", "dull", "sour"],
    ["the", "a", "song", "meal", "was", "very", "day", "so", "and", "it"],
)
WORDS = [*GOOD, *BAD, *PLAIN]
ARCHITECTURE = Architecture(
    vocab_size=len(SPECIAL_TOKENS) + len(WORDS),
    layers=2,
    hidden=16,
    heads=2,
    intermediate=32,
    positions=32,
    dropout=0.1,
    attention_dropout=0.1,
    initializer_range=0.2,
)
KINDS = ("classification", "regression", "choice", "tagging", "span")


def write_checkpoint(folder: Path, seed: int = 0, **changes: object) -> Path:
    """A model with its vocabulary, in the layout that ``bertlab export`` writes for models of our own."""
    architecture = dataclasses.replace(ARCHITECTURE, **changes)
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    write_weights(folder / "model.safetensors", Bert(architecture).state_dict())
    write_json(folder / "architecture.json", architecture.to_dict())
    Vocabulary(wordpiece([*SPECIAL_TOKENS, *WORDS], lowercase=True), "toy").save(folder / "tokenizer.json")
    return folder


def write_task(folder: Path, kind: str, train: int = 45, dev: int = 20) -> TaskConfig:
    """A task of a kind: whether a text has more good or bad words, how many, where they are, which choice is good."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(3)
    for split, count in (("train", train), ("dev", dev), ("test", 7)):
        rows = [_row(draw, kind) for _ in range(count)]
        if split == "test":
            rows = [{key: value for key, value in row.items() if key not in ("label", "tags", "answer")} for row in rows]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {
        "classification": ColumnsConfig(text="text", label="label"),
        "regression": ColumnsConfig(text="text", label="label"),
        "choice": ColumnsConfig(text="text", label="label", choices=["choices"]),
        "tagging": ColumnsConfig(words="words", tags="tags"),
        "span": ColumnsConfig(question="question", context="context", answer="answer"),
    }[kind]
    return TaskConfig(
        name=f"toy_{kind}",
        kind=kind,
        format="jsonl",
        path=str(folder),
        files={split: [f"{split}.jsonl"] for split in ("train", "dev", "test")},
        columns=columns,
        labels={"classification": ["bad", "good"], "tagging": ["O", "B-GOOD", "B-BAD"]}.get(kind, []),
        metrics={"classification": ["accuracy"], "regression": ["pearson"], "choice": ["accuracy"], "tagging": ["f1"], "span": ["f1"]}[
            kind
        ],
        submission={"test": "Toy.tsv"} if kind == "classification" else {},
        max_length=24,
        stride=4,
        max_query_length=4,
    )


def _text(draw: random.Random, mood: list[str]) -> list[str]:
    words = draw.choices(PLAIN, k=draw.randint(3, 9))
    for _ in range(draw.randint(1, 2)):
        words.insert(draw.randint(0, len(words)), draw.choice(mood))
    return words


def _row(draw: random.Random, kind: str) -> dict[str, object]:
    good = draw.random() < 0.6
    words = _text(draw, GOOD if good else BAD)
    if kind == "classification":
        return {"text": " ".join(words), "label": "good" if good else "bad"}
    if kind == "regression":
        return {"text": " ".join(words), "label": sum((word in GOOD) - (word in BAD) for word in words)}
    if kind == "tagging":
        return {"words": words, "tags": ["B-GOOD" if word in GOOD else "B-BAD" if word in BAD else "O" for word in words]}
    if kind == "span":
        answer = next(word for word in words if word in (*GOOD, *BAD))
        return {"question": "it was", "context": " ".join(words * 3), "answer": answer}
    right = draw.randrange(3)
    return {
        "text": "the day was",
        "choices": [" ".join(_text(draw, GOOD if place == right else BAD)) for place in range(3)],
        "label": right,
    }


def make_finetuning(folder: Path, task: TaskConfig, checkpoint: Path, /, **changes: object) -> FinetuneConfig:
    """A fine-tuning of a second: ``make_finetuning(folder, task, checkpoint, seed=2, **{"tuning.micro": 4})``."""
    config = FinetuneConfig(
        task=task,
        checkpoint=str(checkpoint),
        tuning=TuningConfig(epochs=4.0, batch=8),
        optimizer=OptimizerConfig(lr=3e-3, warmup=0.1),
        checkpointing=CheckpointConfig(every=3),
        trainer=TrainerConfig(accelerator="cpu", threads=1, log_every=4, progress=False),
        logger=LoggerConfig(kind="none"),
        paths=PathsConfig(runs=str(folder / "runs"), cache=str(folder / "cache")),
        recipe="toy",
    )
    config = dataclasses.replace(config, task=dataclasses.replace(task))
    change(config, changes)
    return config
