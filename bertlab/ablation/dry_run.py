"""What a plan looks like before anything is run: ``bertlab ablate --grid … --dry-run``, and the line that a call begins with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bertlab.ablation.estimate import Estimate, estimate
from bertlab.ablation.graph import PRETRAINING, Node, Plan, TablePlan
from bertlab.counting import counted

_WIDTH = 150  # where the output is no terminal
_SHOWN = 2  # of the cells that want a run


def show_plan(plan: Plan, runs: Path, jobs: int) -> None:
    """Print every run with what wants it, whether it is done, what it costs; then totals, and what sharing saves.

    ``jobs``: runs at a time, for how long all of them take.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    known = estimate(plan, runs, jobs)
    for name, table in plan.tables.items():
        console.print(_heading(name, table), soft_wrap=True, markup=False)
        for note in table.notes:
            console.print(f"  {note}", markup=False)
    console.print(_runs(plan, known))
    for line in _totals(plan, known):
        console.print(line, markup=False)


def announcement(plan: Plan, runs: Path, jobs: int) -> str | None:
    """What is about to be run and how long that takes, in a line; None where everything is done."""
    known = estimate(plan, runs, jobs)
    left = known.left(plan)
    if not left:
        return None
    return f"{', '.join(plan.tables)}: {counted(len(left), 'run')} to do, {_time_to_do(plan, known)}; --dry-run lists them."


def _heading(name: str, table: TablePlan) -> str:
    rows = [row for row in table.grid.rows.values() if not row.published_only]
    return f"{name}: {table.grid.title}, at scale={table.scale}; {counted(len(rows), 'row')}, {counted(len(table.grid.columns), 'column')}"


def _runs(plan: Plan, known: Estimate) -> Table:
    table = Table("", "run", "wanted by", "state", box=SIMPLE_HEAD)
    for column in ("tokens", "FLOPs", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    for number, (key, node) in enumerate(plan.nodes.items(), 1):
        state = known.state(key)
        color = {"done": "green", "failed before": "red"}.get(state, "")
        table.add_row(
            str(number),
            escape(f"{'pre-train' if node.kind == PRETRAINING else 'fine-tune'} {node.label}"),
            escape(_wanted_by(node)),
            f"[{color}]{state}[/]" if color else state,
            in_short(node.positions),
            in_short(node.flops),
            _time(known.seconds[key]),
        )
    return table


def _wanted_by(node: Node) -> str:
    shown = "; ".join(node.wanted_by[:_SHOWN])
    more = len(node.wanted_by) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _totals(plan: Plan, known: Estimate) -> Iterable[str]:
    left = known.left(plan)
    failed = sum(known.state(key) == "failed before" for key in plan.nodes)
    pretrainings = sum(node.kind == PRETRAINING for node in plan.nodes.values())
    again = f" ({failed} of them failed before)" if failed else ""
    kinds = f"{counted(pretrainings, 'pre-training')} and {counted(len(plan.nodes) - pretrainings, 'fine-tuning')}"
    yield f"{counted(len(plan.nodes), 'run')}: {kinds}; {len(plan.nodes) - len(left)} done, {len(left)} to do{again}."
    flops = sum(node.flops for node in plan.nodes.values())
    yield (
        f"All: {in_short(sum(node.positions for node in plan.nodes.values()))} tokens, {in_short(flops)} FLOPs. To do:"
        f" {in_short(sum(node.positions for node in left))} tokens, {in_short(sum(node.flops for node in left))} FLOPs,"
        f" {_time_to_do(plan, known)}."
    )
    saved_runs = plan.naive_runs - len(plan.nodes)
    if saved_runs > 0 and plan.naive_flops > flops:
        share = 1 - flops / plan.naive_flops
        yield (
            f"Without sharing, with every row of every table pre-trained separately, there would be {counted(plan.naive_runs, 'run')} and"
            f" {in_short(plan.naive_flops)} FLOPs: sharing saves {counted(saved_runs, 'run')} and {share:.0%} of the FLOPs."
        )
    else:
        yield "No runs are shared."


def _time_to_do(plan: Plan, known: Estimate) -> str:
    order = "one run after the other" if known.jobs == 1 else f"{known.jobs} runs at a time"
    basis = f" (estimated from {known.basis})" if known.basis else ""
    return f"{_time(known.seconds_to_do(plan))} on this machine, {order}{basis}"


def _time(seconds: float | None) -> str:
    """About; ``?`` where nothing tells."""
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 90:
        return f"{minutes:.0f} min"
    hours = minutes / 60
    return f"{hours:.1f} h" if hours < 72 else f"{hours / 24:.1f} days"


def in_short(number: float) -> str:
    """12.0 M for 12 million; – for nothing."""
    if not number:
        return "–"
    rounded = float(f"{number:.3g}")  # first, since 999,600 is 1 M and no 1e+03 k
    for limit, unit in ((1e21, "Z"), (1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rounded >= limit:
            return f"{rounded / limit:.3g} {unit}"
    return f"{number:.0f}"
