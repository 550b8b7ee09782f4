"""What became of the runs of grids: one small file a run beside the runs' folders, so that any later command knows it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from bertlab.ablation.graph import Record
from bertlab.files import write_json


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
    if not Path(record.folder).is_dir() and (moved := runs / Path(record.folder).name).is_dir():
        record = replace(record, folder=str(moved))  # with all of the runs' folder
    if record.status == "done" and not (Path(record.folder) / "result.json").is_file():
        return None  # the run's folder was deleted: it is to be run again
    return record
