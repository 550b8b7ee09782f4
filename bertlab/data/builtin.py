"""The corpus that needs no download: the English prose that every installation of bertlab already has.

It is Python's own documentation and the docstrings of the standard library and of the libraries that bertlab depends on, read as text
with ``ast``: nothing is imported or run. One document is a module or a topic of Python's ``help()``. What is not prose is left out by
``bertlab.data.prose``, and a paragraph that a library repeats is read once.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import platform
import re
import sysconfig
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from bertlab.data.documents import Document, Problem, ReadingReport
from bertlab.data.lines import Part
from bertlab.data.prose import paragraphs

EXTRACTION_VERSION = 1  # raised when the same files come to give other prose
MIN_WORDS = 20  # of a document

# Where the search for dependencies starts, in the order in which the corpus has them. Whatever else they need follows.
_ROOTS = (
    "torch", "sympy", "networkx", "numpy", "pytorch-lightning", "torchmetrics", "hydra-core", "omegaconf", "rich", "pyarrow", "fsspec",
    "typer", "wandb", "tokenizers", "safetensors", "filelock", "platformdirs", "psutil", "pyyaml", "zstandard",
)  # fmt: skip
_OF_SOME_MACHINES = re.compile(r"nvidia|cuda|triton|colorama|pywin32|setuptools|importlib-metadata|tomli|exceptiongroup")
_NOT_PROSE = re.compile(
    r"(^|/)(tests?|testing|[^/]*_tests?|_?vendor\w*|_bundled|lib2to3|__pycache__|site-packages|dist-packages|\.[^/]*)/|(^|/)(test_[^/]*|conftest)\.py$"
)
_STATEMENTS = ("body", "handlers", "orelse", "finalbody", "cases")  # the fields of a node that hold statements
_TOPICS = "pydoc_data/topics.py"


@lru_cache(maxsize=1)
def groups() -> list[tuple[Part, ...]]:
    """The Python files that are read, one group a library: Python's help topics, its standard library, then each distribution found."""
    standard = Path(sysconfig.get_path("stdlib"))
    modules = sorted(path.relative_to(standard).as_posix() for path in _python_files(standard))
    found = [_parts(standard, [_TOPICS]), _parts(standard, [name for name in modules if name != _TOPICS])]
    found += [_parts(Path(str(one.locate_file(""))), _files_of(one)) for one in distributions()]
    return [group for group in found if group]


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        inside = Path(parent).relative_to(folder)
        folders[:] = [name for name in folders if not _NOT_PROSE.search(f"{(inside / name).as_posix()}/")]
        yield from (Path(parent, name) for name in names if name.endswith(".py"))


def _parts(base: Path, names: list[str]) -> tuple[Part, ...]:
    return tuple(Part(str(base / name)) for name in names if not _NOT_PROSE.search(name) and (base / name).is_file())


def _files_of(distribution: metadata.Distribution) -> list[str]:
    # Distribution.files does the same at a hundred times the cost.
    record = distribution.read_text("RECORD") or ""
    names = (line.rsplit(",", 2)[0] for line in record.splitlines())
    return sorted(name for name in names if name.endswith(".py") and not name.startswith(".."))


def distributions() -> list[metadata.Distribution]:
    """The installed ones among bertlab's dependencies and theirs, breadth first; without those that only some kinds of machine have."""
    waiting = list(_ROOTS)
    found: dict[str, metadata.Distribution | None] = {}
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop(0)).lower()
        if name in found or _OF_SOME_MACHINES.match(name):
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            found[name] = None
            continue
        found[name] = distribution
        needed = [line for line in distribution.requires or [] if "extra" not in line.partition(";")[2]]
        waiting += [match[0] for line in needed if (match := re.match(r"[\w.-]+", line))]
    return [one for one in found.values() if one]


def fingerprint() -> str:
    """A hash of the versions that are installed and the sizes of their files: what the corpus depends on."""
    versions = [platform.python_version(), *(f"{one.name} {one.version}" for one in distributions())]
    sizes = [[os.path.getsize(part.path) for part in group] for group in groups()]
    return hashlib.sha256(json.dumps([EXTRACTION_VERSION, versions, sizes]).encode()).hexdigest()


def read_builtin(parts: tuple[Part, ...], report: ReadingReport) -> Iterator[Document]:
    """The documents of one library, in the order of its files; those of fewer than 20 words and repeated paragraphs are left out."""
    seen: set[str] = set()
    for part in parts:
        for line, texts in _texts(part.path, report):
            found = dict.fromkeys(block for text in texts for block in paragraphs(text))
            blocks = [block for block in found if block not in seen]
            seen.update(blocks)
            if sum(len(block.split()) for block in blocks) >= MIN_WORDS:
                yield Document(part.place(line), blocks)


def _texts(path: str, report: ReadingReport) -> Iterator[tuple[int, list[str]]]:
    """The documents of a Python file before they are cleaned: the line where each starts and its texts."""
    try:
        source = Path(path).read_bytes()
        if b'"""' not in source and b"'''" not in source:
            return
        with warnings.catch_warnings(action="ignore"):  # of escapes that the file's author should have doubled
            tree = ast.parse(source)
    except OSError as error:
        report.add(Problem.UNREADABLE, path, str(error.strerror))
        return
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        report.add(Problem.SYNTAX, path, str(error))
        return
    if path.endswith(_TOPICS):
        yield from _topics(tree)
    else:
        yield 1, list(_docstrings(tree))


def _topics(tree: ast.Module) -> Iterator[tuple[int, list[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for value in node.values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.lineno, [inspect.cleandoc(value.value)]


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Every docstring below ``node`` in the order of the source, those that are attached by a call (``add_docstr``) among them."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text:
            yield text
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _attaches_docstring(node.value.func):
        yield from (inspect.cleandoc(text) for text in _long_strings(node.value))
    for field in _STATEMENTS:
        for child in getattr(node, field, ()):
            yield from _docstrings(child)


def _attaches_docstring(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    return "add_doc" in name or "add_newdoc" in name


def _long_strings(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and "\n" in child.value:
            yield child.value
