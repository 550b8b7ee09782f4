"""The configuration of a fine-tuning as typed values: what ``conf/finetune.yaml`` and its groups are checked against."""

from __future__ import annotations

from dataclasses import dataclass, field

from bertlab.config import CheckpointConfig, LauncherConfig, LoggerConfig, OptimizerConfig, PathsConfig, TrainerConfig
from bertlab.task_config import TaskConfig


@dataclass
class HeadConfig:
    """What a task puts on top of the backbone; its last layer follows from the task's kind."""

    layers: int = 1  # states of how many top layers are concatenated
    bilstm: bool = False  # a randomly initialised BiLSTM on top (the paper's "+ BiLSTM" row)
    bilstm_hidden: int | None = None  # of each direction; None: half of the model's width
    bilstm_layers: int = 1
    convolution: int | None = None  # width in tokens of a convolution over the states; None: there is none
    filters: int | None = None  # of the convolution; None: the model's width
    pooling: str = "auto"  # of a sequence's states: auto (by the objective) | first | last | ends | mean | max | mean_max
    pooler: bool = True  # of classification, regression, choice: a dense layer and tanh (pre-trained where the model has one, pooling=auto)
    crf: bool = False  # of tagging: a linear-chain CRF
    dropout: float = 0.1


@dataclass
class FeaturesConfig:
    """The feature-based approach (paper, section 5.3): frozen states, read by a BiLSTM of their own."""

    kind: str = "none"  # none | embeddings | second_to_last | last | weighted_sum_last_4 | concat_last_4 | weighted_sum_all | concat_all
    hidden: int = 768  # of the BiLSTM, both directions together
    layers: int = 2


@dataclass
class TuningConfig:
    """How the weights are trained."""

    epochs: float = 3.0
    batch: int = 32  # examples of an optimizer step
    micro: int | None = None  # examples a device works on at once; None: all
    group_by_length: bool = True  # batches of examples that are alike in length
    freeze: str = "none"  # none | embeddings | encoder (everything but the head)
    frozen_layers: int = 0  # the lowest ones, with the embeddings
    gradual: bool = False  # unfreeze from the top, a layer each of equal shares of the first two thirds of the training
    layer_decay: float = 1.0  # of the learning rate, from each layer to the one below
    reinit_layers: int = 0  # top layers, with the pooler, that start anew
    evaluate_every: float | None = None  # epochs between evaluations on the selection split; None: once an epoch
    select: str = "best"  # which weights are kept: best (by the task's first metric) | last
    patience: int | None = None  # evaluations without an improvement after which training stops; None: it does not stop early
    train_examples: int | None = None  # take so many, chosen at random by their id, the same for every seed; None: all
    eval_examples: int | None = None
    min_words: int | None = None  # leave out training examples shorter than this, in whitespace-separated words
    max_words: int | None = None


@dataclass
class FinetuneConfig:
    """Everything that ``bertlab finetune`` takes."""

    task: TaskConfig = field(default_factory=TaskConfig)
    checkpoint: str = "???"  # a run's id, its folder, an exported folder, a Hugging Face folder
    weights: str = "pretrained"  # pretrained | random: the checkpoint's architecture and vocabulary, with none of its training
    dropout: float | None = None  # of the model, in place of what it was pre-trained with
    attention_dropout: float | None = None
    head: HeadConfig = field(default_factory=HeadConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    tuning: TuningConfig = field(default_factory=TuningConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    checkpointing: CheckpointConfig = field(default_factory=CheckpointConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    launcher: LauncherConfig = field(default_factory=LauncherConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)
    submission: bool = False  # also predict the test split and write the file that the task's official server takes
    recipe: str = "paper"
    seed: int = 1
