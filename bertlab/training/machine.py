"""What of the machine a run uses, and Lightning told to do no more than run the loop on it."""

from __future__ import annotations

import logging
import os
import warnings

import pytorch_lightning as lightning
import torch
from pytorch_lightning.strategies import DDPStrategy

from bertlab.config import TrainerConfig
from bertlab.training.devices import device_kind


def set_up_process(trainer: TrainerConfig, backbone: str) -> str:
    """Threads, and algorithms that give the same bits twice as far as the ``backbone`` has them; returns what trains: cpu | gpu."""
    kind = device_kind(trainer)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = cores // trainer.devices if kind == "cpu" else cores
    torch.set_num_threads(trainer.threads or max(1, share))
    _choose_algorithms(trainer, backbone, on_gpu=kind == "gpu")
    _silence()
    return kind


def _choose_algorithms(trainer: TrainerConfig, backbone: str, *, on_gpu: bool) -> None:
    """On a CPU they always give the same bits twice; on a GPU where that is wanted."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is reproducible only with it
    # Flash attention's backward pass takes its reproducible form only where nothing else is allowed. A bag of words cannot ask for
    # that on a GPU: its running sums have no such form there.
    only_warn = not on_gpu or backbone == "cbow"
    torch.use_deterministic_algorithms(trainer.deterministic or not on_gpu, warn_only=only_warn)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # torch names it in its pages only; for finding bugs, and slow


def lightning_trainer(
    trainer: TrainerConfig, device_kind: str, callback: lightning.Callback, *, find_unused: bool = False
) -> lightning.Trainer:
    """A trainer that runs one pass over the steps and leaves rows, states and the progress bar to ``callback``.

    ``find_unused``: some parameters that are trained at some time have no gradient at others.
    """
    several = trainer.devices > 1
    strategy = DDPStrategy(gradient_as_bucket_view=True, broadcast_buffers=False, find_unused_parameters=find_unused) if several else "auto"
    return lightning.Trainer(
        accelerator="cuda" if device_kind == "gpu" else "cpu",
        devices=trainer.devices,
        strategy=strategy,
        precision="bf16-mixed" if trainer.precision == "bf16" else "32-true",
        max_epochs=1,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=0,
        use_distributed_sampler=False,
    )


def _silence() -> None:
    """Keep what libraries say to their developers away from the user."""
    for name in ("pytorch_lightning", "lightning_fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for module in ("pytorch_lightning", "lightning_fabric", "torch"):
        warnings.filterwarnings("ignore", module=rf"{module}\.")  # advice on settings that are chosen here on purpose
