"""``bertlab ablate --grid``: the runs behind tables, planned, carried out and reported."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bertlab.arguments import Arguments
from bertlab.errors import UserError
from bertlab.messages import say, warn

if TYPE_CHECKING:
    from bertlab.ablation.graph import Plan
    from bertlab.ablation.request import Request


def run(words: list[str]) -> int:
    """Plan what the words ask for, and run what of it is not done yet. Returns the exit code: 1 where a run failed."""
    from bertlab.ablation.request import parse_request

    request = parse_request(words)
    if request.help:
        from bertlab.help import show_help

        return show_help("ablate", Arguments(config_dir=request.settings.config_dir))
    if request.launcher == "slurm":
        raise UserError("--launcher slurm is not there yet: leave it out, and the runs are processes of this machine.")
    if not request.said_grid:
        say(f"taken as bertlab ablate --grid {' '.join(request.tables)}; bertlab ablate --help lists the tables.")
    plan = _plan(request)
    for sentence in _lacking(plan, request.runs):
        warn(sentence)
    if request.dry_run:
        from bertlab.ablation.dry_run import show_plan

        show_plan(plan, request.runs)
        return 0
    return _carry_out(plan, request, shlex.join(["bertlab", "ablate", *words]))


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
        f"{folder} has not kept its weights of step {step}, which a table needs: delete that folder, and they are trained again and kept."
        for folder, step in found.items()
    ]


def _carry_out(plan: Plan, request: Request, command: str) -> int:
    from bertlab.ablation.dry_run import announcement
    from bertlab.ablation.execute import Options, execute
    from bertlab.ablation.local_executor import local_executor
    from bertlab.ablation.manifest import group_of, manifest_of, write_manifest
    from bertlab.ablation.words import key_of_word
    from bertlab.commands.report import show_tables
    from bertlab.overrides import text_of

    manifests = [manifest_of(plan, table, command) for table in plan.tables]
    for manifest in manifests:
        write_manifest(request.runs, manifest)
    executor = local_executor(request.jobs, devices=request.devices)
    overrides = [word for word in request.settings.machine if key_of_word(word) not in ("paths.runs", "paths.cache")]
    config_dir = request.settings.config_dir
    flags = [] if config_dir is None else [f"--config-dir={config_dir}"]  # what the plan was composed with, runs are, too
    options = Options(overrides=(*flags, f"logger.group={text_of(group_of(request.settings.scale))}", *overrides), cache=request.cache)
    if sentence := announcement(plan, request.runs):  # hours may be ahead
        say(sentence)
    outcome = execute(plan, request.runs, executor, options)
    if not outcome.stopped_by:
        show_tables(manifests, request.runs)
    return outcome.exit_code

