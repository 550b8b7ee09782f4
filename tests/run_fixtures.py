"""Fixtures of tests that need runs as training leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from written_runs import MakeRun, small_architecture, small_vocabulary, write_run

from bertlab.data.tokenizer import Vocabulary


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return small_vocabulary()


@pytest.fixture
def make_run(tmp_path: Path, vocabulary: Vocabulary) -> MakeRun:
    """``make_run(attention="causal")`` writes a run of that architecture."""

    def make(name: str = "pretrain-small-mlm_nsp-0123abcd", words: Vocabulary | None = None, **changes: Any) -> Path:
        words = words or vocabulary
        return write_run(tmp_path / "runs" / name, words, small_architecture(words, **changes))

    return make
