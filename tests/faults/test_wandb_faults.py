"""The real W&B library and servers with which something is wrong: the run ends as without them, and the folder has everything."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from bad_wandb_server import bad_wandb_server
from processes import _train, context, train
from run_numbers import numbers, only_run
from small_runs import MakeConfig

from bertlab.config import PretrainConfig

pytestmark = pytest.mark.slow

CHANGES = {"budget.steps": 120, "trainer.log_every": 1}
KEY = "a" * 40


def train_with_mirror(config: PretrainConfig, log: Path, address: str, home: str, start_seconds: float, finish_seconds: float) -> None:
    """A training in this process, with a login to the server at ``address`` and other patience than usual."""
    from bertlab.training import wandb_mirror

    wandb_mirror.START_SECONDS, wandb_mirror.FINISH_SECONDS = start_seconds, finish_seconds
    _train(config, log, {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": address, "WANDB_MODE": "online", "HOME": home})


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The numbers of the run without a mirror, once made."""
    return {}


def without_mirror(make_config: MakeConfig, folder: Path, expected: dict[str, object]) -> dict[str, object]:
    if not expected:
        config = make_config(**CHANGES, **{"paths.runs": str(folder / "whole")})
        assert train(config, folder / "log-whole") == 0, (folder / "log-whole").read_text()
        expected.update(numbers(only_run(config.paths.runs)))
    return expected


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("fault", ["unreachable", "silent", "errors", "slow", "errors later"])
def test_a_run_ends_as_without_it(fault: str, make_config: MakeConfig, tmp_path: Path, expected: dict[str, object]) -> None:
    config, log = make_config(**CHANGES, **{"logger.kind": "wandb"}), tmp_path / "log"
    patience = (60.0, 60.0) if fault == "slow" else (4.0, 8.0)  # for the start and for the end
    with bad_wandb_server("silent" if fault == "unreachable" else fault) as server:
        address = f"http://127.0.0.1:{closed_port()}" if fault == "unreachable" else server.url
        process = context.Process(target=train_with_mirror, args=(config, log, address, str(tmp_path), *patience))
        process.start()
        process.join()
        requests, failed, rows = server.requests, server.failed, server.rows
    said = log.read_text()
    assert process.exitcode == 0, said
    assert "Traceback" not in said
    folder = only_run(config.paths.runs)
    assert numbers(folder) == without_mirror(make_config, tmp_path, expected)
    if fault in ("unreachable", "silent", "errors"):  # it never came to a run there
        assert "Weights & Biases cannot be reached" in said
        assert "kept offline in the run's folder" in said
        (mirror,) = folder.glob("wandb/offline-run-*/*.wandb")
        assert mirror.stat().st_size > 1000  # the rows of the training
    if fault == "errors later":
        assert failed > 0
    if fault != "unreachable":
        assert requests > 0
    if fault == "slow":
        assert rows > 0


def test_no_step_waits_for_an_answer(make_config: MakeConfig, tmp_path: Path, expected: dict[str, object]) -> None:
    """The run has its result while wandb still waits for the first word of a server that will never say one."""
    config, log = make_config(**CHANGES, **{"logger.kind": "wandb"}), tmp_path / "log"
    with bad_wandb_server("silent") as server:
        process = context.Process(target=train_with_mirror, args=(config, log, server.url, str(tmp_path), 3600.0, 1.0))
        process.start()
        deadline = time.monotonic() + 120.0
        while not list(Path(config.paths.runs).glob("*/result.json")):
            assert process.exitcode is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        process.join()
    assert process.exitcode == 0, log.read_text()
    assert "Weights & Biases did not answer in time" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert numbers(only_run(config.paths.runs)) == without_mirror(make_config, tmp_path, expected)
