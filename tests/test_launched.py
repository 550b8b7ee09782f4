"""Which process this one is, told by environments as torchrun, srun and a user leave them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pytorch_lightning import Callback
from pytorch_lightning.plugins.environments import SLURMEnvironment

from bertlab.config import TrainerConfig
from bertlab.errors import UserError
from bertlab.launched import (
    cpus_of_task,
    first_node,
    main_address,
    main_port,
    place_taken,
    process_rank,
    starter,
    starts_others,
)
from bertlab.training.machine import lightning_trainer


@pytest.fixture(autouse=True)
def untouched_environment() -> Iterator[None]:
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("SLURM_", "MASTER_", "BERTLAB_STARTS")) or name.endswith(("RANK", "WORLD_SIZE")):
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(before)


def enter(trainer: TrainerConfig) -> None:
    with place_taken(trainer):
        pass


def torchrun(rank: int, world: int, local: int, per_node: int) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(per_node)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "GROUP_RANK": str(rank // per_node)}


def srun(rank: int, tasks: int, local: int = 0, **more: str) -> None:
    os.environ |= {"SLURM_PROCID": str(rank), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_LOCALID": str(local)}
    os.environ |= {"SLURM_JOB_ID": "4711", "SLURM_STEP_NODELIST": "gpu[07-08]"} | more


def test_alone_nothing_is_set() -> None:
    before = dict(os.environ)
    with place_taken(TrainerConfig()):
        assert (starter(), process_rank(), starts_others()) == ("bertlab", 0, 0)
    assert dict(os.environ) == before


def test_the_first_process_starts_the_others_of_its_machine() -> None:
    with place_taken(TrainerConfig(devices=3)):
        assert (process_rank(), starts_others()) == (0, 2)
    os.environ["LOCAL_RANK"] = "2"  # what a child finds
    with place_taken(TrainerConfig(devices=3)):
        assert (process_rank(), starts_others()) == (2, 0)


def test_a_later_run_of_this_process_finds_nothing_of_it() -> None:
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), place_taken(TrainerConfig(devices=3)):
        raise ZeroDivisionError
    assert dict(os.environ) == before
    with place_taken(TrainerConfig()):
        assert starts_others() == 0


def test_what_somebody_has_left_in_the_environment_makes_no_later_process_of_one_that_is_alone() -> None:
    os.environ["LOCAL_RANK"] = "1"
    with pytest.raises(UserError, match=r"LOCAL_RANK=1 in the environment does not belong to trainer\.devices=1"):
        enter(TrainerConfig())
    del os.environ["LOCAL_RANK"]
    os.environ["NODE_RANK"] = "1"
    with pytest.raises(UserError, match=r"NODE_RANK=1 in the environment is another node's"):
        enter(TrainerConfig())


def test_of_several_nodes_without_a_launcher_each_has_its_number() -> None:
    os.environ |= {"NODE_RANK": "1", "MASTER_ADDR": "gpu01", "MASTER_PORT": "20000"}
    with place_taken(TrainerConfig(devices=4, nodes=2)):
        assert (process_rank(), starts_others()) == (4, 3)
    os.environ["LOCAL_RANK"] = "3"
    with place_taken(TrainerConfig(devices=4, nodes=2)):
        assert process_rank() == 7


def test_torchrun_says_the_rank() -> None:
    torchrun(5, 8, 1, 4)
    with place_taken(TrainerConfig(devices=4, nodes=2)):
        assert (starter(), process_rank(), starts_others()) == ("torchrun", 5, 0)


def test_srun_says_the_rank_and_where_the_first_process_is() -> None:
    srun(5, 8, local=1)
    with place_taken(TrainerConfig(devices=4, nodes=2)):
        assert (starter(), process_rank(), starts_others(), main_address()) == ("srun", 5, 0, "gpu07")
    first = main_port()
    os.environ["SLURM_STEP_ID"] = "1"
    assert 1024 < main_port() != first


def test_the_script_of_a_batch_job_is_no_process_of_srun() -> None:
    """One task of four GPUs: the script has SLURM's variables, and the run starts its processes by itself."""
    os.environ |= {"SLURM_PROCID": "0", "SLURM_JOB_ID": "12", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    with place_taken(TrainerConfig(devices=4)):
        assert (starter(), starts_others()) == ("bertlab", 3)
    srun(0, 1)
    assert starter() == "bertlab"


def test_torchrun_within_srun_counts() -> None:
    srun(1, 2)
    torchrun(2, 4, 0, 2)
    assert (starter(), process_rank()) == ("torchrun", 2)


def test_cores_of_a_task_of_srun() -> None:
    srun(0, 2, SLURM_CPUS_PER_TASK="6")
    assert cpus_of_task() == 6
    del os.environ["SLURM_STEP_ID"]
    assert cpus_of_task() is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu1", "gpu1"),
        ("gpu[07-09,12],login1", "gpu07"),
        ("gpu[3,5]", "gpu3"),
        ("gpu[12]", "gpu12"),
        ("a,b", "a"),
        ("rack[1-2]node[03-04]", "rack1node03"),
        ("login1,gpu[07-09]", "login1"),
        ("gpu-a-[1-2]", "gpu-a-1"),
    ],
)
def test_the_first_of_a_list_of_nodes(nodes: str, first: str) -> None:
    assert first_node(nodes) == first


def test_more_or_fewer_processes_than_the_configuration_says() -> None:
    torchrun(0, 2, 0, 2)
    with pytest.raises(UserError, match=r"torchrun started 2 processes.*trainer\.devices=1 needs 1.*--nproc-per-node 1"):
        enter(TrainerConfig())
    with pytest.raises(UserError, match=r"torchrun started 2 processes, 2 on this node"):
        enter(TrainerConfig(devices=1, nodes=2))
    del os.environ["RANK"]
    srun(0, 3)
    with pytest.raises(UserError, match=r"srun started 3 processes.*trainer\.devices=2 on trainer\.nodes=2 needs 4.*--ntasks-per-node=2"):
        enter(TrainerConfig(devices=2, nodes=2))


def test_several_nodes_without_anybody_who_starts_processes_there() -> None:
    with pytest.raises(
        UserError, match=r"trainer\.nodes=2 needs a process on every node.*no NODE_RANK and no MASTER_ADDR and no MASTER_PORT"
    ):
        enter(TrainerConfig(nodes=2))
    os.environ |= {"NODE_RANK": "2", "MASTER_ADDR": "gpu01", "MASTER_PORT": "20000"}
    with pytest.raises(UserError, match=r"NODE_RANK=2 is not a node of trainer\.nodes=2"):
        enter(TrainerConfig(nodes=2))
    os.environ["NODE_RANK"] = "first"
    with pytest.raises(UserError, match=r"NODE_RANK='first'.*is not the number"):
        process_rank()


@pytest.mark.parametrize("strategy", ["auto", "fsdp"])
def test_lightning_is_told_where_a_process_of_srun_stands(strategy: str) -> None:
    srun(
        5, 8, local=1, SLURM_NTASKS_PER_NODE="2", SLURM_NNODES="1"
    )  # two nodes' processes on one, which Lightning's own environment refuses
    config = TrainerConfig(accelerator="cpu", devices=4, nodes=2, strategy=strategy)
    trainer = lightning_trainer(config, "cpu", Callback())
    environment = trainer.strategy.cluster_environment
    assert environment is not None
    trainer.strategy.set_world_ranks()
    assert (trainer.strategy.global_rank, trainer.strategy.world_size, environment.local_rank(), environment.node_rank()) == (5, 8, 1, 1)
    assert environment.creates_processes_externally
    assert environment.main_address == "gpu07"


@pytest.mark.parametrize("tasks", ["1", "4"])
def test_one_process_in_a_job_of_slurm_is_alone(tasks: str) -> None:
    """Lightning would take the job for its own, and refuse one that has more tasks than the run has devices."""
    os.environ |= {"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "mine", "SLURM_NTASKS": tasks, "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    trainer = lightning_trainer(TrainerConfig(), "cpu", Callback())
    assert trainer.world_size == 1
    assert not isinstance(trainer._accelerator_connector.cluster_environment, SLURMEnvironment)  # which would queue the job again itself
