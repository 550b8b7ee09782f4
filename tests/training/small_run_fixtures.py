"""What tests of whole runs of a second get: a corpus, a cache, and a configuration to change."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from small_runs import MakeConfig, small_pretraining, write_corpus


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def make_config(corpus: Path, cache: Path, tmp_path: Path) -> MakeConfig:
    """Builds the configuration of a run of a second: ``make_config(seed=2, **{"batch.micro": 4})``."""
    return partial(small_pretraining, corpus, cache, tmp_path / "runs")
