from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from bertlab.training.signals import StopRequest

TWICE = """
import os, signal, time
from bertlab.training.signals import StopRequest
with StopRequest() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    print("noted", stop.signum, flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_the_first_signal_is_noted_and_the_old_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert stop.signum == 0
        os.kill(os.getpid(), number)
        assert stop.signum == number
    assert signal.getsignal(number) == before


def test_what_nohup_has_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.signum == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_second_one_ends_at_once() -> None:
    ended = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 130
    assert ended.stdout == "noted 2\n"
    assert "once more ends at once" in ended.stderr
