"""Trainings in processes of their own, which can be killed. A server process has imported everything once and forks them."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from bertlab.config import PretrainConfig
from bertlab.finetune_config import FinetuneConfig

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    [
        "bertlab.training.pretrain_bookkeeping",
        "bertlab.data.prepare",
        "bertlab.data.assembly",
        "bertlab.objectives.mlm_nsp",
        "bertlab.models.size",
    ]
)


def start(config: PretrainConfig | FinetuneConfig, log: Path) -> ForkServerProcess:
    """Begin a training whose standard error goes to ``log``."""
    process = context.Process(target=_train, args=(config, log, {}))
    process.start()
    return process


def train(config: PretrainConfig | FinetuneConfig, log: Path) -> int:
    """A training up to its end; returns the exit code."""
    process = start(config, log)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def start_ranks(
    config: PretrainConfig | FinetuneConfig, folder: Path, world: int, port: int, only: list[int] | None = None, *, audited: bool = False
) -> list[ForkServerProcess]:
    """Begin a training of several processes, as a launcher would, or ``only`` some; each writes to ``rank<n>`` in ``folder``.

    With ``audited`` each notes in ``changed<n>`` what it changes of the file system.
    """
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world), "NODE_RANK": "0"}
    processes = []
    for rank in range(world) if only is None else only:
        noted = folder / f"changed{rank}" if audited else None
        process = context.Process(target=_train, args=(config, folder / f"rank{rank}", {**shared, "LOCAL_RANK": str(rank)}, noted))
        process.start()
        processes.append(process)
    return processes


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _train(config: PretrainConfig | FinetuneConfig, log: Path, environment: dict[str, str], noted: Path | None = None) -> None:
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", closefd=False)
    if noted is not None:
        _note_changes(noted)
    from bertlab.errors import UserError
    from bertlab.training.finetune import finetune
    from bertlab.training.pretrain import pretrain

    try:
        if isinstance(config, FinetuneConfig):
            finetune(config)
        else:
            pretrain(config)
    except UserError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


def _note_changes(file: Path) -> None:
    """Write a line for everything that this process makes, opens for writing, renames or deletes."""
    lines = file.open("a", buffering=1)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        opened = event == "open" and isinstance(arguments[0], str) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if (opened and not arguments[0].startswith("/dev/")) or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
            lines.write(f"{event.removeprefix('os.')} {arguments[0]}\n")

    sys.addaudithook(note)
