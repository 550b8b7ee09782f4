"""The environment of a run that is alone: what a launcher has told this process about its place among others is taken out."""

from __future__ import annotations

from collections.abc import Mapping

# Set in processes of a distributed run and of a SLURM job: a run that finds them takes itself for a rank of what is none of its own.
PLACE_AMONG_OTHERS = (
    "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_ID",
)  # fmt: skip


def alone(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without it."""
    return {name: value for name, value in environment.items() if name not in PLACE_AMONG_OTHERS}
