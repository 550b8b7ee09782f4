"""Where the YAML files that come with bertlab lie: inside an installed package, beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def conf_folder() -> Path:
    """The folder of the configuration: one folder a choice."""
    return _resource("conf")


def sweeps_folder() -> Path:
    """The folder of the tables' definitions."""
    return _resource("sweeps")


def _resource(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
