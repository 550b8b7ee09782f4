"""``bertlab ablate --grid``: the runs behind tables, planned, carried out and reported."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bertlab.arguments import Arguments
from bertlab.errors import UserError
from bertlab.messages import say, warn

if TYPE_CHECKING:
    from bertlab.ablation.execute import Options
    from bertlab.ablation.graph import Plan
    from bertlab.ablation.local_executor import LocalExecutor
    from bertlab.ablation.manifest import Manifest
    from bertlab.ablation.request import Request

CLUSTER_JOBS = 1  # at a time, for estimates: more are the cluster's to promise


def run(words: list[str]) -> int:
    """Plan what the words ask for, and run what of it is not done yet. Returns the exit code: 1 where a run failed."""
    from bertlab.ablation.request import parse_request

    request = parse_request(words)
    if request.help:
        from bertlab.help import show_help

        return show_help("ablate", Arguments(config_dir=request.settings.config_dir))
    queued = _wants_queue(request)
    if request.resubmit and not queued:
        raise UserError("--resubmit goes with --launcher slurm only: without that launcher, every call tries failed runs again.")
    if not request.said_grid:
        say(f"understood as bertlab ablate --grid {' '.join(request.tables)}; bertlab ablate --help lists the tables.")
    plan = _plan(request)
    for sentence in _lacking(plan, request.runs):
        warn(sentence)
    if request.dry_run:
        from bertlab.ablation.dry_run import show_plan

        show_plan(plan, request.runs, CLUSTER_JOBS if queued else _local_executor(request).jobs)
        if queued:
            _show_arrays(plan, request)
        return 0
    return _carry_out(plan, request, shlex.join(["bertlab", "ablate", *words]))


def _wants_queue(request: Request) -> bool:
    from bertlab.ablation.request import DEFAULT_LAUNCHER

    if request.launcher == DEFAULT_LAUNCHER:
        return False
    from bertlab.ablation.launching import launcher_of

    return launcher_of(request).kind == "slurm"


def _local_executor(request: Request) -> LocalExecutor:
    from bertlab.ablation.local_executor import local_executor

    return local_executor(request.jobs, devices=request.devices)


def _show_arrays(plan: Plan, request: Request) -> None:
    """What would be queued, and what the queue has."""
    from bertlab.ablation.launching import resources_of
    from bertlab.ablation.slurm_executor import show_arrays

    show_arrays(plan, request.runs, lambda has_gpus: resources_of(request, has_gpus))


def _plan(request: Request) -> Plan:
    from bertlab.ablation.grid import load_grid
    from bertlab.ablation.plan import plan

    config_dir, tasks = request.settings.config_dir, request.settings.tasks
    if tasks is not None and not Path(tasks).expanduser().is_dir():  # stand-ins for all of its tasks would be trained, for hours
        raise UserError(f"tasks={tasks}: there is no such folder (seen from {Path.cwd()}).")
    return plan([load_grid(name, config_dir) for name in dict.fromkeys(request.tables)], request.settings)


def _lacking(plan: Plan, runs: Path) -> list[str]:
    """Kept weights that fine-tunings are to start from, of pretrainings that are done and have not kept them."""
    from bertlab.ablation.records import read_record

    found: dict[str, str] = {}
    for key, node in plan.nodes.items():
        if node.step is None or node.source is None or (record := read_record(runs, node.source)) is None or record.status != "done":
            continue
        done = read_record(runs, key)
        kept = Path(record.folder) / "checkpoints" / f"step-{node.step:09d}.safetensors"
        if (done is None or done.status != "done") and not kept.is_file():
            found.setdefault(record.folder, f"{node.step:,}")
    return [
        f"{folder} has not kept its weights of step {step}, which a table needs: delete that folder, and the run is repeated to keep them."
        for folder, step in found.items()
    ]


def _carry_out(plan: Plan, request: Request, command: str) -> int:
    from bertlab.ablation.dry_run import announcement
    from bertlab.ablation.execute import Options, execute
    from bertlab.ablation.manifest import group_of, manifest_of
    from bertlab.ablation.words import key_of_word
    from bertlab.commands.report import show_tables
    from bertlab.overrides import text_of

    planned = [manifest_of(plan, table, command) for table in plan.tables]
    manifests = _kept(planned, request.runs)
    for manifest, kept in zip(planned, manifests, strict=True):
        if kept is not manifest:
            say(f"{manifest.table}: an earlier call ran more seeds, which its table keeps.")
    overrides = [word for word in request.settings.machine if key_of_word(word) not in ("paths.runs", "paths.cache")]
    config_dir = request.settings.config_dir
    flags = [] if config_dir is None else [f"--config-dir={config_dir}"]  # what the plan was composed with, runs are, too
    group = f"logger.group={text_of(group_of(request.settings.scale))}"
    options = Options((*flags, group, *overrides), request.cache, resubmit=request.resubmit)
    executor = None if _wants_queue(request) else _local_executor(request)
    if sentence := announcement(plan, request.runs, CLUSTER_JOBS if executor is None else executor.jobs):  # hours may be ahead
        say(sentence)
    if executor is None:
        return _queue(plan, request, options, manifests)
    outcome = execute(plan, request.runs, executor, options)
    manifests = _kept(planned, request.runs)  # a call for fewer seeds, begun before any of these was done, has written over them
    if not outcome.stopped_by:
        show_tables(manifests, request.runs)
    return outcome.exit_code


def _kept(planned: list[Manifest], runs: Path) -> list[Manifest]:
    """The tables as they are kept for reports: with the runs of an earlier call that had more seeds."""
    from bertlab.ablation.manifest import with_earlier_seeds, write_manifest

    manifests = [with_earlier_seeds(runs, manifest) for manifest in planned]
    for manifest in manifests:
        write_manifest(runs, manifest)
    return manifests


def _queue(plan: Plan, request: Request, options: Options, manifests: list[Manifest]) -> int:
    """Carry it out as jobs of SLURM; the tables are made anew as runs finish."""
    from bertlab.ablation.execute import execute
    from bertlab.ablation.launching import launcher_of, resources_of
    from bertlab.ablation.live_view import view_of
    from bertlab.ablation.rebuilding import Rebuilding
    from bertlab.ablation.slurm_executor import SlurmExecutor
    from bertlab.cluster.queue import has_gpus
    from bertlab.commands.report import show_tables, write_tables

    executor = SlurmExecutor(request.runs, "+".join(plan.tables), resources_of(request, has_gpus))
    view = Rebuilding(view_of(plan), lambda: write_tables(manifests, request.runs))
    outcome = execute(plan, request.runs, executor, replace(options, follow=launcher_of(request).follow), view)
    if outcome.stopped_by or outcome.left:
        say("Queued jobs go on. The same command shows them again; bertlab report makes the tables from the runs so far.")
    if outcome.left:
        for job in executor.jobs:
            print(job, flush=True)
    elif not outcome.stopped_by:
        show_tables(manifests, request.runs)
    return outcome.exit_code
