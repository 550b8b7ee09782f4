"""The other end of ``template``: starts it when there is a task for it, tells it what to do and hears how its tasks ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bertlab.ablation.executor import Task
from bertlab.ablation.template import TEMPLATE


class Templates:
    """One template process at a time; where it was killed, the next task gets another."""

    def __init__(self, life: int, environment: Mapping[str, str]) -> None:
        """``life``: a pipe's reading end, whose writing end closes with this process. ``environment``: of all tasks."""
        self._life = life
        # A library that starts threads when it is imported would have none left in a forked process.
        self._environment = {**environment, "OPENBLAS_NUM_THREADS": "1"}
        self._current: _Template | None = None

    def start(self, task: Task) -> TemplateTask:
        """Start a task."""
        if self._current is None or self._current.has_gone():
            self._current = _Template(self._life, self._environment)
        return self._current.start(task)

    def close(self) -> None:
        """End the process."""
        if self._current is not None:
            self._current.close()


class _Template:
    def __init__(self, life: int, environment: Mapping[str, str]) -> None:
        self.gone = False
        self.codes: dict[str, int] = {}
        self._rest = b""
        self._log: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._life, self._environment = life, environment

    def start(self, task: Task) -> TemplateTask:
        if self._process is None:
            with task.log.open("ab") as log:  # what goes wrong before it can start a task is told in the first one's log
                self._process = subprocess.Popen(
                    [*TEMPLATE, str(self._life)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=dict(self._environment),
                    pass_fds=(self._life,),
                    start_new_session=True,
                )
            assert self._process.stdout is not None
            os.set_blocking(self._process.stdout.fileno(), False)
        self.codes.pop(task.key, None)
        self.tell({"start": task.key, "assignment": task.assignment.to_json(), "log": str(task.log)})
        return TemplateTask(self, task.key)

    def has_gone(self) -> bool:
        """Whether the process was started and lives no more."""
        if self._process is not None and not self.gone:
            self.listen()
        return self.gone

    def tell(self, request: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone, which ``listen`` finds out
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def listen(self) -> None:
        """Take note of what it said."""
        assert self._process is not None
        assert self._process.stdout is not None
        with suppress(BlockingIOError):
            while received := os.read(self._process.stdout.fileno(), 1 << 16):
                *lines, self._rest = (self._rest + received).split(b"\n")
                for line in lines:
                    said = json.loads(line)
                    self.codes[said["ended"]] = said["code"]
            self.gone = True
            self._process.wait()

    def close(self) -> None:
        if self._process is None:
            return
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self._process.wait()


class TemplateTask:
    """A task that a template was told to start."""

    def __init__(self, template: _Template, key: str) -> None:
        self._template, self._key = template, key

    def poll(self) -> int | None:
        """Its exit code; None while it runs. With its template it is gone, too."""
        self._template.listen()
        code = self._template.codes.get(self._key)
        return -int(signal.SIGKILL) if code is None and self._template.gone else code

    def send_signal(self, signum: int) -> None:
        """Have it get a signal, in its turn after being started."""
        self._template.tell({"signal": int(signum), "to": self._key})
