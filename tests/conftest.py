from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from slurm_cluster import MISSING, SlurmCluster, is_installed, running_cluster

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# The suite runs a process a core. Two that take two threads each get in each other's way, and small products become ten times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The suite tries the same examples wherever it runs: a commit passes or fails for what it changes. `make fuzz` looks for new ones.
settings.register_profile("suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", max_examples=3000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("BERTLAB_TESTS", "suite"))


# A shell starts background commands with Ctrl-C ignored, nohup with SIGHUP, and processes started by tests would inherit that.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def no_wandb_process_is_left() -> Iterator[None]:
    """wandb leaves its process running, and its address in the environment: the processes of later tests would use it, not their own."""
    yield
    if "WANDB_SERVICE" in os.environ:
        import wandb

        wandb.teardown()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora and labelled tasks beside the checkout (or $BERTLAB_SHARED_DATA)."""
    folder = Path(os.environ.get("BERTLAB_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the development data is not here: no folder {folder}")
    return folder


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """A real SLURM of two nodes; tests that take it are marked ``slurm``."""
    if not is_installed():
        pytest.skip(MISSING)
    yield from running_cluster()
