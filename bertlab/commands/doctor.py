"""``bertlab doctor``: what this machine has, and what a run on it will use."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import bertlab
from bertlab.arguments import parse_arguments
from bertlab.config import PathsConfig
from bertlab.counting import counted
from bertlab.data.workers import available_cores
from bertlab.errors import UserError

if TYPE_CHECKING:
    import torch

_LIBRARIES = ("torch", "pytorch-lightning", "hydra-core", "omegaconf", "typer", "tokenizers", "wandb", "numpy", "pyarrow", "safetensors")

# Stole credentials when imported: https://github.com/advisories/GHSA-w37p-236h-pfx3
_MALICIOUS = {"lightning": ("2.6.2", "2.6.3"), "pytorch-lightning": ("2.6.2", "2.6.3")}

_PRODUCT_SIZE = 1024  # of the matrices multiplied to compare number formats
_GIB = 2**30
_SLURM_SECONDS = 5.0  # that SLURM may take to answer


def run(words: list[str]) -> int:
    """Print the report. Returns the exit code: 1 when something is wrong."""
    arguments = parse_arguments(words, json=True)
    if arguments.help:
        from bertlab.help import show_help

        return show_help("doctor", arguments)
    if arguments.overrides:
        raise UserError(f"doctor takes no {arguments.overrides[0]!r}: it looks at the machine, not at a configuration.")
    report, problems = examine(), malicious_releases(_installed_version)
    if arguments.json:
        print(json.dumps({"report": report, "problems": problems}, indent=2))
    else:
        for title, lines in report.items():
            print(title)
            for name, value in lines.items():
                print(f"  {name:<20}{value}")
        for problem in problems:
            print(f"PROBLEM: {problem}")
    return 1 if problems else 0


def examine() -> dict[str, dict[str, str]]:
    """The report: title → name → what was found."""
    return {
        "Software": {
            "bertlab": bertlab.__version__,
            "Python": f"{platform.python_version()} ({sys.executable})",
            **{name: _installed_version(name) or "not installed" for name in _LIBRARIES},
        },
        "Machine": _machine(),
        "Computing": _computing(),
        "Storage": _storage(),
        "Services": _services(),
    }


def malicious_releases(installed: Callable[[str], str | None]) -> list[str]:
    """A sentence for every library of which ``installed`` gives a release that is known to be malicious."""
    return [
        f"{name} {found} is a malicious release (GHSA-w37p-236h-pfx3): uninstall it, and change every password and key on this machine."
        for name, releases in _MALICIOUS.items()
        if (found := installed(name)) in releases
    ]


def _installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _machine() -> dict[str, str]:
    import psutil

    memory = psutil.virtual_memory()
    return {
        "system": platform.platform(),
        "cores": f"{available_cores()} usable of {os.cpu_count()}",
        "memory": f"{memory.available / _GIB:.1f} GiB free of {memory.total / _GIB:.1f}",
    }


def _computing() -> dict[str, str]:
    import torch

    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    found = {f"GPU {index}": f"{gpu.name}, {gpu.total_memory / _GIB:.0f} GiB" for index, gpu in enumerate(gpus)} or {"GPUs": "none"}
    device = "cuda" if gpus else "cpu"
    ratio = _bf16_speed(torch.device(device))
    advice = "try trainer.precision=bf16 for wide models" if ratio > 1.5 else "keep trainer.precision=fp32"
    return {
        **found,
        "trainer=auto": "GPU 0" if gpus else f"the CPU, {counted(available_cores(), 'thread')}",
        "bf16": f"{ratio:.1f} times the speed of fp32 on the {'GPU' if gpus else 'CPU'} in a large matrix product: {advice}",
    }


def _bf16_speed(device: torch.device) -> float:
    """How many times faster a matrix product is in bf16 than in fp32, measured in well under a second."""
    import torch

    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.ones(_PRODUCT_SIZE, _PRODUCT_SIZE, dtype=dtype, device=device)
        tries = []
        for _ in range(4):  # the first also sets things up
            begin = time.perf_counter()
            float((matrix @ matrix)[0, 0])  # reading a value waits for the device
            tries.append(time.perf_counter() - begin)
        seconds[dtype] = min(tries)
    return seconds[torch.float32] / seconds[torch.bfloat16]


def _storage() -> dict[str, str]:
    from bertlab.data.cache import cache_folder

    return {"cache": _with_free_space(cache_folder()), "runs": _with_free_space(Path(PathsConfig().runs).absolute())}


def _with_free_space(folder: Path) -> str:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return f"{folder} ({shutil.disk_usage(existing).free / _GIB:.1f} GiB free{'' if folder.exists() else '; not made yet'})"


def _services() -> dict[str, str]:
    from bertlab.training.wandb_mirror import mode

    mirror = mode(lambda _: None)  # the report itself says that there is no login
    return {
        "Weights & Biases": {"offline": "offline (no login): runs are kept in their folders, wandb sync sends them later"}.get(
            mirror, mirror
        ),
        "SLURM": _slurm(),
    }


def _slurm() -> str:
    from bertlab.cluster.queue import QueueSilent, check_answers

    if job := os.environ.get("SLURM_JOB_ID"):
        return f"inside job {job}"
    if (sbatch := shutil.which("sbatch")) is None:
        return "not found"
    try:
        check_answers(_SLURM_SECONDS)
    except QueueSilent as error:
        return f"installed ({sbatch}), but does not answer: {error}"
    return f"available ({sbatch})"
