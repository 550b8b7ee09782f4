"""In which precision sums are taken."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_fp32(x: Tensor) -> Tensor:
    """``x``, in fp32 if it is in half precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
