"""Plans of fake runs, carried out here or by a process of their own: ``python fake_grids.py RUNS PLAN``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bertlab.ablation.execute import Options, Outcome, execute
from bertlab.ablation.executor import Executor
from bertlab.ablation.graph import FINETUNING, PRETRAINING, Node, Plan
from bertlab.ablation.live_view import LogView
from bertlab.ablation.local_executor import LocalExecutor

HERE = Path(__file__).parent
PROGRAM = (sys.executable, str(HERE / "fake_bertlab.py"))


def pretraining(name: str, *words: str, source: str | None = None) -> Node:
    return Node(name, PRETRAINING, (f"name={name}", *words), 1, source, flops=1e9)


def finetuning(name: str, source: str, *words: str, step: int | None = None) -> Node:
    return Node(name, FINETUNING, (f"name={name}", *words), 1, source, step, flops=1e8, wanted_by=(f"table: {name}",))


def plan_of(*nodes: Node) -> Plan:
    return Plan({node.key: node for node in nodes})


def options(grace: float = 20.0, **changes: object) -> Options:
    return Options(program=PROGRAM, grace=grace, **changes)


def carry_out(plan: Plan, runs: Path, jobs: int = 2, executor: Executor | None = None, grace: float = 20.0) -> Outcome:
    return execute(plan, runs, executor or LocalExecutor(jobs, threads=1), options(grace), LogView())


def start_grid(plan: Plan, runs: Path, log: Path, jobs: int = 2, grace: float = 20.0, cache: Path | None = None) -> subprocess.Popen[bytes]:
    """The same by a process of its own; with a ``cache``, of real trainings, forked from a template."""
    content = json.dumps([[asdict(node) for node in plan.nodes.values()], jobs, grace, None if cache is None else str(cache)])
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, __file__, str(runs), content], stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )


def journal(runs: Path) -> list[tuple[str, str]]:
    """(what, name) of whatever fake runs did, in order."""
    path = runs / "journal"
    return [(line.split()[0], line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []


def processes_of(runs: Path) -> list[int]:
    """The processes, of whatever kind, that name the folder among their arguments or have a file in it open, but for this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            opened = [os.readlink(link) for link in (entry / "fd").iterdir()]
            if str(runs) in (entry / "cmdline").read_text() or any(name.startswith(str(runs)) for name in opened):
                found.append(int(entry.name))  # zombies have neither
        except OSError:
            continue
    return found


def wait_until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def _main() -> None:
    nodes, jobs, grace, cache = json.loads(sys.argv[2])
    plan = plan_of(*(Node(**{**node, "overrides": tuple(node["overrides"]), "wanted_by": tuple(node["wanted_by"])}) for node in nodes))
    runs = Path(sys.argv[1])
    if cache is None:
        sys.exit(carry_out(plan, runs, jobs, grace=grace).exit_code)
    real = Options(overrides=("logger=none",), cache=cache, grace=grace)
    sys.exit(execute(plan, runs, LocalExecutor(jobs, threads=1, forking=True), real, LogView()).exit_code)


if __name__ == "__main__":
    _main()
