"""What cannot be meant is refused here, before anything heavy is imported: one sentence that names the keys and what to change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bertlab import checks
from bertlab.checks import BOUNDS, Bounds, check_numbers, check_paths, check_trainer, check_words, devices_in_words, trainer_warnings
from bertlab.config import MaskingConfig, PretrainConfig, StageConfig
from bertlab.corpus_validation import CORPUS_KINDS, SENTENCE_SPLITTINGS, check_corpus
from bertlab.counting import counted
from bertlab.errors import UserError
from bertlab.launcher_validation import check_launcher

# The words that a key of words can hold. Completion offers them as well.
WORDS: dict[str, tuple[str, ...]] = {
    "model.activation": ("gelu", "gelu_tanh", "relu"),
    "backbone.kind": ("transformer", "bilstm", "cbow"),
    "backbone.directions": ("auto", "both", "forward", "backward"),
    "norm.kind": ("layer", "batch"),
    "norm.placement": ("post", "pre"),
    "objective.kind": ("mlm_nsp", "mlm", "ltr", "rtl"),
    "objective.segments": ("auto", "pair", "single"),
    "corpus.kind": CORPUS_KINDS,
    "corpus.sentence_splitting": SENTENCE_SPLITTINGS,
    **checks.WORDS,
}

_POSITIVE = (
    "model.layers",
    "model.hidden",
    "model.heads",
    "model.intermediate",
    "model.positions",
    "model.segments",
    "model.epsilon",
    "model.initializer_range",
    "backbone.window",
    "masking.noise_std",
    "batch.sequences",
    "batch.length",
    "batch.micro",
    "budget.steps",
    "budget.tokens",
    "budget.minutes",
    "validation.every",
    "validation.sequences",
)
_BOUNDS = Bounds(
    positive=_POSITIVE + BOUNDS.positive,
    not_negative=BOUNDS.not_negative,
    below_one=("model.dropout", "model.attention_dropout", *BOUNDS.below_one),
    shares=("masking.rate", "masking.mask", "masking.keep", "masking.random", "masking.zero", "masking.noise", "batch.short_probability"),
    momenta=("norm.momentum",),
)
_CORRUPTIONS = ("mask", "keep", "random", "zero", "noise")

_LEAST_VOCABULARY = 100  # an alphabet and its continuations alone are about as many
_MOST_LAYERS = 10_000  # they are made one by one, long before any memory is full
_LEAST_LENGTH = {"single": 4, "pair": 5}  # two words beside [CLS] and [SEP], or beside [CLS], [SEP] and [SEP]
_TOLERANCE = 1e-6  # of sums of shares that a user wrote in decimals


def validate(config: PretrainConfig) -> list[str]:
    """Refuse what cannot be meant.

    Returns:
        Warnings: sentences about what will run but may not be what was meant.

    Raises:
        UserError: the first thing found wrong.
    """
    validate_training(config)
    check_paths(config)
    check_launcher(config.launcher)
    check_corpus(config.corpus, "corpus")
    _check_tokenizer(config)
    return list(_warnings(config))


def validate_training(config: PretrainConfig) -> None:
    """The same for the model and its training alone, whatever there is to read.

    Raises:
        UserError: the first thing found wrong.
    """
    check_words(config, WORDS)
    check_numbers(config, _BOUNDS)
    check_trainer(config.trainer)
    _check_model(config)
    _check_objective(config)
    _check_masking(config)
    _check_lengths(config)
    _check_batch(config)
    _check_budget(config)


def segments_of(config: PretrainConfig) -> str:
    """``pair`` or ``single``: whether a sequence has a second segment."""
    if config.objective.segments != "auto":
        return config.objective.segments
    return "pair" if config.objective.kind == "mlm_nsp" else "single"


def sequence_lengths(config: PretrainConfig) -> list[int]:
    """The lengths of the schedule, in its order."""
    return [stage.length for stage in config.lengths.stages] or [config.batch.length]


def is_masked(config: PretrainConfig) -> bool:
    """Whether the objective predicts chosen words, rather than every next one."""
    return config.objective.kind in ("mlm", "mlm_nsp")


def _check_model(config: PretrainConfig) -> None:
    model, backbone = config.model, config.backbone
    if model.layers > _MOST_LAYERS:
        raise UserError(f"model.layers={model.layers} is beyond what can be trained: at most {_MOST_LAYERS:,}.")
    if backbone.kind == "transformer" and model.hidden % model.heads:
        raise UserError(
            f"model.hidden={model.hidden} cannot be divided among model.heads={model.heads}: choose a number of heads that divides it."
        )
    if backbone.kind == "bilstm" and model.hidden % 2 and backbone.directions not in ("forward", "backward"):
        raise UserError(f"model.hidden={model.hidden} is odd, and backbone=bilstm gives each of its two directions half: make it even.")
    if backbone.kind != "bilstm" and backbone.directions != "auto":
        raise UserError(
            f"backbone.directions={backbone.directions} is for backbone=bilstm only; backbone={backbone.kind} has none: leave it out."
        )
    if backbone.kind != "cbow" and backbone.window is not None:
        raise UserError(f"backbone.window={backbone.window} is for backbone=cbow only: leave it out, or choose backbone=cbow.")


def _check_objective(config: PretrainConfig) -> None:
    kind, directions = config.objective.kind, config.backbone.directions
    if kind == "mlm_nsp" and config.objective.segments == "single":
        raise UserError(
            "objective.segments=single leaves no second sentence to predict: choose objective=mlm for masked language modelling alone."
        )
    if segments_of(config) == "pair" and config.model.segments < 2:
        raise UserError(f"model.segments={config.model.segments} has no row for the second segment of a pair: set model.segments=2.")
    against = {"ltr": "backward", "rtl": "forward"}.get(kind)
    if directions == against:
        raise UserError(
            f"backbone.directions={directions} under objective={kind} would read the very words that are to be predicted:"
            f" choose backbone.directions={'forward' if kind == 'ltr' else 'backward'}, or leave it out."
        )


def _check_masking(config: PretrainConfig) -> None:
    masking = config.masking
    if not is_masked(config):
        if masking.whole_word:
            raise UserError(
                f"masking.whole_word=true has no effect under objective={config.objective.kind}, which masks no words: leave it out,"
                " or choose objective=mlm."
            )
        return
    if masking.rate == 0:
        raise UserError(f"masking.rate=0 leaves nothing to predict under objective={config.objective.kind}: the paper has 0.15.")
    rates = {name: getattr(masking, name) for name in _CORRUPTIONS}
    if abs(sum(rates.values()) - 1) > _TOLERANCE:
        listed = ", ".join(f"masking.{name}={rate:g}" for name, rate in rates.items())
        raise UserError(f"The rates of what happens to a chosen word add up to {sum(rates.values()):g} and must add up to 1: {listed}.")


def _check_lengths(config: PretrainConfig) -> None:
    stages = config.lengths.stages
    for index, stage in enumerate(stages):
        if not 0 <= stage.share <= 1:
            raise UserError(f"lengths.stages.{index}.share={stage.share} must be a share between 0 and 1.")
        if stage.sequences is not None and stage.sequences <= 0:
            raise UserError(f"lengths.stages.{index}.sequences={stage.sequences} must be more than 0.")
    if stages and abs(sum(stage.share for stage in stages) - 1) > _TOLERANCE:
        raise UserError(f"The shares in lengths.stages add up to {sum(stage.share for stage in stages):g} and must add up to 1.")
    named = [(f"lengths.stages.{i}.length", stage.length) for i, stage in enumerate(stages)] or [("batch.length", config.batch.length)]
    named += [(f"validation.lengths.{i}", length) for i, length in enumerate(config.validation.lengths)]
    least = _LEAST_LENGTH[segments_of(config)]
    for key, length in named:
        if config.backbone.kind == "transformer" and length > config.model.positions:  # the other backbones have no such table
            raise UserError(
                f"{key}={length} is longer than the position table (model.positions={config.model.positions}):"
                f" shorten it, or set model.positions={length}."
            )
        if length < least:
            raise UserError(f"{key}={length} is too short for a sequence with its special tokens: at least {least}.")


def _check_batch(config: PretrainConfig) -> None:
    for key, sequences in _sequences_by_stage(config):
        if sequences < config.trainer.world:
            raise UserError(
                f"{key} gives {sequences} sequences to a batch, fewer than {devices_in_words(config.trainer)}:"
                " give every device at least one."
            )


def _sequences_by_stage(config: PretrainConfig) -> list[tuple[str, int]]:
    """The sequences of a batch in every stage, with the key that says so."""
    batch = config.batch
    found = {} if config.lengths.stages else {"batch.sequences": batch.sequences}
    for index, stage in enumerate(config.lengths.stages):
        if stage.sequences is not None:
            found[f"lengths.stages.{index}.sequences"] = stage.sequences
        elif config.lengths.keep_tokens:
            found[f"batch.sequences * batch.length / {stage.length}"] = _sequences_of(config, stage)
        else:
            found["batch.sequences"] = batch.sequences
    return list(found.items())


def _sequences_of(config: PretrainConfig, stage: StageConfig) -> int:
    """The sequences of a batch in a stage that has as many positions as every other."""
    return max(1, round(config.batch.sequences * config.batch.length / stage.length))


def _check_budget(config: PretrainConfig) -> None:
    given = {name: value for name, value in vars(config.budget).items() if value is not None}
    if len(given) != 1:
        what = "none of them is set" if not given else " and ".join(f"budget.{name}={value:g}" for name, value in given.items())
        raise UserError(
            f"Exactly one of budget.steps, budget.tokens and budget.minutes must say how long to train; {what}: set the others to null."
        )


def _check_tokenizer(config: PretrainConfig) -> None:
    tokenizer = config.tokenizer
    if tokenizer.path == "":
        raise UserError("tokenizer.path is empty: name a vocab.txt, a tokenizer.json or a Hugging Face folder.")
    if tokenizer.path is not None:
        if not os.path.exists(os.path.expanduser(tokenizer.path)):
            raise UserError(f"tokenizer.path={tokenizer.path}: there is no such file or folder (seen from {Path.cwd()}).")
    elif tokenizer.vocab_size < _LEAST_VOCABULARY:
        raise UserError(f"tokenizer.vocab_size={tokenizer.vocab_size} is too small to spell words with: at least {_LEAST_VOCABULARY}.")


def _warnings(config: PretrainConfig) -> Iterable[str]:
    yield from trainer_warnings(config.trainer)
    kind = config.objective.kind
    if config.trainer.checkpoint_activations and config.backbone.kind == "cbow":
        yield "trainer.checkpoint_activations has no effect under backbone=cbow, which has no layers."
    if config.norm.kind == "batch" and not is_masked(config):
        yield (
            f"norm=batch under objective={kind}: in training a batch's mean and variance contain the words to be predicted;"
            " evaluation, with running statistics, is strictly causal."
        )
    if kind == "mlm_nsp" and (window := config.backbone.window) is not None:
        yield (
            f"backbone.window={window} under objective=mlm_nsp: whether B follows A is told by [CLS], which reads no more than the first"
            f" {counted(window, 'word')}."
        )
    if not is_masked(config) and config.masking != MaskingConfig():
        yield f"masking has no effect under objective={kind}, which predicts every word."
    largest = max(sequences for _, sequences in _sequences_by_stage(config))
    if config.batch.micro is not None and config.batch.micro > largest:
        yield f"batch.micro={config.batch.micro} is more than a batch has ({counted(largest, 'sequence')}): nothing is accumulated."
    if config.lengths.stages and config.batch.length not in (lengths := sequence_lengths(config)):
        listed = ", ".join(map(str, dict.fromkeys(lengths)))
        yield (
            f"batch.length={config.batch.length} is the length of no sequence: lengths={config.lengths.name} has {listed}."
            f"{_what_the_length_decides(config)} For one length throughout add lengths=constant."
        )
    if config.corpus.weight != 1 and config.corpus.kind != "mixture":
        yield "corpus.weight has no effect: it is for sources of corpus=mixture."


def _what_the_length_decides(config: PretrainConfig) -> str:
    """What batch.length does where it is the length of no sequence: it may still say how many sequences a step has."""
    stage = next((stage for stage in config.lengths.stages if stage.sequences is None), None)
    if stage is None or not config.lengths.keep_tokens:
        return ""
    return f" It decides how many sequences a step has: {counted(_sequences_of(config, stage), 'sequence')} of {stage.length}."
