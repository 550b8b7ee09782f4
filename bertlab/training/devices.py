"""Which kind of device trains, and whether there are as many as were asked for; PyTorch is imported only where it must be asked."""

from __future__ import annotations

from bertlab.config import TrainerConfig
from bertlab.errors import UserError


def device_kind(trainer: TrainerConfig) -> str:
    """The kind, cpu | gpu, with ``auto`` resolved."""
    if trainer.accelerator != "auto":
        return trainer.accelerator
    import torch

    return "gpu" if torch.cuda.is_available() else "cpu"


def check_devices(trainer: TrainerConfig) -> None:
    """Refuse GPUs that this machine has not got, before anything is prepared for them.

    Raises:
        UserError: there is no GPU, or there are fewer than ``trainer.devices``.
    """
    if trainer.accelerator == "cpu" or (trainer.accelerator == "auto" and trainer.devices == 1):
        return
    import torch

    if not torch.cuda.is_available():
        if trainer.accelerator == "gpu":
            raise UserError("trainer=gpu, but PyTorch finds no GPU that it can use (bertlab doctor): choose trainer=auto or trainer=cpu.")
        return
    if trainer.devices > (there := torch.cuda.device_count()):
        raise UserError(f"trainer.devices={trainer.devices} is more GPUs than there are: set trainer.devices={there}, or less.")
