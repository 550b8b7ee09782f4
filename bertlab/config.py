"""The configuration of a run as typed values: what Hydra's YAML files are checked against.

Plain dataclasses and nothing else, so that every layer may import this module and none pays for it. Combinations that cannot be
meant are refused in ``bertlab.validation``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class ModelConfig:
    """The size of a model and its regularisation; the defaults are BERT-base as released."""

    name: str = "base"
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int | None = None  # feed-forward width; None is 4 * hidden, as in the paper
    positions: int = 512  # rows of the position table: the longest sequence
    segments: int = 2
    activation: str = "gelu"  # gelu (the exact one, by erf) | gelu_tanh | relu
    dropout: float = 0.1
    attention_dropout: float = 0.1
    epsilon: float = 1e-12
    initializer_range: float = 0.02


@dataclass
class BackboneConfig:
    """What turns embeddings into contextual states."""

    kind: str = "transformer"  # transformer | bilstm | cbow
    directions: str = "auto"  # of a bilstm under ltr or rtl: auto | both | forward | backward
    window: int | None = None  # of cbow: words on either side that are averaged; None is the whole sequence


@dataclass
class NormConfig:
    """The normalisation and where it stands in a block."""

    kind: str = "layer"  # layer | batch
    placement: str = "post"  # post, as in the paper | pre
    momentum: float = 0.1  # of batch: the share of the newest batch in the running statistics


@dataclass
class ObjectiveConfig:
    """What is predicted in pre-training."""

    kind: str = "mlm_nsp"  # mlm_nsp | mlm | ltr | rtl
    segments: str = "auto"  # pair | single | auto (pair with next-sentence prediction, else single)


@dataclass
class MaskingConfig:
    """How positions are chosen and corrupted (masked-LM objectives only). The five rates add up to 1."""

    rate: float = 0.15
    mask: float = 0.8
    keep: float = 0.1
    random: float = 0.1
    zero: float = 0.0  # the position's embedding is set to zero
    noise: float = 0.0  # Gaussian noise is added to the position's embedding
    noise_std: float = 1.0  # in standard deviations of the embedding table
    whole_word: bool = False


@dataclass
class FilterConfig:
    """Which documents and lines of a corpus are left out. None is no bound."""

    min_words: int | None = None
    max_words: int | None = None
    duplicate_documents: bool = False  # drop repetitions of a document: the same token ids, whatever the vocabulary leaves out of the text
    duplicate_lines: bool = False  # drop repetitions of a line or paragraph, told in the same way


@dataclass
class CorpusConfig:
    """Where the raw text comes from and how documents are cut out of it."""

    kind: str = "builtin"  # builtin | text | sentences | wikiextractor | jsonl | parquet | huggingface | mixture
    path: str | None = None  # a file, a folder or a glob
    column: str = "text"  # of jsonl, parquet, huggingface
    split: str = "train"  # of huggingface
    subset: str | None = None  # of huggingface: the data set's configuration name
    sentence_splitting: str = "auto"  # auto (by the reader) | library | line
    strict: bool = False  # stop at the first malformed input instead of counting and reporting it
    held_out: float = 0.01  # share of the documents kept for validation (at least one document)
    weight: float = 1.0  # in a mixture: how many times an epoch sees this source
    filter: FilterConfig = field(default_factory=FilterConfig)
    sources: dict[str, CorpusConfig] = field(default_factory=dict)  # of a mixture: name → corpus


@dataclass
class TokenizerConfig:
    """A WordPiece vocabulary: trained on the corpus, or given as a file or a folder."""

    vocab_size: int = 30522
    lowercase: bool = True
    path: str | None = None  # vocab.txt | tokenizer.json | a Hugging Face folder; None trains one


@dataclass
class StageConfig:
    """A part of the training with one sequence length."""

    share: float = 1.0  # of the optimizer steps
    length: int = 128
    sequences: int | None = None  # None: batch.sequences, or as many as keep the batch's tokens (``lengths.keep_tokens``)


@dataclass
class LengthsConfig:
    """The sequence-length schedule. No stage at all: batch.length throughout."""

    name: str = "constant"
    stages: list[StageConfig] = field(default_factory=list)
    keep_tokens: bool = False  # stages without ``sequences`` get batch.sequences * batch.length / length of them


@dataclass
class BatchConfig:
    """The global batch of one optimizer step, whatever the number of devices."""

    sequences: int = 256
    length: int = 128
    micro: int | None = None  # sequences a device works on at once; more are accumulated. None: all at once
    short_probability: float = 0.1  # share of sequences cut to a random shorter length


@dataclass
class OptimizerConfig:
    """Adam and its schedule. ``bert_adam`` is the released recipe, ``adamw`` the corrected one."""

    kind: str = "bert_adam"  # bert_adam | adamw
    lr: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    clip: float | None = 1.0  # bound of the global gradient norm; None does not clip
    warmup: float = 0.01  # share of the budget over which the rate rises linearly from 0
    decay: str = "linear"  # linear, to 0 at the end, counted from step 0 | constant


@dataclass
class BudgetConfig:
    """How long to train: exactly one of the three."""

    steps: int | None = None
    tokens: float | None = None  # positions fed: sequences * length, summed over the steps
    minutes: float | None = None  # of training; the schedules follow the elapsed time


@dataclass
class ValidationConfig:
    """Evaluation on held-out documents; the batches depend on the corpus and these values, never on the seed."""

    every: int | None = None  # optimizer steps; None: twenty times in a run, the last at its end
    sequences: int = 512  # held-out sequences an evaluation, at each length
    lengths: list[int] = field(default_factory=list)  # empty: every length of the schedule


@dataclass
class CheckpointConfig:
    """When the complete state is saved besides at the end and at an interruption."""

    every: int | None = None  # steps between saves of the last state; None: once in about two minutes
    keep_every: int | None = None  # also keep the weights of every k-th step, for curves over training
    keep_at: list[int] = field(default_factory=list)  # and those of these steps


@dataclass
class TrainerConfig:
    """The machine's side of a run. Part of its identity are ``precision`` and ``compile``.

    ``world`` cuts a batch into pieces, as ``batch.micro`` does: with dropout the noise follows the cut, and under batch normalisation with
    several micro-batches so do the statistics, where it is part of the identity, too. ``accelerator`` decides which generator draws the
    noise of dropout and masking, NumPy's on a CPU and PyTorch's on a GPU, so the numbers drawn differ. The rest changes rounding only.
    """

    accelerator: str = "auto"  # auto | cpu | gpu
    devices: int = 1  # of a node; each has a process of its own
    nodes: int = 1
    strategy: str = "auto"  # ddp: every device holds the whole model | fsdp: a share of it | auto: ddp where there are several devices
    timeout: float = 600.0  # seconds that a process waits for another one of its run before it gives up
    precision: str = "fp32"  # fp32 | bf16
    checkpoint_activations: bool = False  # keep what goes into each layer only, and compute the rest once more: less memory, same numbers
    compile: bool = False  # torch.compile of a transformer's blocks, on a GPU
    deterministic: bool = True  # on a GPU the same bits twice, at some cost in speed; a CPU always gives them
    threads: int | None = None  # of a CPU run; None: every core
    workers: int | None = None  # processes that make batches; None: 0 on a CPU, 4 on a GPU
    log_every: int = 50  # steps between lines of metrics.jsonl
    progress: bool = True

    @property
    def world(self) -> int:
        """The processes of a run, one a device."""
        return self.devices * self.nodes


@dataclass
class LauncherConfig:
    """Where runs are carried out: here, or as jobs of a cluster's queue. What is None is left to the cluster."""

    kind: str = "local"  # local | slurm
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gpus: int | None = None  # of a node; None: as many as trainer.devices, where the cluster has some and trainer.accelerator is not cpu
    cpus: int | None = None  # of each of the run's processes
    memory: str | None = None  # of a node, as sbatch takes it: 64G
    time: str | None = None  # the limit of a job, as sbatch takes it; a run that needs longer is queued again and goes on
    warning: int = 120  # seconds before the limit, in which the run saves its state
    requeues: int = 100  # times that a job may be queued again before it is given up
    concurrency: int | None = None  # jobs of one array that run at a time
    follow: bool = True  # show what the jobs say until they end; false returns once they are queued
    options: dict[str, str] = field(default_factory=dict)  # further ones of sbatch, by their long names: exclude, reservation, …


@dataclass
class LoggerConfig:
    """Where the run is mirrored. metrics.jsonl in the run's folder is written whatever this says."""

    kind: str = "wandb"  # wandb | none
    project: str = "bertlab"
    entity: str | None = None
    group: str | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class PathsConfig:
    """Where things are written."""

    runs: str = "runs"
    cache: str | None = None  # None: $BERTLAB_CACHE, else the user's cache folder
    local: str | None = None  # a folder on each node's own disk, to which token stores are copied before they are read; None: they are not

    @property
    def runs_folder(self) -> Path:
        """``runs``, where a ``~`` stands for the user's own folder: a shell leaves it alone in the middle of a word."""
        return Path(os.path.expanduser(self.runs))


@dataclass
class PretrainConfig:
    """Everything that ``bertlab pretrain`` takes."""

    model: ModelConfig = field(default_factory=ModelConfig)
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    norm: NormConfig = field(default_factory=NormConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    lengths: LengthsConfig = field(default_factory=LengthsConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    checkpointing: CheckpointConfig = field(default_factory=CheckpointConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    launcher: LauncherConfig = field(default_factory=LauncherConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)
    init: str | None = None  # a checkpoint to go on from: its model and vocabulary are taken, and its weights
    scale: str = "laptop"
    seed: int = 1
