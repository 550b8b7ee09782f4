"""Imports point one way, also those inside functions and those for types alone: docs/architecture.md has the arrow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "bertlab"

# The lowest first. What is not named here lies below all of it: configuration, files, errors, words.
ROOMS = (
    "data",
    "models",
    "objectives",
    "tasks",
    "run_files",
    "interop",
    "training",
    "finetune_validation",
    "schemas",
    "overrides",
    "composition",
    "inference",
    "cluster",
    "ablation",
    "completion",
    "help",
    "commands",
    "cli",
    "__main__",
)
EXCEPTIONS = {
    ("bertlab", "bertlab.inference.model"): "bertlab.load is the front door: nothing is imported before it is called",
    ("bertlab.ablation.template", "bertlab.cli"): "it is the whole program, imported once, which is forked for every run",
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports name their module from the top"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module or "" for name in inside)


def height(module: str) -> int:
    room = module.split(".")[1] if "." in module else ""
    return ROOMS.index(room) if room in ROOMS else -1


@pytest.mark.parametrize("module", MODULES)
def test_no_module_imports_from_a_higher_room(module: str) -> None:
    imported = {name for name in imports_of(module) if name.split(".")[0] == "bertlab"}
    assert not [name for name in imported if height(name) > height(module) and (module, name) not in EXCEPTIONS]


def test_every_room_and_exception_is_there() -> None:
    assert set(ROOMS) <= {module.split(".")[1] for module in MODULES if "." in module}
    assert all(imported in imports_of(module) for module, imported in EXCEPTIONS)
