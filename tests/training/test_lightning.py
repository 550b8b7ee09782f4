"""Lightning is imported without what only its metrics would need, and from one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bertlab

PACKAGE = Path(bertlab.__file__).parent


def printed(code: str) -> str:
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


@pytest.mark.parametrize("kind", ["pretrain", "finetune"])
def test_training_imports_no_library_that_only_metrics_would_use(kind: str) -> None:
    code = f"import sys, bertlab.training.{kind}, bertlab.training.machine\n"
    code += "print([name for name in ('scipy', 'matplotlib', 'transformers') if name in sys.modules], 'torchmetrics' in sys.modules)"
    assert printed(code) == "[] True"  # torchmetrics itself is there: else this would say nothing


def test_others_in_the_process_are_told_the_truth_afterwards() -> None:
    code = "from lightning_utilities.core import imports\n"
    code += "before = imports.package_available, imports.RequirementCache._check_available\n"
    code += "import bertlab.training.lightning\n"
    code += "print((imports.package_available, imports.RequirementCache._check_available) == before,"
    code += " imports.package_available('scipy'), bool(imports.RequirementCache('scipy>=1.0')))"
    assert printed(code) == "True True True"


def test_nothing_else_imports_it() -> None:
    """A module that did, and was imported first, would bring the libraries in."""
    own = PACKAGE / "training" / "lightning.py"
    text = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path != own}
    assert [path.name for path, code in text.items() if "import pytorch_lightning" in code or "from pytorch_lightning" in code] == []
    assert [path.name for path, code in text.items() if "from lightning_fabric" in code or "import lightning_fabric" in code] == []
