"""Which of its run's processes this one is, and who started them.

started by     what its environment holds                                  the rank
torchrun       RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT       RANK
srun           SLURM_PROCID, and of its step more than one task            SLURM_PROCID
bertlab        NODE_RANK, MASTER_ADDR, MASTER_PORT with several nodes      NODE_RANK * devices + LOCAL_RANK

In the last case the user starts a process a node, and that one starts the others of its node (see ``children``).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bertlab.checks import devices_in_words
from bertlab.config import TrainerConfig
from bertlab.errors import UserError

# What a run sets to say which of its processes this one is: a later run of the same process must not find it.
_SET_BY_A_RUN = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "BERTLAB_STARTS_OTHERS")

_PORTS = range(15_000, 30_000)  # below those that systems give away by themselves


def starter() -> str:
    """Who started the processes of this run: torchrun | srun | bertlab, the run itself."""
    if os.environ.get("RANK"):
        return "torchrun"
    return "srun" if _tasks(os.environ) > 1 else "bertlab"


def process_rank() -> int:
    """Which of the processes that train together this one is, over all nodes; 0 when alone."""
    started_by = starter()
    if started_by != "bertlab":
        return int(os.environ["RANK" if started_by == "torchrun" else "SLURM_PROCID"])
    return _number("NODE_RANK") * max(1, _number("LOCAL_WORLD_SIZE")) + _number("LOCAL_RANK")


def starts_others() -> int:
    """How many further processes of this machine this one is to start; 0 where somebody else has done so, or there is none."""
    if not os.environ.get("BERTLAB_STARTS_OTHERS") or _number("LOCAL_RANK") > 0:
        return 0
    return _number("LOCAL_WORLD_SIZE") - 1


@contextmanager
def place_taken(trainer: TrainerConfig) -> Iterator[None]:
    """Be one of the run's processes inside the block, with what a launcher would have put into the environment where there was none.

    Processes that were started otherwise than the configuration says are refused, before any of them waits for one that will never come.

    Raises:
        UserError: there are more or fewer of them, or it is not said which this one is.
    """
    before = {name: os.environ.get(name) for name in _SET_BY_A_RUN}
    try:
        _take_place(trainer)
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def check_place(trainer: TrainerConfig) -> None:
    """Refuse devices and nodes that whoever started this process has not started it for. Raises ``UserError``."""
    started_by = starter()
    if started_by == "torchrun":
        _check_torchrun(trainer)
    elif started_by == "srun" and (tasks := _tasks(os.environ)) != trainer.world:
        raise UserError(
            f"srun started {tasks} processes, but {devices_in_words(trainer)} needs {trainer.world}:"
            f" use srun --nodes={trainer.nodes} --ntasks-per-node={trainer.devices}, or change the keys."
        )
    elif started_by == "bertlab":
        _check_nodes(trainer)


def _take_place(trainer: TrainerConfig) -> None:
    check_place(trainer)
    if starter() == "bertlab" and trainer.world > 1:
        _be_the_first_here(trainer)


def _be_the_first_here(trainer: TrainerConfig) -> None:
    """Say to this process, and to those that it starts, what a launcher would; where one has said something, that holds."""
    os.environ["LOCAL_WORLD_SIZE"] = str(trainer.devices)
    os.environ["WORLD_SIZE"] = str(trainer.world)
    if os.environ.get("LOCAL_RANK"):
        return
    os.environ |= {"LOCAL_RANK": "0", "BERTLAB_STARTS_OTHERS": "1"}
    os.environ.setdefault("NODE_RANK", "0")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(_free_port()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _check_torchrun(trainer: TrainerConfig) -> None:
    world, local = _number("WORLD_SIZE"), _number("LOCAL_WORLD_SIZE") or trainer.devices
    if (world, local) != (trainer.world, trainer.devices):
        raise UserError(
            f"torchrun started {world} processes, {local} on this node, but {devices_in_words(trainer)} needs {trainer.world}:"
            f" use torchrun --nnodes {trainer.nodes} --nproc-per-node {trainer.devices}, or change the keys."
        )


def _check_nodes(trainer: TrainerConfig) -> None:
    if (local := _number("LOCAL_RANK")) >= trainer.devices:
        raise UserError(f"LOCAL_RANK={local} in the environment does not belong to {devices_in_words(trainer)}: unset it.")
    if trainer.nodes == 1:
        if node := _number("NODE_RANK"):
            raise UserError(f"NODE_RANK={node} in the environment is another node's, but trainer.nodes=1 has only one: unset it.")
        return
    missing = [name for name in ("NODE_RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise UserError(
            f"trainer.nodes={trainer.nodes} needs a process on every node: start it with srun or torchrun, or on each node with NODE_RANK,"
            f" MASTER_ADDR and MASTER_PORT in the environment; there is no {' and no '.join(missing)} here."
        )
    if not 0 <= (node := _number("NODE_RANK")) < trainer.nodes:
        raise UserError(f"NODE_RANK={node} is not a node of trainer.nodes={trainer.nodes}: nodes count from 0 to {trainer.nodes - 1}.")


def _number(name: str) -> int:
    """A variable of the environment; 0 where it is not set."""
    value = os.environ.get(name) or "0"
    if not re.fullmatch(r"\d{1,9}", value):
        raise UserError(
            f"{name}={value!r} in the environment is not the number of a process: set it as launchers of processes do, or unset it."
        )
    return int(value)


def _tasks(environment: Mapping[str, str]) -> int:
    """The tasks of the step of ``srun`` that this process is one of; 0 where it is none, as in the script of a batch job itself."""
    if not environment.get("SLURM_PROCID") or not environment.get("SLURM_STEP_ID"):
        return 0
    return int(environment.get("SLURM_STEP_NUM_TASKS") or environment.get("SLURM_NTASKS") or 0)


def cpus_of_task() -> int | None:
    """The cores that srun was told to give to each of its processes; None where it was not told, or has not started this one."""
    given = os.environ.get("SLURM_CPUS_PER_TASK")
    return int(given) if starter() == "srun" and given else None


def main_address() -> str:
    """The machine of the first process that srun has started."""
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_NODELIST") or "127.0.0.1"
    return os.environ.get("MASTER_ADDR") or first_node(nodes)


def first_node(nodes: str) -> str:
    """The first of a list as SLURM writes it: ``gpu[07-09,12],login1`` begins with ``gpu07``."""
    first = re.match(r"[^,\[]*(\[[^\]]*\][^,\[]*)*", nodes)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first[0] if first else nodes)


def main_port() -> int:
    """Where the first process that srun has started listens: of each job and step its own."""
    if given := os.environ.get("MASTER_PORT"):
        return int(given)
    job, step = (int(os.environ.get(name) or 0) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    return _PORTS[(31 * job + step) % len(_PORTS)]
