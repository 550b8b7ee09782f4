"""Which kind of device trains, and whether there are as many as were asked for; PyTorch is imported only where it must be asked."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from bertlab.config import PretrainConfig, TrainerConfig
from bertlab.data.workers import available_cores
from bertlab.errors import UserError
from bertlab.finetune_config import FinetuneConfig
from bertlab.launched import process_rank, starter
from bertlab.messages import warn

if TYPE_CHECKING:
    from bertlab.models.architecture import Architecture
    from bertlab.models.size import Memory

_GIB = 2**30
_PROCESS = 2**28  # bytes that Python with PyTorch takes before there is a model: a second process has them again
_WEIGHT = 16  # bytes of a number that is trained: itself, its gradient and Adam's two moments
_THREADS = 1024  # more than processors have cores; many times more end the process without a word


def device_kind(trainer: TrainerConfig) -> str:
    """The kind, cpu | gpu, with ``auto`` resolved."""
    if trainer.accelerator != "auto":
        return trainer.accelerator
    import torch

    return "gpu" if torch.cuda.is_available() else "cpu"


def check_devices(trainer: TrainerConfig) -> None:
    """Refuse GPUs that this machine has not got, before anything is prepared for them, and threads that no machine has.

    Raises:
        UserError: there is no GPU, or fewer than ``trainer.devices``; ``trainer.threads`` would end PyTorch's process.
    """
    if (threads := trainer.threads or 0) > (most := max(_THREADS, os.cpu_count() or 1)):
        raise UserError(f"trainer.threads={threads} is more than any CPU can use: set at most {most} (here are {os.cpu_count()} cores).")
    if trainer.accelerator == "cpu" or (trainer.accelerator == "auto" and trainer.devices == 1):
        return
    import torch

    if not torch.cuda.is_available():
        if trainer.accelerator == "gpu":
            raise UserError(
                "trainer.accelerator=gpu (as in trainer=gpu, ddp and fsdp), but PyTorch finds no GPU that it can use (see bertlab doctor):"
                " on a CPU add trainer.accelerator=cpu trainer.precision=fp32."
            )
        return
    if trainer.devices > (there := torch.cuda.device_count()):
        hint = " (if srun divides a node's GPUs among its processes, let each see all of them: --gpus-per-node, not --gpus-per-task)"
        raise UserError(
            f"trainer.devices={trainer.devices} is more GPUs than there are: set trainer.devices={there}, or less"
            f"{hint if 'SLURM_JOB_ID' in os.environ else ''}."
        )


def warn_of_cores(trainer: TrainerConfig) -> None:
    """On a CPU a device is a process, and more of them than cores only wait for each other. What srun gives a task is not all there is."""
    if trainer.devices <= (cores := available_cores()) or starter() != "bertlab" or process_rank() > 0:
        return
    if device_kind(trainer) == "cpu":
        warn(
            f"trainer.devices={trainer.devices} is more processes than there are cores ({cores}), so they wait for each other:"
            f" {cores} would be as fast."
        )


def sequences_at_once(config: PretrainConfig, whole: int) -> int:
    """The sequences of a batch of ``whole`` that a device works on at once."""
    on_a_device = math.ceil(whole / config.trainer.world)
    return min(on_a_device, config.batch.micro or on_a_device)


def examples_at_once(config: FinetuneConfig) -> int:
    """The examples of a batch of fine-tuning that a device works on at once."""
    on_a_device = math.ceil(config.tuning.batch / config.trainer.world)
    return min(on_a_device, config.tuning.micro or on_a_device)


def check_memory(config: PretrainConfig) -> None:
    """Refuse what needs more memory than this machine has in all, before a corpus is prepared for it; of a GPU PyTorch says so itself.

    Raises:
        UserError: on a CPU the estimate of ``bertlab params`` is beyond the machine's memory.
    """
    import psutil

    from bertlab.data.schedule import plan_training
    from bertlab.models.architecture import Architecture
    from bertlab.models.size import memory_estimate

    architecture = Architecture.of(config, config.tokenizer.vocab_size)
    stages = plan_training(config).stages
    again = config.trainer.checkpoint_activations
    estimates = [
        memory_estimate(architecture, stage.length, sequences_at_once(config, stage.sequences), recomputed=again) for stage in stages
    ]
    needed = max(_on_a_machine(estimate, config.trainer) for estimate in estimates)
    there = psutil.virtual_memory().total
    if needed > there and device_kind(config.trainer) == "cpu":
        several, fewer = "", ""
        if config.trainer.devices > 1:
            several, fewer = f" with trainer.devices={config.trainer.devices}", "fewer devices, "
        remedy = f"choose {fewer}a smaller model, or let a device work on fewer sequences at once with batch.micro"
        if config.tokenizer.path is None and _bytes_of_words(architecture, config.trainer) > needed / 2:
            remedy = f"most of it is for the words of tokenizer.vocab_size={config.tokenizer.vocab_size}: choose a smaller vocabulary"
        raise UserError(
            f"This training needs about {needed / _GIB:,.0f} GiB of memory{several}, but the machine has {there / _GIB:,.0f}"
            f" (bertlab params shows what for): {remedy}."
        )


def _bytes_of_words(architecture: Architecture, trainer: TrainerConfig) -> int:
    """What the rows of the vocabulary take on a machine, with their gradients and moments."""
    return _WEIGHT * architecture.vocab_size * architecture.hidden * (1 if trainer.strategy == "fsdp" else trainer.devices)


def _on_a_machine(estimate: Memory, trainer: TrainerConfig) -> int:
    """Bytes that all processes of a machine take together, where each is a device of its CPU."""
    whole = estimate.total - estimate.activations
    weights = whole if trainer.strategy == "fsdp" else whole * trainer.devices  # parted among them, or whole in each
    return weights + trainer.devices * estimate.activations + (trainer.devices - 1) * _PROCESS
