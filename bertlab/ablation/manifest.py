"""What a table was made to be, kept beside the records of its runs, so that a report needs no sweep file, no corpus and no tasks.

``<runs>/grid/tables/<table>-<scale>-<hash>.json``: rows, columns and published numbers, which runs each cell has, what every run was to do,
and the sentences that stand under the table. The hash is of what the table measures, not of how many seeds measure it: the same call with
more seeds replaces the file, one with fewer leaves in it what there is of the others, and a call with other data or another budget has a
file of its own.
"""

from __future__ import annotations

import json
import platform
import subprocess
import time
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import bertlab
from bertlab.ablation.graph import CellPlan, Node, Plan, TablePlan
from bertlab.ablation.grid import Grid
from bertlab.ablation.records import read_record
from bertlab.errors import UserError, unknown
from bertlab.files import is_plain_name, write_json
from bertlab.messages import warn
from bertlab.training.identity import hash8

T = TypeVar("T")

FORMAT = 1


@dataclass(frozen=True)
class Made:
    """By whom and when; none of it changes what the table measures."""

    command: str = ""  # as it was typed
    time: str = ""  # UTC
    bertlab: str = ""  # version
    commit: str = ""  # of the checkout that bertlab runs from, with "+" where it has changes; empty where it is none
    machine: str = ""


@dataclass(frozen=True)
class Manifest:
    """A table, its cells and their runs."""

    table: str
    scale: str
    grid: Grid
    notes: tuple[str, ...]  # for under the table: budget, seeds, data, what stands in
    cells: tuple[CellPlan, ...]
    nodes: Mapping[str, Node]  # by key: the runs of the cells and those that they start from
    made: Made = field(default_factory=Made)

    @property
    def name(self) -> str:
        """Of its file, and of the folder of its reports."""
        return f"{self.table}-{self.scale}-{self._hash}"

    @property
    def _hash(self) -> str:
        runs = {key: node.shape or " ".join(_without_seed(node.overrides)) for key, node in self.nodes.items()}
        cells = {(cell.row, cell.column, cell.point or 0.0, *sorted({runs[key] for key in cell.nodes})) for cell in self.cells}
        return hash8({"table": self.table, "scale": self.scale, "cells": [list(cell) for cell in sorted(cells)]})


def manifest_of(plan: Plan, table: str, command: str = "") -> Manifest:
    """The manifest of one of the plan's tables; ``command`` is what made it, for people."""
    of_table: TablePlan = plan.tables[table]
    cells = tuple(plan.cells[table])
    return Manifest(
        table=table,
        scale=of_table.scale,
        grid=of_table.grid,
        notes=of_table.notes,
        cells=cells,
        nodes=_with_sources(plan.nodes, [key for cell in cells for key in cell.nodes]),
        made=made(command),
    )


def made(command: str = "") -> Made:
    """Of what is being made now."""
    return Made(
        command=command,
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        bertlab=bertlab.__version__,
        commit=_commit(),
        machine=f"{platform.system()} {platform.machine()}",
    )


def group_of(scale: str) -> str:
    """The name under which Weights & Biases shows runs of grids together: tables of a scale share runs, so it is the scale's."""
    return f"grid-{scale}"


def manifests_folder(runs: Path) -> Path:
    """Where they are kept."""
    return runs / "grid" / "tables"


def write_manifest(runs: Path, manifest: Manifest) -> Path:
    """Keep a manifest, atomically; returns its file."""
    path = manifests_folder(runs) / f"{manifest.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    values = asdict(replace(manifest, grid=replace(manifest.grid, path=Path(manifest.grid.path.name))))
    write_json(path, {"format": FORMAT, **_plain(values)})
    return path


def with_earlier_seeds(runs: Path, manifest: Manifest) -> Manifest:
    """The manifest with the runs of an earlier call for the same table that had more seeds, where any of these is done; else itself."""
    path = manifests_folder(runs) / f"{manifest.name}.json"
    try:
        earlier = read_manifest(path)
    except UserError:  # there is none, or none that this version reads
        return manifest
    before, now = ({(cell.row, cell.column, cell.point): set(cell.nodes) for cell in each.cells} for each in (earlier, manifest))
    if before.keys() != now.keys() or not all(now[place] <= before[place] for place in now):
        return manifest
    others = {key for place in now for key in before[place] - now[place]}
    if not any((record := read_record(runs, key)) is not None and record.status == "done" for key in others):
        return manifest
    return replace(manifest, cells=earlier.cells, nodes=earlier.nodes, notes=earlier.notes, made=earlier.made)


def read_manifest(path: Path) -> Manifest:
    """A manifest that ``write_manifest`` wrote.

    Raises:
        UserError: it is none.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        known = {name: values[name] for name in (each.name for each in fields(Manifest))}
        manifest: Manifest = _built(Manifest, known)
        _check_names(manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        again = "run bertlab ablate --grid again, which writes it anew and runs nothing twice"
        raise UserError(f"{path} is not a table's file that this version can read ({type(error).__name__}: {error}): {again}.") from error
    return manifest


def _check_names(manifest: Manifest) -> None:
    """What becomes a path stays inside the runs' folder, and what is named is there. Raises ValueError or KeyError."""
    sources = [node.source for node in manifest.nodes.values() if node.source is not None]
    for name in (manifest.table, manifest.scale, *manifest.nodes, *(node.key for node in manifest.nodes.values())):
        if not is_plain_name(name):
            raise ValueError(f"{name!r} is no name")
    for key in (*sources, *(key for cell in manifest.cells for key in cell.nodes)):
        manifest.nodes[key]
    for cell in manifest.cells:
        manifest.grid.rows[cell.row], manifest.grid.columns[cell.column]


def find_manifests(runs: Path, names: Sequence[str]) -> list[Manifest]:
    """The tables of these ``names`` (table5, or with its scale table5-laptop, or with the whole name of its file); without any, all.

    A name may be a pattern (table*), or the way to a report's folder. A table that cannot be read is told of and left out, unless it is
    named or the only one.

    Raises:
        UserError: a name is none of those that there are, or its table cannot be read.
    """
    paths = sorted(manifests_folder(runs).glob("*.json"))
    if not paths:
        raise UserError(f"There is no table in {runs}: bertlab ablate --grid makes one (or name another folder with paths.runs=DIR).")
    names = [Path(name).name for name in names]
    manifests = []
    for path in paths:
        try:
            manifests.append(read_manifest(path))
        except UserError as error:
            called = _called_by(path.stem)
            if len(paths) == 1 or set(names) & set(called):
                raise
            if not names or _is_meant(called, names):
                warn(str(error))
    if not names:
        return manifests
    known = {name for manifest in manifests for name in _called(manifest)}
    for name in names:
        if not _is_meant(known, [name]):
            raise unknown(f"table of {runs}", name, known)
    return [manifest for manifest in manifests if _is_meant(_called(manifest), names)]


def _is_meant(called: Iterable[str], names: Sequence[str]) -> bool:
    """Whether one of the ``names``, which may be patterns, is what a table is ``called``."""
    return any(one == name or fnmatchcase(one, name) for one in called for name in names)


def _called(manifest: Manifest) -> tuple[str, str, str]:
    return manifest.table, f"{manifest.table}-{manifest.scale}", manifest.name


def _called_by(name: str) -> tuple[str, str, str]:
    """What a table is called whose file has this ``name``, as far as that tells it."""
    return name.rsplit("-", 2)[0], name.rsplit("-", 1)[0], name


def _without_seed(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("seed=")]


def _with_sources(nodes: Mapping[str, Node], keys: Sequence[str]) -> dict[str, Node]:
    """The nodes of these ``keys`` and those that they start from, in the order of the plan."""
    wanted = list(keys)
    for key in wanted:  # which grows
        source = nodes[key].source
        if source is not None and source not in wanted:
            wanted.append(source)
    return {key: node for key, node in nodes.items() if key in set(wanted)}


def _commit() -> str:
    """The commit of the checkout that this code is part of."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return ""
    try:
        said = [
            subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=True).stdout.strip()
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return ""
    return said[0] + ("+" if said[1] else "")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _built(kind: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass ``kind`` out of what JSON has of it; keys that it does not have are left out, missing ones have their defaults."""
    hints = typing.get_type_hints(kind)
    return kind(**{key: _value(hints[key], value) for key, value in values.items() if key in hints})


def _value(hint: Any, value: Any) -> Any:
    """``value`` of JSON as ``hint`` has it: tuples for lists, dataclasses for objects. Raises TypeError where it is something else."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Path:
        return Path(value)
    if is_dataclass(hint):
        return _built(typing.cast(type[Any], hint), _of(dict, value))
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value)
    if origin is tuple:
        return tuple(_value(arguments[0], item) for item in _of(list, value))
    if origin is not None:
        return {key: _value(arguments[1], item) for key, item in _of(dict, value).items()}
    if type(value) is not hint and not (hint is float and type(value) is int):
        raise TypeError(f"{value!r} is no {hint.__name__}")
    return value


def _of(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _one_of(hints: Sequence[Any], value: Any) -> Any:
    for hint in hints:
        with suppress(TypeError):
            return _value(hint, value)
    raise TypeError(f"{value!r} is neither {' nor '.join(str(getattr(hint, '__name__', hint)) for hint in hints)}")
