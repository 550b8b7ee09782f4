from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from bertlab.config import CorpusConfig, PretrainConfig, StageConfig
from bertlab.errors import UserError
from bertlab.keys import check_key, leaf_keys, words_for
from bertlab.validation import WORDS, segments_of, sequence_lengths, validate


def configured(**values: Any) -> PretrainConfig:
    """A valid configuration with some dotted keys changed: ``model__hidden=100``."""
    config = PretrainConfig()
    config.budget.steps = 100
    for name, value in values.items():
        *parents, last = name.split("__")
        target: Any = config
        for parent in parents:
            target = getattr(target, parent)
        assert hasattr(target, last), name
        setattr(target, last, value)
    return config


def stages(*parts: tuple[float, int]) -> list[StageConfig]:
    return [StageConfig(share=share, length=length) for share, length in parts]


def test_the_schema_with_a_budget_is_valid_and_gives_no_warning() -> None:
    assert validate(configured()) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"model__hidden": 100, "model__heads": 3}, ["model.hidden=100", "model.heads=3"]),
        ({"model__hidden": 101, "model__heads": 1, "backbone__kind": "bilstm"}, ["model.hidden=101", "odd"]),
        ({"backbone__directions": "forward"}, ["backbone.directions=forward", "backbone=bilstm"]),
        ({"backbone__kind": "bilstm", "backbone__window": 3}, ["backbone.window=3", "backbone=cbow"]),
        ({"objective__segments": "single"}, ["objective.segments=single", "objective=mlm"]),
        ({"model__segments": 1}, ["model.segments=1", "model.segments=2"]),
        (
            {"backbone__kind": "bilstm", "objective__kind": "ltr", "backbone__directions": "backward"},
            ["backbone.directions=backward", "objective=ltr", "directions=forward"],
        ),
        (
            {"backbone__kind": "bilstm", "objective__kind": "rtl", "backbone__directions": "forward"},
            ["backbone.directions=forward", "objective=rtl", "directions=backward"],
        ),
        ({"model__layers": 10**23}, ["model.layers=1", "at most 10,000"]),  # they would be made one by one
        ({"seed": 2**63}, [f"seed={2**63}", "less than 2^63"]),  # PyTorch's generators take no more
        ({"optimizer__lr": float("inf")}, ["optimizer.lr=inf", "a finite number"]),
        ({"paths__runs": ""}, ["paths.runs is empty"]),
        ({"masking__rate": 0.0}, ["masking.rate=0", "objective=mlm_nsp"]),
        ({"masking__mask": 0.9}, ["1.1", "add up to 1", "masking.mask=0.9", "masking.keep=0.1"]),
        ({"masking__mask": 1.2, "masking__keep": -0.3}, ["masking.mask=1.2", "between 0 and 1"]),
        ({"masking__noise_std": 0.0}, ["masking.noise_std=0.0", "more than 0"]),
        ({"objective__kind": "ltr", "masking__whole_word": True}, ["masking.whole_word", "objective=ltr"]),
        ({"batch__length": 600}, ["batch.length=600", "model.positions=512", "model.positions=600"]),
        ({"lengths__stages": stages((0.9, 128), (0.1, 1024))}, ["lengths.stages.1.length=1024", "model.positions=512"]),
        ({"validation__lengths": [128, 513]}, ["validation.lengths.1=513", "model.positions"]),
        ({"validation__lengths": [2]}, ["validation.lengths.0=2", "at least 5"]),
        ({"batch__length": 4}, ["batch.length=4", "at least 5"]),
        ({"objective__kind": "mlm", "batch__length": 3}, ["batch.length=3", "at least 4"]),
        ({"lengths__stages": stages((0.9, 128), (0.2, 512))}, ["1.1", "add up to 1"]),
        ({"lengths__stages": stages((1.5, 128), (-0.5, 512))}, ["lengths.stages.0.share=1.5", "between 0 and 1"]),
        ({"lengths__stages": [StageConfig(sequences=0)]}, ["lengths.stages.0.sequences=0", "more than 0"]),
        (
            {"lengths__stages": stages((1.0, 512)), "lengths__keep_tokens": True, "batch__sequences": 8, "trainer__devices": 3},
            ["batch.sequences * batch.length / 512", "2 sequences", "trainer.devices=3"],
        ),
        ({"lengths__stages": stages((1.0, 0))}, ["lengths.stages.0.length=0", "at least 5"]),
        ({"trainer__devices": 4, "batch__sequences": 3}, ["batch.sequences", "3 sequences", "trainer.devices=4"]),
        (
            {"trainer__devices": 4, "batch__sequences": 3, "lengths__stages": [StageConfig(0.5, 64, 8), StageConfig(0.5, 128)]},
            ["batch.sequences gives 3 sequences", "trainer.devices=4"],
        ),
        ({"trainer__devices": 4, "trainer__nodes": 2, "batch__sequences": 7}, ["7 sequences", "trainer.devices=4 on trainer.nodes=2"]),
        ({"trainer__strategy": "fdsp"}, ["trainer.strategy", "fsdp"]),
        ({"trainer__strategy": "fsdp", "trainer__compile": True}, ["trainer.compile", "trainer.strategy=fsdp"]),
        ({"trainer__checkpoint_activations": True, "trainer__compile": True}, ["trainer.compile", "trainer.checkpoint_activations"]),
        ({"trainer__timeout": 1e9}, ["trainer.timeout=1e+09", "a week"]),
        ({"paths__local": ""}, ["paths.local is empty"]),
        ({"budget__steps": None}, ["budget.steps", "budget.tokens", "budget.minutes", "none"]),
        ({"budget__tokens": 1e6}, ["budget.steps=100", "budget.tokens=1e+06"]),
        ({"budget__steps": None, "budget__tokens": 0.0}, ["budget.tokens=0"]),
        ({"budget__steps": None, "budget__minutes": -1.0}, ["budget.minutes=-1"]),
        ({"corpus__path": "x"}, ["corpus.path=x", "builtin", "corpus=text"]),
        ({"corpus__kind": "text"}, ["corpus.kind=text", "corpus.path"]),
        ({"corpus__kind": "text", "corpus__path": "no-such-folder"}, ["corpus.path=no-such-folder", "no such file"]),
        ({"corpus__kind": "jsonl", "corpus__path": "no-such-folder/*.jsonl"}, ["corpus.path=no-such-folder/*.jsonl"]),
        ({"corpus__kind": "mixture"}, ["corpus=mixture", "corpus.sources.wiki="]),
        ({"corpus__kind": "mixture", "corpus__path": "x", "corpus__sources": {"a": CorpusConfig()}}, ["corpus.path=x", "mixture"]),
        ({"corpus__sources": {"a": CorpusConfig()}}, ["corpus.sources", "corpus.kind=builtin"]),
        ({"corpus__kind": "mixture", "corpus__sources": {"a": CorpusConfig(kind="mixture")}}, ["corpus.sources.a", "mixture itself"]),
        (
            {"corpus__kind": "mixture", "corpus__sources": {"a": CorpusConfig(kind="text")}},
            ["corpus.sources.a.kind=text", "corpus.sources.a.path"],
        ),
        ({"corpus__kind": "mixture", "corpus__sources": {"a": CorpusConfig(kind="txt")}}, ["corpus.sources.a.kind", "'txt'", "text"]),
        ({"corpus__kind": "mixture", "corpus__sources": {"a": CorpusConfig(weight=0)}}, ["corpus.sources.a.weight=0", "more than 0"]),
        ({"corpus__held_out": 0.0}, ["corpus.held_out=0", "more than 0"]),
        ({"corpus__held_out": 1.0}, ["corpus.held_out=1", "less than 1"]),
        ({"corpus__subset": "en"}, ["corpus.subset=en", "huggingface"]),
        ({"corpus__column": "body"}, ["corpus.column=body", "corpus.kind=jsonl", "leave it out"]),
        ({"corpus__split": "test"}, ["corpus.split=test", "huggingface"]),
        (
            {"corpus__kind": "mixture", "corpus__column": "body", "corpus__sources": {"a": CorpusConfig()}},
            ["corpus.column=body", "corpus.sources.NAME.column"],
        ),
        (
            {"corpus__kind": "mixture", "corpus__sentence_splitting": "line", "corpus__sources": {"a": CorpusConfig()}},
            ["corpus.sources.NAME.sentence_splitting=line"],
        ),
        (
            {"corpus__kind": "mixture", "corpus__sources": {"a": CorpusConfig(held_out=0.2)}},
            ["corpus.sources.a.held_out=0.2", "set corpus.held_out"],
        ),
        ({"corpus__kind": "text", "corpus__path": "~nobody-here/x"}, ["corpus.path=~nobody-here/x", "no such file"]),
        ({"tokenizer__path": "~nobody-here/x"}, ["tokenizer.path=~nobody-here/x", "no such file"]),
        ({"corpus__filter__min_words": -1}, ["corpus.filter.min_words=-1", "0 or more"]),
        ({"corpus__filter__min_words": 9, "corpus__filter__max_words": 8}, ["min_words=9", "max_words=8"]),
        ({"tokenizer__vocab_size": 99}, ["tokenizer.vocab_size=99", "100"]),
        ({"tokenizer__path": ""}, ["tokenizer.path", "vocab.txt"]),
        ({"corpus__kind": "text", "corpus__path": ""}, ["corpus.path"]),
        ({"tokenizer__path": "no-such-vocab.txt"}, ["tokenizer.path=no-such-vocab.txt", "no such file"]),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(values: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(UserError) as refusal:
        validate(configured(**values))
    sentence = str(refusal.value)
    assert all(word in sentence for word in said), sentence
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))


@pytest.mark.parametrize("key", sorted(WORDS))
def test_every_enumerated_word_is_checked_and_the_nearest_offered(key: str) -> None:
    right = WORDS[key][-1]
    with pytest.raises(UserError, match=f"Unknown {re.escape(key)} '{right}x'.*{right}"):
        validate(configured(**{key.replace(".", "__"): f"{right}x"}))


POSITIVE = [
    "model.layers",
    "model.hidden",
    "model.heads",
    "model.intermediate",
    "model.positions",
    "model.segments",
    "model.epsilon",
    "model.initializer_range",
    "backbone.window",
    "batch.sequences",
    "batch.length",
    "batch.micro",
    "optimizer.lr",
    "optimizer.epsilon",
    "optimizer.clip",
    "budget.steps",
    "validation.every",
    "validation.sequences",
    "checkpointing.every",
    "checkpointing.keep_every",
    "trainer.devices",
    "trainer.nodes",
    "trainer.timeout",
    "trainer.threads",
    "trainer.log_every",
]
BELOW_ONE = ["model.dropout", "model.attention_dropout", "optimizer.beta1", "optimizer.beta2", "optimizer.warmup"]
SHARES = ["masking.rate", "masking.mask", "masking.keep", "masking.random", "masking.zero", "masking.noise", "batch.short_probability"]
OUT_OF_RANGE = (
    [(key, value) for key in POSITIVE for value in (0, -1, float("nan"), float("inf"))]
    + [(key, value) for key in BELOW_ONE for value in (1.0, -0.1, float("nan"))]
    + [(key, value) for key in SHARES for value in (1.01, -0.01)]
    + [("optimizer.weight_decay", -0.1), ("trainer.workers", -1), ("seed", -1), ("norm.momentum", 0.0), ("norm.momentum", 1.1)]
    + [("launcher.gpus", -1), ("launcher.requeues", -1)]
    + [(f"launcher.{key}", value) for key in ("cpus", "warning", "concurrency") for value in (0, -1)]
)


@pytest.mark.parametrize(("key", "value"), OUT_OF_RANGE, ids=str)
def test_numbers_out_of_their_range_are_refused_under_their_key(key: str, value: float) -> None:
    with pytest.raises(UserError, match=re.escape(f"{key}={value}")):
        validate(configured(**{key.replace(".", "__"): value}))


def test_no_number_of_the_schema_is_left_unbounded() -> None:
    """A number that a user could set to nonsense unnoticed would be one that no rule above names."""
    checked_elsewhere = [
        "tokenizer.vocab_size",
        "corpus.held_out",
        "corpus.weight",
        "corpus.filter.min_words",
        "corpus.filter.max_words",
        "masking.noise_std",
        "budget.tokens",
        "budget.minutes",
    ]
    kinds = {key: words_for(check_key(key, PretrainConfig)).split(" or ")[0] for key in leaf_keys(PretrainConfig)}
    numbers = {key for key, kind in kinds.items() if kind in ("a number", "a whole number")}
    assert "batch.micro" in numbers
    assert numbers <= {key for key, _ in OUT_OF_RANGE} | set(checked_elsewhere)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"norm__kind": "batch", "objective__kind": "ltr"}, "norm=batch under objective=ltr"),
        ({"masking__rate": 0.3, "objective__kind": "rtl"}, "masking has no effect under objective=rtl"),
        ({"backbone__kind": "cbow", "backbone__window": 5}, "[CLS], which reads no more than the first 5 words"),
        ({"batch__micro": 512}, "batch.micro=512 is more than a batch has (256 sequences)"),
        ({"corpus__weight": 2.0}, "corpus.weight has no effect"),
        ({"trainer__strategy": "ddp"}, "trainer.strategy=ddp runs on a single device"),
        ({"trainer__checkpoint_activations": True, "backbone__kind": "cbow"}, "trainer.checkpoint_activations has no effect"),
        ({"lengths__stages": stages((0.9, 128), (0.1, 512)), "batch__length": 64}, "batch.length=64 is the length of no sequence"),
    ],
    ids=str,
)
def test_what_may_not_be_meant_is_warned_of(values: dict[str, Any], said: str) -> None:
    warnings = validate(configured(**values))
    assert len(warnings) == 1
    assert said in warnings[0]


@pytest.mark.parametrize(("keep_tokens", "said"), [(True, "how many sequences a step has: 200,000 sequences of 128"), (False, None)])
def test_a_length_that_no_sequence_has_may_still_decide_how_many_there_are(keep_tokens: bool, said: str | None) -> None:
    values = {"lengths__stages": stages((0.9, 128), (0.1, 512)), "lengths__keep_tokens": keep_tokens, "batch__length": 100_000}
    (warning,) = validate(configured(**values))
    assert (said in warning) if said else ("sequences" not in warning)


@pytest.mark.parametrize("objective", WORDS["objective.kind"])
@pytest.mark.parametrize("backbone", WORDS["backbone.kind"])
@pytest.mark.parametrize("norm", WORDS["norm.kind"])
@pytest.mark.parametrize("placement", WORDS["norm.placement"])
def test_every_objective_backbone_and_norm_go_together(objective: str, backbone: str, norm: str, placement: str) -> None:
    validate(configured(objective__kind=objective, backbone__kind=backbone, norm__kind=norm, norm__placement=placement))


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: folder,
        lambda folder: folder / "a.txt",
        lambda folder: folder / "*.txt",
        lambda folder: folder.parent / "**" / "a.txt",
    ],
)
def test_files_folders_and_globs_that_exist_are_taken(make: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("One sentence.")
    validate(configured(corpus__kind="text", corpus__path=str(make(folder))))


@pytest.mark.parametrize("backbone", ["bilstm", "cbow"])
def test_backbones_without_a_position_table_read_any_length(backbone: str) -> None:
    validate(configured(backbone__kind=backbone, batch__length=4096))


def test_a_hub_id_needs_no_folder_of_that_name() -> None:
    validate(configured(corpus__kind="huggingface", corpus__path="someone/something"))


def test_a_mixture_of_sources_that_exist_is_valid(tmp_path: Path) -> None:
    sources = {"docs": CorpusConfig(), "mine": CorpusConfig(kind="sentences", path=str(tmp_path), weight=2.0)}
    assert validate(configured(corpus__kind="mixture", corpus__sources=sources)) == []


def test_shares_written_in_decimals_may_miss_one_by_rounding() -> None:
    validate(configured(lengths__stages=stages((0.7, 32), (0.2, 64), (0.1, 128))))  # 0.7 + 0.2 + 0.1 is 0.9999999999999999


def test_segments_and_lengths_are_those_of_the_schedule() -> None:
    assert [segments_of(configured(objective__kind=kind)) for kind in ("mlm_nsp", "mlm", "ltr")] == ["pair", "single", "single"]
    assert segments_of(configured(objective__kind="mlm", objective__segments="pair")) == "pair"
    assert sequence_lengths(configured(lengths__stages=stages((0.9, 32), (0.1, 64)))) == [32, 64]
    assert sequence_lengths(configured(batch__length=77)) == [77]


def test_every_section_of_the_configuration_is_a_dataclass_or_a_value() -> None:
    assert {field.name for field in fields(PretrainConfig)} == {key.split(".")[0] for key in leaf_keys(PretrainConfig)}
