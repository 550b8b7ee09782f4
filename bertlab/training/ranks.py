"""What the processes of one run must agree on before each next step."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed

# How gloo, which raises no error of its own kind, says that another process is gone or does not answer.
# The first operation whose time is up names its place in gloo; every other one under way only says that the pair was closed.
_GONE = re.compile(
    r"gloo|Connection closed by peer|Connection reset by peer|Broken pipe|Timed out waiting|Socket Timeout"
    r"|Application timeout caused pair closure",
    re.IGNORECASE,
)


def others_are_gone(error: BaseException) -> bool:
    """Whether ``error`` means that this process waited in vain for another one of its run, which has ended or hangs."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, distributed.DistError) or (isinstance(seen, RuntimeError) and _GONE.search(str(seen))):
            return True
        seen = seen.__cause__
    return False


class Ranks:
    """The processes that share every batch; alone, agreeing costs nothing."""

    def __init__(self, rank: int, world: int, timeout: float = 600.0) -> None:
        """``timeout``: seconds after which a process that does not answer is given up."""
        self.rank = rank
        self.world = world
        # Over the CPU, so that no GPU has to finish what it is doing.
        self._group = distributed.new_group(backend="gloo", timeout=timedelta(seconds=timeout)) if world > 1 else None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def agree(self, seconds: float, save: bool, signum: int) -> tuple[float, bool, int]:
        """The first rank's time and wish to save, and the signal that any rank has got (0: none)."""
        if self._group is None:
            return seconds, save, signum
        said = torch.tensor([seconds if self.first else 0.0, float(save and self.first), float(signum)], dtype=torch.float64)
        distributed.all_reduce(said, op=distributed.ReduceOp.MAX, group=self._group)
        return float(said[0]), bool(said[1]), int(said[2])

    def gather(self, values: Tensor) -> Tensor:
        """(K,) of every rank as (world, K)."""
        if self.world == 1:
            return values[None].clone()
        gathered = [torch.empty_like(values) for _ in range(self.world)]
        distributed.all_gather(gathered, values)
        return torch.stack(gathered)

    def collect(self, value: Any) -> list[Any]:
        """The values of all ranks, in their order, on the first one; an empty list on the others."""
        if self._group is None:
            return [value]
        gathered: list[Any] | None = [None] * self.world if self.first else None
        distributed.gather_object(value, gathered, dst=0, group=self._group)
        return gathered or []

    def tell(self, value: Any) -> Any:
        """The first rank's value, on all."""
        if self._group is None:
            return value
        told = [value]
        distributed.broadcast_object_list(told, src=0, group=self._group)
        return told[0]
