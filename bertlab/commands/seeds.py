"""What several fine-tunings of one command say together: a row for each setting, over its seeds."""

from __future__ import annotations

from collections.abc import Sequence

from bertlab.commands.jobs import Ended
from bertlab.finetune_config import FinetuneConfig


def show_seeds(ended: Sequence[Ended[FinetuneConfig]]) -> None:
    """Print the table on standard error."""
