"""What bertlab uses of Lightning; to be imported from here alone, so that a command starts sooner.

Lightning imports torchmetrics, of which bertlab uses nothing, and torchmetrics imports scipy.signal, matplotlib and transformers where they
are installed: half of the time until Lightning is there. It asks lightning-utilities what is installed, and here it is told: not these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning_utilities.core.imports
from lightning_utilities.core.imports import RequirementCache

_imports: Any = lightning_utilities.core.imports
_UNUSED = frozenset(("scipy", "matplotlib", "transformers"))


@contextmanager
def _unused_unseen() -> Iterator[None]:
    """The block's imports do not see what would be imported for torchmetrics alone."""
    if not hasattr(RequirementCache, "_check_available"):  # its own, which another release may name otherwise: then all is imported
        yield
        return
    package_available, check = _imports.package_available, _imports.RequirementCache._check_available

    def available(name: str) -> bool:
        return name not in _UNUSED and package_available(name)

    def check_available(self: RequirementCache) -> None:
        if re.split("[^a-z]", self.requirement or "")[0] in _UNUSED:
            self.available, self.message = False, "not used"
        else:
            check(self)

    _imports.package_available, _imports.RequirementCache._check_available = available, check_available
    try:
        yield
    finally:
        _imports.package_available, _imports.RequirementCache._check_available = package_available, check


with _unused_unseen():
    from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
    from pytorch_lightning import Callback, LightningModule, Trainer
    from pytorch_lightning.strategies import DDPStrategy, ModelParallelStrategy, Strategy
    from pytorch_lightning.utilities.exceptions import SIGTERMException

__all__ = [
    "Callback",
    "ClusterEnvironment",
    "DDPStrategy",
    "LightningEnvironment",
    "LightningModule",
    "ModelParallelStrategy",
    "SIGTERMException",
    "Strategy",
    "TorchElasticEnvironment",
    "Trainer",
]
