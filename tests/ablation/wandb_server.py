"""A stand-in for the W&B server: the one of the development machines, with an answer more, in a thread."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

STUB = Path(os.environ.get("BERTLAB_WANDB_STUB", Path(__file__).parents[3] / "shared" / "tools" / "wandb_stub_server.py"))


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


@contextmanager
def wandb_server() -> Iterator[ModuleType]:
    """The server, running; its module has what arrived, and ``PORT``."""
    specification = importlib.util.spec_from_file_location("wandb_stub_server", STUB)
    assert specification is not None
    assert specification.loader is not None
    stub = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(stub)
    answer = stub.answer
    # A table is an artifact: wandb asks whether there is one of its name with another type.
    stub.answer = lambda operation, *others: {"project": None} if operation == "ArtifactType" else answer(operation, *others)
    server = _Quiet(("127.0.0.1", 0), stub.Handler)
    stub.PORT = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
