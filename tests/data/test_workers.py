from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bertlab.data.workers import Workers
from bertlab.errors import UserError

Report = Callable[[int], None]


def square(number: int, report: Report) -> tuple[int, int]:
    report(number)
    return number * number, os.getpid()


def die_at_three(number: int, report: Report) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(number: int, report: Report) -> None:
    if number == 1:
        raise UserError("the input is wrong")
    if number == 2:
        raise OSError(28, "No space left on device", "file")
    raise ZeroDivisionError("a mistake of ours")


def wait_for_ever(folder: Path, report: Report) -> None:
    (folder / f"{os.getpid()}.started").touch()
    while True:
        report(1)
        time.sleep(0.05)


def test_everything_is_done_once_in_several_processes() -> None:
    reported: list[int] = []
    before = children()
    with Workers(2) as pool:
        results = dict(pool.run(square, range(20), reported.append))
    assert {index: result for index, (result, _) in results.items()} == {n: n * n for n in range(20)}
    assert len({process for _, process in results.values()}) <= 2
    assert os.getpid() not in {process for _, process in results.values()}
    assert sorted(reported) == list(range(20))
    assert children() <= before


def children() -> set[int]:
    """The processes that this one has started, but for multiprocessing's own, which stays."""
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.ZombieProcess):  # it has ended
            if "resource_tracker" not in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


def test_killed_process_is_an_error_and_no_hang() -> None:
    with pytest.raises(UserError, match="killed by SIGKILL"), Workers(2) as pool:
        list(pool.run(die_at_three, range(10), lambda _: None))


def test_errors_come_back() -> None:
    for number, error, message in ((1, UserError, "the input is wrong"), (2, OSError, "No space"), (3, RuntimeError, "a mistake of ours")):
        with pytest.raises(error, match=message), Workers(1) as pool:
            list(pool.run(fail, [number], lambda _: None))


PARENT = """
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background inherit that it is ignored
sys.path.insert(0, {tests!r})
from test_workers import wait_for_ever
from bertlab.data.workers import Workers
if __name__ == "__main__":
    try:
        with Workers(2) as pool:
            list(pool.run(wait_for_ever, [Path({folder!r})] * 4, lambda _: None))
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_their_parent(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(tests=str(Path(__file__).parent), folder=str(tmp_path)))
    parent = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.started"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if how == signal.SIGINT:
        os.killpg(parent.pid, how)  # as a terminal does on Ctrl-C
    else:
        parent.send_signal(how)
    assert parent.wait(30) == (130 if how == signal.SIGINT else -how)
    children = [int(path.stem) for path in tmp_path.glob("*.started")]
    assert len(children) == 2
    while any(psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE for child in children):
        assert time.monotonic() < deadline, "a process has outlived its parent"
        time.sleep(0.05)
