"""The normalisations: over the features of a token (layer), or over the tokens of a batch (batch)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed
import torch.distributed.nn.functional
import torch.nn.functional as F
from torch import Tensor, nn

from bertlab.models.architecture import Architecture
from bertlab.models.precision import at_least_fp32

# BERT's 1e-12 would blow up a feature that is all but constant over a batch, as some are at initialisation.
BATCH_EPSILON = 1e-5

_counted = True  # whether what batch normalisation sees goes into its running statistics


@contextmanager
def not_counted() -> Iterator[None]:
    """Inside the block batches leave no trace in running statistics: they have been counted before."""
    global _counted
    before, _counted = _counted, False
    try:
        yield
    finally:
        _counted = before


def make_norm(architecture: Architecture, width: int | None = None) -> nn.Module:
    """The norm that ``architecture`` asks for, over states of ``width`` features (its hidden width by default)."""
    width = architecture.hidden if width is None else width
    if architecture.norm == "batch":
        return TokenBatchNorm(width, eps=max(architecture.epsilon, BATCH_EPSILON), momentum=architecture.momentum)
    return nn.LayerNorm(width, eps=architecture.epsilon)


class TokenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation of flat tokens (T, H): since no padding is among them, each statistic is over real tokens only.

    In training a feature's mean and variance are those of all tokens of the micro-batch on all ranks, in fp32 whatever the
    precision; in evaluation the running ones are used. With gradient accumulation each micro-batch has statistics of its own.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(T, H) → (T, H)."""
        with torch.autocast(x.device.type, enabled=False):
            return self._normalised(at_least_fp32(x)).to(x.dtype)

    def _normalised(self, x: Tensor) -> Tensor:
        if not self.training or (len(x) < 2 and _world_size() == 1):  # one token alone has no variance
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        if _world_size() > 1:
            return self._synchronised(x)
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        mean, variance = self.running_mean, self.running_var
        if _counted:
            self.num_batches_tracked += 1
        else:
            mean, variance = mean.clone(), variance.clone()
        return F.batch_norm(x, mean, variance, self.weight, self.bias, True, self.momentum, self.eps)

    def _synchronised(self, x: Tensor) -> Tensor:
        """As above with the tokens of every rank. ``nn.SyncBatchNorm`` would do it on GPUs only."""
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        sums = _sum_over_ranks(torch.cat((x.sum(0), x.new_tensor([x.shape[0]]))))  # (H + 1,)
        count = sums[-1]
        mean = sums[:-1] / count
        centred = x - mean
        variance = _sum_over_ranks(centred.square().sum(0)) / count
        if _counted:
            with torch.no_grad():
                self.num_batches_tracked += 1
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (count / (count - 1).clamp(min=1)), self.momentum)
        scale: Tensor = torch.rsqrt(variance + self.eps) * self.weight
        return centred * scale + self.bias


def _sum_over_ranks(x: Tensor) -> Tensor:
    """The sum of every rank's ``x``, with a gradient that is summed over ranks too."""
    total: Tensor = torch.distributed.nn.functional.all_reduce(x)
    return total


def _world_size() -> int:
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if ready else 1
