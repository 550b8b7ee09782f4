"""How fast a run goes, and how much of what the machine could do that is.

Model FLOPs utilisation = FLOPs that the model's mathematics takes for the real tokens of a second ÷ peak FLOPs a second

The numerator is ``models.size.flops_per_token`` (a product of matrices m × k and k × n counts 2·m·k·n, the backward pass twice the
forward one; nothing that is recomputed counts again, what the loss does not need counts never, but for states that tagging does not read,
and padding is never computed) times the tokens a second. The denominator is, on a CPU, the best rate of a large matrix product measured
on the spot with the run's threads and precision; on a GPU the data sheet's dense rate.
"""

from __future__ import annotations

import functools
import platform
import re
import sys
import time
from dataclasses import dataclass, field

import psutil
import torch

from bertlab import __version__
from bertlab.training.metrics import Row

# Dense TFLOP/s without sparsity from the vendors' data sheets: bf16 by the tensor units, fp32 by the ordinary ones.
GPU_PEAKS = {
    "B200": (2250.0, 75.0),
    "GH200": (989.0, 67.0),
    "H200 NVL": (835.0, 60.0),
    "H200": (989.0, 67.0),
    "H100 PCIe": (756.0, 51.0),
    "H100 NVL": (835.0, 60.0),
    "H100": (989.0, 67.0),
    "A100": (312.0, 19.5),
    "A40": (149.7, 37.4),
    "A10": (125.0, 31.2),
    "L40S": (362.0, 91.6),
    "L40": (181.0, 90.5),
    "L4": (121.0, 30.3),
    "RTX 4090": (165.2, 82.6),
    "RTX 3090": (71.0, 35.6),
    "V100": (15.7, 15.7),  # no bf16 units
    "T4": (8.1, 8.1),
}
# Cards and parts of cards that bear the name of another and do not reach its rate.
OTHER_CARDS = re.compile(r"\b(Laptop|Mobile|Max-Q|MIG|Ti|SUPER|D)\b")


def peak_flops(device: torch.device, precision: str) -> float | None:
    """FLOPs a second of one device at ``precision`` (fp32 | bf16); None for a GPU that the table lacks."""
    if device.type == "cuda":
        return gpu_peak(torch.cuda.get_device_name(device), precision)
    return measured_cpu_peak(precision, torch.get_num_threads())


def gpu_peak(name: str, precision: str) -> float | None:
    """The data sheet's FLOPs a second of the GPU that calls itself ``name``; None where the table lacks it."""
    known = next((peaks for key, peaks in GPU_PEAKS.items() if re.search(rf"\b{key}\b", name)), None)
    if known is None or OTHER_CARDS.search(name):
        return None
    return known[0 if precision == "bf16" else 1] * 1e12


@functools.cache
def measured_cpu_peak(precision: str, threads: int) -> float:
    """The best of a few products of 1024 × 1024 matrices, in FLOPs a second; ``threads`` tells measurements apart."""
    size = 1024
    left = torch.ones(size, size, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    right, best = left.clone(), float("inf")
    for _ in range(8):
        begin = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - begin)
    return 2.0 * size**3 / best


def peak_memory(device: torch.device) -> int:
    """Bytes: the most that the GPU's tensors took, or that the process has been resident with."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes if sys.platform == "darwin" else 1024 * kilobytes


def device_name(device: torch.device) -> str:
    """The GPU's name, or the kind of the processor."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()


@dataclass
class Window:
    """What was fed since the last logged step, on all ranks."""

    updates: int = 0
    positions: int = 0  # sequences * length, what budget.tokens counts
    tokens: int = 0  # real tokens
    flops: float | None = 0.0  # None: they are not counted
    seconds: float = 0.0  # of training: evaluations and saves aside


@dataclass
class Speed:
    """The speed of a run, window by window and in all; one window is what lies between two logged steps."""

    peak: float | None  # FLOPs a second of all devices together
    device: torch.device
    window: Window = field(default_factory=Window)
    total: Window = field(default_factory=Window)

    def add(self, positions: int, tokens: int, flops: float | None, seconds: float) -> None:
        """Count one update; without its ``flops`` there is no utilisation."""
        for window in (self.window, self.total):
            window.updates += 1
            window.positions += positions
            window.tokens += tokens
            window.flops = None if flops is None or window.flops is None else window.flops + flops
            window.seconds += seconds

    def take(self, waited: float) -> Row:
        """The row of the window that ends here, of which ``waited`` seconds went by waiting for data."""
        row = {
            **rates(self.window, self.peak),
            "data_wait": waited / max(self.window.seconds, 1e-9),
            "memory_bytes": peak_memory(self.device),
        }
        self.window = Window()
        return row


def facts(speed: Speed) -> Row:
    """What a result says of the whole run's speed, of the machine and of the versions of what ran."""
    return {
        "seconds": speed.total.seconds,
        **rates(speed.total, speed.peak),
        "memory_bytes": peak_memory(speed.device),
        "device": device_name(speed.device),
        "versions": {"bertlab": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def rates(window: Window, peak: float | None) -> Row:
    """Positions, real tokens and updates a second, and the utilisation (None where the peak or the FLOPs are not known)."""
    seconds = max(window.seconds, 1e-9)
    return {
        "positions_per_second": window.positions / seconds,
        "tokens_per_second": window.tokens / seconds,
        "updates_per_second": window.updates / seconds,
        "mfu": None if peak is None or window.flops is None else window.flops / seconds / peak,
    }
