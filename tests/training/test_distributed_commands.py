"""One run on several processes as users start it: by itself, by torchrun on two nodes, by srun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from processes import free_port
from safetensors.torch import load_file
from slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slow

BERTLAB = [sys.executable, "-m", "bertlab"]
SECONDS = 400.0  # no bound on speed: what hangs is not to hang the tests


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A run of a tiny model without dropout, whose corpus is prepared."""
    folder = tmp_path_factory.mktemp("texts")
    for number in range(20):
        (folder / f"{number}.txt").write_text(
            "\n\n".join(f"The animal {number} sat on mat {line}. It was day {line}." for line in range(40))
        )
    words = (
        f"scale=smoke corpus=text corpus.path={folder} corpus.held_out=0.2 logger=none model.dropout=0 model.attention_dropout=0".split()
    )
    words += f"budget.steps=6 validation.sequences=8 trainer.log_every=1 paths.cache={folder.parent / 'cache'} trainer.threads=1".split()
    words += ["trainer.accelerator=cpu", "trainer.precision=fp32", "lengths=constant", "batch.length=32", "batch.sequences=8"]
    return words


@pytest.fixture(scope="module")
def alone(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights of one process."""
    folder = tmp_path_factory.mktemp("alone")
    subprocess.run([*BERTLAB, "pretrain", *words], cwd=folder, check=True, timeout=SECONDS, capture_output=True)
    return weights_in(folder)


def weights_in(folder: Path) -> dict[str, torch.Tensor]:
    (file,) = folder.glob("runs/*/model.safetensors")
    return load_file(file)


def assert_same(folder: Path, alone: dict[str, torch.Tensor]) -> None:
    ours = weights_in(folder)
    assert max(float((ours[name] - alone[name]).abs().max()) for name in alone) < 2e-6


def torchrun(node: int, nodes: int, port: int, *words: str) -> list[str]:
    options = f"--nnodes {nodes} --node-rank {node} --nproc-per-node 1 --master-addr 127.0.0.1 --master-port {port}".split()
    return [sys.executable, "-m", "torch.distributed.run", *options, "-m", "bertlab", "pretrain", *words]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_the_run_starts_its_processes_by_itself(strategy: str, words: list[str], alone: dict[str, torch.Tensor], tmp_path: Path) -> None:
    devices = [f"trainer={strategy}", *words, "trainer.devices=2"]
    finished = subprocess.run([*BERTLAB, "pretrain", *devices], cwd=tmp_path, timeout=SECONDS, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert len(finished.stdout.splitlines()) == 1
    assert_same(tmp_path, alone)


def test_two_nodes_by_torchrun(words: list[str], alone: dict[str, torch.Tensor], tmp_path: Path) -> None:
    port = free_port()
    commands = [torchrun(node, 2, port, "trainer=ddp", *words, "trainer.nodes=2") for node in (0, 1)]
    nodes = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands]
    said = [node.communicate(timeout=SECONDS) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert [len(out.splitlines()) for out, _ in said] == [1, 0]  # the run's folder, once
    assert_same(tmp_path, alone)


def test_two_nodes_by_hand(words: list[str], alone: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """Without srun and torchrun, the user says on each node which one it is."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    nodes = [
        subprocess.Popen(
            [*BERTLAB, "pretrain", "trainer=ddp", *words, "trainer.nodes=2", "trainer.devices=2"],
            cwd=tmp_path,
            env={**os.environ, **meeting, "NODE_RANK": str(node)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in (0, 1)
    ]
    said = [node.communicate(timeout=SECONDS) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert_same(tmp_path, alone)


def test_more_processes_than_are_meant_are_refused(words: list[str], tmp_path: Path) -> None:
    command = torchrun(0, 1, free_port(), *words)
    command[command.index("--nproc-per-node") + 1] = "2"
    finished = subprocess.run(command, cwd=tmp_path, timeout=SECONDS, capture_output=True, text=True, check=False)
    assert finished.returncode != 0
    assert "torchrun started 2 processes, 2 on this node, but trainer.devices=1 needs 1" in finished.stderr
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.kill
@pytest.mark.parametrize("dies", ["first", "other"])
def test_no_process_is_left_when_one_is_killed(dies: str, words: list[str], tmp_path: Path) -> None:
    devices = [*words, "trainer.devices=2", "++budget.steps=1000000", "checkpointing.every=5"]
    with (tmp_path / "said").open("wb") as said:
        first = subprocess.Popen([*BERTLAB, "pretrain", "trainer=ddp", *devices], cwd=tmp_path, stdout=said, stderr=said)
    while not list(tmp_path.glob("runs/*/checkpoints/last-*.ckpt")):
        assert first.poll() is None, (tmp_path / "said").read_text()
        time.sleep(0.05)
    (other,) = (child for child in psutil.Process(first.pid).children() if "bertlab" in " ".join(child.cmdline()))
    os.kill(first.pid if dies == "first" else other.pid, signal.SIGKILL)
    code = first.wait(SECONDS)
    psutil.wait_procs([other], timeout=SECONDS)
    assert not other.is_running()
    assert code == (-signal.SIGKILL if dies == "first" else 1)
    assert f"Process {1 if dies == 'first' else 0} of pretrain-" in (tmp_path / "said").read_text()


@pytest.mark.slurm
def test_two_nodes_by_srun(words: list[str], alone: dict[str, torch.Tensor], tmp_path: Path, slurm: SlurmCluster) -> None:
    command = ["srun", "--nodes=2", "--ntasks-per-node=1", "--kill-on-bad-exit=1", *BERTLAB, "pretrain", "trainer=ddp", *words]
    environment = {**slurm.environment, "MASTER_ADDR": "127.0.0.1"}  # its nodes are this machine twice, and have names of their own
    for devices, refused in ((["trainer.devices=3"], True), (["trainer.nodes=2"], False)):
        finished = subprocess.run(
            [*command, *devices], cwd=tmp_path, env=environment, timeout=SECONDS, capture_output=True, text=True, check=False
        )
        assert (finished.returncode != 0) == refused, finished.stderr  # 1, or that of the other task, which srun has ended
        assert ("srun started 2 processes, but trainer.devices=3 needs 3" in finished.stderr) == refused
    assert len(finished.stdout.splitlines()) == 1
    assert_same(tmp_path, alone)
