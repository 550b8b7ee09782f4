"""Models: embeddings, backbones, norms, heads, and the assembled BERT. ``from bertlab.models import Bert, Architecture``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bertlab.models.architecture import Architecture

if TYPE_CHECKING:
    from bertlab.models.bert import Bert

__all__ = ["Architecture", "Bert"]


def __getattr__(name: str) -> Any:
    """Load ``Bert``, and PyTorch with it, only when it is asked for."""
    if name == "Bert":
        from bertlab.models.bert import Bert

        return Bert
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
