"""The Weights & Biases mirror of a run: never asked, never waited for, never fatal.

metrics.jsonl is the truth; this repeats it where a team looks. Everything of wandb happens in a thread of its own, so that neither
its import nor its start nor a slow server delays the training, and whatever goes wrong there is said once and lost. Without a login
the run is kept offline inside its folder (``wandb sync`` sends it later), so no question is ever asked.
"""

from __future__ import annotations

import netrc
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import psutil

from bertlab.config import LoggerConfig
from bertlab.training.metrics import Row

START_SECONDS = 15.0  # how long the server may take to answer at first
FINISH_SECONDS = 60.0  # how long the end of a run waits for the last rows to be sent
TEARDOWN_SECONDS = 5.0  # how long wandb may take to give up what it has open
NO_LOGIN = "there is no login (wandb login, or WANDB_API_KEY): the mirror is kept offline in the run's folder."


class NoMirror:
    """The mirror of ``logger=none``: there is none."""

    def log(self, row: Row) -> None:
        """Nothing."""

    def finish(self, exit_code: int, summary: Row | None = None) -> None:
        """Nothing."""


class WandbMirror:
    """Sends rows to a wandb run whose id is the run's own, so that a resumed run continues the same curves."""

    def __init__(self, config: LoggerConfig, folder: Path, values: dict[str, Any], say: Callable[[str], None]) -> None:
        """Begin in the background. ``values`` is the configuration to show beside the curves."""
        self._say = say
        self._ended = False  # as wandb itself sees it
        self._rows: queue.SimpleQueue[Row | tuple[int, Row]] = queue.SimpleQueue()
        self._settings: dict[str, Any] = {
            "project": config.project,
            "entity": config.entity,
            "group": config.group,
            "job_type": folder.name.partition("-")[0],
            "tags": config.tags or None,
            "id": folder.name,
            "name": folder.name,
            "resume": "allow",
            "dir": str(folder),
            "mode": mode(say),
            "config": values,
        }
        # A daemon, so that a server that never answers cannot keep the process from ending.
        self._thread = threading.Thread(target=self._mirror, name="wandb mirror", daemon=True)
        self._thread.start()

    def log(self, row: Row) -> None:
        """Send a row when its turn comes."""
        self._rows.put(row)

    def finish(self, exit_code: int, summary: Row | None = None) -> None:
        """End the wandb run with the command's exit code and its final figures; waits a minute at most, here and at the exit."""
        self._rows.put((exit_code, summary or {}))
        try:
            self._thread.join(FINISH_SECONDS)
            if self._thread.is_alive():
                self._say("Weights & Biases did not answer in time; the run's folder has everything.")
        finally:  # also where a second Ctrl-C ends the waiting
            if not self._ended:
                self._say = lambda line: None  # what follows from giving up is no news
                _abandon_wandb()

    def _mirror(self) -> None:
        try:
            run = self._begin()
            while not isinstance(entry := self._rows.get(), tuple):
                run.log(_flat(entry), step=entry["step"])
            exit_code, summary = entry
            run.summary.update(summary)
            run.finish(exit_code=exit_code)
            self._ended = True
        except BaseException as error:  # also SystemExit: nothing that happens to the mirror may touch the run
            self._say(f"The Weights & Biases mirror stopped ({_first_line(error)}); metrics.jsonl goes on.")

    def _begin(self) -> Any:
        """The wandb run; kept offline where the server cannot be reached."""
        os.environ.setdefault("WANDB_SILENT", "true")  # it has nothing to say to the user
        import wandb

        # wandb must not put itself between the run and its output.
        settings = wandb.Settings(silent=True, console="off", init_timeout=START_SECONDS)
        try:
            return wandb.init(**self._settings, settings=settings)
        except Exception as error:
            if self._settings["mode"] == "offline":
                raise
            self._say(f"Weights & Biases cannot be reached ({_first_line(error)}); the mirror is kept offline in the run's folder.")
            wandb.teardown()  # its service still holds the run
            return wandb.init(**{**self._settings, "mode": "offline"}, settings=settings)


def make_mirror(config: LoggerConfig, folder: Path, values: dict[str, Any], say: Callable[[str], None]) -> NoMirror | WandbMirror:
    """The mirror that ``logger=`` asks for."""
    return WandbMirror(config, folder, values, say) if config.kind == "wandb" else NoMirror()


def mode(say: Callable[[str], None]) -> str:
    """Online with a login (WANDB_API_KEY, or the server's entry in the netrc file), offline without; another WANDB_MODE holds.

    Online without a login, wandb would ask for one and wait: it is offline too, and ``say`` hears of it.
    """
    chosen = os.environ.get("WANDB_MODE")
    if chosen and chosen != "online":
        return chosen
    if os.environ.get("WANDB_API_KEY") or _has_login():
        return "online"
    if chosen:
        say(f"WANDB_MODE=online, but {NO_LOGIN}")
    return "offline"


def _has_login() -> bool:
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname
    for name in (os.environ.get("NETRC"), "~/.netrc", "~/_netrc"):
        try:
            if name and host and netrc.netrc(os.path.expanduser(name)).authenticators(host):
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return False


def _abandon_wandb() -> None:
    """End wandb's own process, which may wait for a server without end, and with it the waiting for it when this process exits."""
    wandb = sys.modules.get("wandb")
    if wandb is None:
        return
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if child.name().startswith("wandb-core"):
                child.kill()
                child.wait(TEARDOWN_SECONDS)
    # Else it would be torn down at the exit, with a traceback about the process that is gone.
    thread = threading.Thread(target=_tear_down, args=(wandb,), daemon=True)
    thread.start()
    thread.join(TEARDOWN_SECONDS)


def _tear_down(wandb: Any) -> None:
    with suppress(Exception):
        wandb.teardown()


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _flat(row: Row) -> Row:
    """The row under the names that wandb groups its panels by: ``train/loss``, ``held_out/32/perplexity``."""
    split = row.get("split", "machine")
    prefix = f"{split}/{row['length']}" if split == "held_out" else split
    return {f"{prefix}/{key}": value for key, value in row.items() if key not in ("step", "split") and value is not None}
