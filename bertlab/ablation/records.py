"""What became of the runs of grids: one small file a run beside the runs' folders, so that any later command knows it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from bertlab.ablation.graph import Record
from bertlab.files import is_plain_name, write_json


def record_path(runs: Path, key: str) -> Path:
    """Where the record of a node is kept."""
    return runs / "grid" / f"{key}.json"


def write_record(runs: Path, record: Record) -> None:
    """Keep a record, atomically."""
    path = record_path(runs, record.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(record))


def read_record(runs: Path, key: str) -> Record | None:
    """The record of a node, or None: it was never run to an end, or what it says is gone."""
    try:
        record = Record(**json.loads(record_path(runs, key).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    if not all(isinstance(each, str) for each in (record.status, record.folder, record.reason)) or not isinstance(
        record.seconds, int | float
    ):
        return None
    if record.folder and not _is_inside(Path(record.folder), runs):
        # Moved with all of the runs' folder, unless somebody has written a path of elsewhere, which nobody shall be led to.
        name = Path(record.folder).name
        record = replace(record, folder=str(runs / name) if is_plain_name(name) else "")
    if record.status not in ("done", "failed"):
        return None
    if record.status == "done" and not (record.folder and (Path(record.folder) / "result.json").is_file()):
        return None  # the run's folder was deleted: it is to be run again
    return record


def _is_inside(folder: Path, runs: Path) -> bool:
    """Whether a run's folder is there, and one of ``runs``."""
    return folder.is_dir() and is_plain_name(folder.name) and folder.parent.resolve() == runs.resolve()
