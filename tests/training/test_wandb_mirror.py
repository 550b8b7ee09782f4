from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bertlab.config import LoggerConfig
from bertlab.training import wandb_mirror
from bertlab.training.wandb_mirror import NoMirror, WandbMirror, make_mirror, mode

ROWS: list[dict[str, Any]] = [
    {"step": 4, "split": "train", "length": 24, "loss": 5.0},
    {"step": 4, "seconds": 1.0, "mfu": None},
    {"step": 5, "split": "held_out", "length": 24, "perplexity": 9.0},
]


class FakeRun:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []
        self.summary: dict[str, Any] = {}
        self.exit_code: int | None = None
        self.answers = threading.Event()  # what the server does
        self.answers.set()

    def log(self, row: dict[str, Any], step: int) -> None:
        self.rows.append((step, row))

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code
        self.answers.wait()


class FakeWandb(ModuleType):
    """Records what init is called with; it is as slow, or as broken, as it is told to be."""

    def __init__(self, delay: float = 0.0, broken: tuple[str, ...] = ()) -> None:
        super().__init__("wandb")
        self.delay, self.broken = delay, broken
        self.asked: list[dict[str, Any]] = []
        self.run = FakeRun()
        self.threads: list[str] = []
        self.torn_down = 0

    def Settings(self, **values: Any) -> dict[str, Any]:
        return values

    def teardown(self) -> None:
        self.torn_down += 1

    def init(self, **values: Any) -> FakeRun:
        self.asked.append(values)
        self.threads.append(threading.current_thread().name)
        time.sleep(self.delay)
        if values["mode"] in self.broken:
            raise ConnectionError("no route\nsecond line")
        return self.run


@pytest.fixture(autouse=True)
def no_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_online_with_a_login_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert mode(pytest.fail) == "offline"
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert mode(pytest.fail) == "online"
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert mode(pytest.fail) == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    assert mode(pytest.fail) == "online"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert mode(pytest.fail) == "disabled"


def test_nobody_is_asked_for_a_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setitem(sys.modules, "wandb", fake := FakeWandb())
    said: list[str] = []
    WandbMirror(LoggerConfig(), tmp_path, {}, said.append).finish(0)
    assert [asked["mode"] for asked in fake.asked] == ["offline"]
    assert len(said) == 1
    assert "no login" in said[0]
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    assert mode(pytest.fail) == "online"


@pytest.mark.parametrize("code", [0, 1, 130])
def test_rows_id_and_exit_code_arrive(code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    mirror = WandbMirror(LoggerConfig(project="p", tags=["t"]), tmp_path / "run-1", {"seed": 1}, pytest.fail)
    for row in ROWS:
        mirror.log(row)
    mirror.finish(code, {"unigram_perplexity": 3.0})
    asked = fake.asked[0]
    assert (asked["project"], asked["id"], asked["resume"], asked["mode"]) == ("p", "run-1", "allow", "offline")
    assert asked["config"] == {"seed": 1}
    assert fake.run.rows == [
        (4, {"train/length": 24, "train/loss": 5.0}),
        (4, {"machine/seconds": 1.0}),
        (5, {"held_out/24/length": 24, "held_out/24/perplexity": 9.0}),
    ]
    assert fake.run.exit_code == code
    assert fake.run.summary == {"unigram_perplexity": 3.0}


def test_a_slow_start_holds_nothing_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeWandb(delay=0.5)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    begin = time.monotonic()
    mirror = WandbMirror(LoggerConfig(), tmp_path, {}, pytest.fail)
    for row in ROWS:
        mirror.log(row)
    assert time.monotonic() - begin < 0.2
    mirror.finish(0)
    assert len(fake.run.rows) == 3
    assert fake.threads == ["wandb mirror"]


def test_an_unreachable_server_leaves_an_offline_mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeWandb(broken=("online",))
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    said: list[str] = []
    mirror = WandbMirror(LoggerConfig(), tmp_path, {}, said.append)
    mirror.log(ROWS[0])
    mirror.finish(0)
    assert [asked["mode"] for asked in fake.asked] == ["online", "offline"]
    assert len(fake.run.rows) == 1
    assert len(said) == 1
    assert "no route" in said[0]
    assert "second line" not in said[0]


def test_a_broken_mirror_is_said_once_and_never_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb(broken=("offline",)))
    said: list[str] = []
    mirror = WandbMirror(LoggerConfig(), tmp_path, {}, said.append)
    mirror.log(ROWS[0])
    mirror.finish(1)
    assert len(said) == 1
    assert isinstance(make_mirror(LoggerConfig(kind="none"), tmp_path, {}, pytest.fail), NoMirror)


def test_a_server_that_stalls_is_left_at_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "wandb", fake := FakeWandb())
    monkeypatch.setattr(wandb_mirror, "FINISH_SECONDS", 0.2)
    fake.run.answers.clear()
    said: list[str] = []
    mirror = WandbMirror(LoggerConfig(), tmp_path, {}, said.append)
    mirror.finish(0)
    assert fake.torn_down == 1
    assert len(said) == 1
    assert "did not answer" in said[0]
    fake.run.answers.set()


STALLED = """
import signal, sys, time
from pathlib import Path
import psutil
from bertlab.config import LoggerConfig
from bertlab.training import wandb_mirror
run = Path(sys.argv[1])
mirror = wandb_mirror.WandbMirror(LoggerConfig(), run, {}, lambda line: print(line, file=sys.stderr))
while not list(run.glob("wandb/*/*.wandb")):
    time.sleep(0.05)
(service,) = [child for child in psutil.Process().children() if child.name() == "wandb-core"]
service.send_signal(signal.SIGSTOP)  # from here on it answers nothing
wandb_mirror.FINISH_SECONDS = 1.0
mirror.finish(0)
"""


@pytest.mark.slow
def test_the_real_library_cannot_keep_the_process_from_ending(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", STALLED, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0
    assert ended.stderr.splitlines() == ["Weights & Biases did not answer in time; the run's folder has everything."]


@pytest.mark.slow
def test_the_real_library_offline(tmp_path: Path) -> None:
    run = tmp_path / "pretrain-tiny-mlm-0123abcd"
    run.mkdir()
    mirror = WandbMirror(LoggerConfig(), run, {"seed": 1}, pytest.fail)
    for row in ROWS:
        mirror.log(row)
    mirror.finish(0)
    (written,) = run.glob("wandb/offline-run-*/*.wandb")
    assert written.stat().st_size > 0
