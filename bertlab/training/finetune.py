"""Fine-tuning from a configuration to a run folder."""

from __future__ import annotations

from pathlib import Path

from bertlab.finetune_config import FinetuneConfig


def finetune(config: FinetuneConfig) -> Path:
    """Train what ``config`` describes, or go on with it where it was left; returns the run's folder."""
    raise NotImplementedError
