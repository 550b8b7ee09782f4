"""bertlab: a workbench for BERT ablations. Importing it is cheap: heavy libraries load inside what needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from bertlab.inference.model import Model

__version__ = "0.1.0"


def load(checkpoint: str | Path, runs: str | Path = "runs", device: str = "cpu") -> Model:
    """A trained model to use from Python: ``bertlab.load(RUN).fill("Paris is the [MASK] of France.")``.

    ``checkpoint`` is a run's id (looked for in ``runs``) or folder, weights that a run has kept, an exported folder, or a Hugging Face
    folder.

    Raises:
        bertlab.errors.UserError: there is nothing of the kind, or it cannot be read.
    """
    from bertlab.inference.model import Model

    return Model.load(checkpoint, runs, device)
