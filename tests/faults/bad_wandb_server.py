"""A W&B server with which something is wrong: it answers nothing, late, with errors, or only for a while.

Its right answers are as much as an online run of wandb 0.31 needs.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLOW_SECONDS = 1.5


class BadServer(ThreadingHTTPServer):
    """Counts its requests. ``fault``: silent | slow | errors | errors later."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, fault: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault = fault
        self.requests = 0
        self.failed = 0
        self.rows = 0
        self.good = 12  # answers before "errors later" begins
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BadServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.requests += 1
        fault = self.server.fault
        if fault == "silent":
            self.server.over.wait()
            return
        if fault == "errors" or (fault == "errors later" and self.server.requests > self.server.good):
            self.server.failed += 1
            return self._reply(500, {"error": "something is wrong here"})
        if fault == "slow":
            time.sleep(SLOW_SECONDS)
        if self.path.startswith("/graphql"):
            return self._reply(200, {"data": self._answer(json.loads(body))})
        if "file_stream" in self.path:
            files = json.loads(body).get("files") or {}
            self.server.rows += len(files.get("wandb-history.jsonl", {}).get("content", []))
            return self._reply(200, {"exitcode": None, "limits": {}})
        return self._reply(200, {})

    do_GET = do_PUT = do_POST

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """As ``wandb`` understands it; an empty answer to what it can do without."""
        query, given = request["query"], request.get("variables") or {}
        named = re.search(r"(?:query|mutation)\s+(\w+)", query)
        operation = request.get("operationName") or (named[1] if named else "")
        if operation == "ServerFeaturesQuery":
            return {"serverInfo": {"features": []}}
        if operation == "Viewer" or "viewer" in query[:200]:
            return {"viewer": {"id": "VQ==", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}, "serverInfo": None}
        if operation == "UpsertBucket":
            project = {"id": "p", "name": given.get("project") or "p", "entity": {"id": "e", "name": "me"}}
            name = given.get("name") or given.get("id") or "run"
            bucket = {
                "id": "b",
                "name": name,
                "displayName": name,
                "config": given.get("config"),
                "historyLineCount": 0,
                "project": project,
            }
            return {"upsertBucket": {"bucket": {**bucket, "description": None, "sweepName": None}, "inserted": True}}
        if operation == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.server.url}/up/{name}"} for name in given["files"]]
            return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": files}}
        return {}

    def _reply(self, status: int, value: object) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def bad_wandb_server(fault: str) -> Iterator[BadServer]:
    """The server, running in a thread."""
    server = BadServer(fault)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
