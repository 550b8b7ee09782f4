"""What of the machine a run uses, and Lightning told to do no more than run the loop on it."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch

from bertlab.config import TrainerConfig
from bertlab.data.workers import available_cores
from bertlab.launched import cpus_of_task, main_address, main_port, process_rank, starter
from bertlab.training import lightning
from bertlab.training.devices import device_kind

_LOUD = ("pytorch_lightning", "lightning_fabric", "lightning")  # loggers
_DETERMINISTIC: Any = torch.utils.deterministic  # PyTorch names its setting in its documentation alone, not where types are checked


def set_up_process(trainer: TrainerConfig, backbone: str) -> str:
    """Threads, and algorithms that give the same bits twice as far as the ``backbone`` has them; returns what trains: cpu | gpu."""
    kind = device_kind(trainer)
    cores = available_cores()
    share = cores // trainer.devices if kind == "cpu" else cores
    torch.set_num_threads(trainer.threads or cpus_of_task() or max(1, share))
    _choose_algorithms(trainer, backbone, on_gpu=kind == "gpu")
    torch.set_autocast_cache_enabled(trainer.strategy != "fsdp")  # it would keep a copy of all weights, whole, through every step
    _silence()
    return kind


@contextmanager
def process_left_as_it_is() -> Iterator[None]:
    """Take back at the end of the block what ``set_up_process`` sets in it: for a process that is a caller's own."""
    threads, cached = torch.get_num_threads(), torch.is_autocast_cache_enabled()
    deterministic, only_warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = _DETERMINISTIC.fill_uninitialized_memory
    levels = {name: logging.getLogger(name).level for name in _LOUD}
    with warnings.catch_warnings():
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_autocast_cache_enabled(cached)
            torch.use_deterministic_algorithms(deterministic, warn_only=only_warn)
            _DETERMINISTIC.fill_uninitialized_memory = filled
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def _choose_algorithms(trainer: TrainerConfig, backbone: str, *, on_gpu: bool) -> None:
    """On a CPU they always give the same bits twice; on a GPU where that is wanted."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is reproducible only with it
    # Flash attention's backward pass takes its reproducible form only where nothing else is allowed. A bag of words cannot ask for
    # that on a GPU: its running sums have no such form there.
    only_warn = not on_gpu or backbone == "cbow"
    torch.use_deterministic_algorithms(trainer.deterministic or not on_gpu, warn_only=only_warn)
    _DETERMINISTIC.fill_uninitialized_memory = False  # it is for finding bugs, and slow


def lightning_trainer(
    trainer: TrainerConfig, device_kind: str, callback: lightning.Callback, *, find_unused: bool = False
) -> lightning.Trainer:
    """A trainer that runs one pass over the steps and leaves rows, states and the progress bar to ``callback``.

    ``find_unused``: some parameters that are trained at some time have no gradient at others.
    """
    return lightning.Trainer(
        accelerator="cuda" if device_kind == "gpu" else "cpu",
        devices=trainer.devices,
        num_nodes=trainer.nodes,
        strategy=_strategy(trainer, find_unused),
        plugins=[_environment(trainer)],  # a single process, too: Lightning's own guess takes any job of SLURM for its own
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


def _strategy(trainer: TrainerConfig, find_unused: bool) -> lightning.Strategy | str:
    """How devices share the work; "auto" is a single one's."""
    patience = timedelta(seconds=trainer.timeout)
    if trainer.strategy == "fsdp":
        return lightning.ModelParallelStrategy(data_parallel_size=trainer.world, tensor_parallel_size=1, timeout=patience)
    if trainer.world == 1:
        return "auto"
    return lightning.DDPStrategy(
        gradient_as_bucket_view=True, broadcast_buffers=False, find_unused_parameters=find_unused, timeout=patience
    )


def _environment(trainer: TrainerConfig) -> lightning.ClusterEnvironment:
    """Where this process stands among the others, said to Lightning: what it finds out by itself fits fewer ways of starting them."""
    started_by = starter()
    if started_by == "torchrun":
        return lightning.TorchElasticEnvironment()
    return _StartedBySrun(trainer) if started_by == "srun" else lightning.LightningEnvironment()


class _StartedBySrun(lightning.ClusterEnvironment):
    """The processes of a step of srun. Lightning's own wants to know how the job was asked for, and to put it into the queue again."""

    def __init__(self, trainer: TrainerConfig) -> None:
        super().__init__()
        self._trainer = trainer

    @property
    def creates_processes_externally(self) -> bool:
        """They are all there."""
        return True

    @property
    def main_address(self) -> str:
        """The machine of the first one."""
        return main_address()

    @property
    def main_port(self) -> int:
        """Where it listens."""
        return main_port()

    @staticmethod
    def detect() -> bool:
        """Nobody asks: it is chosen."""
        return starter() == "srun"

    def world_size(self) -> int:
        """All processes."""
        return self._trainer.world

    def set_world_size(self, size: int) -> None:
        """It is known."""

    def global_rank(self) -> int:
        """The number of this process."""
        return process_rank()

    def set_global_rank(self, rank: int) -> None:
        """It is known."""

    def local_rank(self) -> int:
        """Its number on its machine, which is that of its GPU."""
        return int(os.environ["SLURM_LOCALID"]) % self._trainer.devices

    def node_rank(self) -> int:
        """The number of its machine."""
        return process_rank() // self._trainer.devices


def _silence() -> None:
    """Keep what libraries say to their developers away from the user."""
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)
    for module in ("pytorch_lightning", "lightning_fabric", "torch"):
        warnings.filterwarnings("ignore", module=rf"{module}\.")  # advice on settings that are chosen here on purpose
