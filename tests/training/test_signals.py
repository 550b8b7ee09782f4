from __future__ import annotations

import os
import signal
import subprocess
import sys

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


def test_the_first_signal_is_noted_and_the_old_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        assert stop.signum == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signum == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_second_one_ends_at_once() -> None:
    ended = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 130
    assert ended.stdout == "noted 2\n"
    assert "once more ends at once" in ended.stderr
