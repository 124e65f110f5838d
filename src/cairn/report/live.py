"""Serves the report of runs in progress, on this machine only."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cairn.core.errors import CairnError
from cairn.report.gather import gather
from cairn.report.page import page

LOOPBACK = "127.0.0.1"


class Server(ThreadingHTTPServer):
    """Reads the runs for every visit. Films and played episodes appear only on the written page."""

    daemon_threads = True

    def __init__(self, paths: Sequence[Path], port: int, refresh: int) -> None:
        self.paths, self.refresh = list(paths), refresh
        try:
            super().__init__((LOOPBACK, port), Visit)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "is taken" if taken else f"cannot be used ({error.strerror})"
            raise CairnError(f"port {port} {why}; name another with --port, or 0 for any that is free.") from error
        except OverflowError:
            raise CairnError(f"port is {port}; it must be at most 65535.") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore visitors who disconnect early."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The URL of the page."""
        return f"http://{LOOPBACK}:{self.server_port}/"


class Visit(BaseHTTPRequestHandler):
    """Answers GET / only. Checks the Host header, so that no other site can read the page by DNS rebinding."""

    server: Server

    def do_GET(self) -> None:
        """Send the page."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Send the headers of the page."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        hosts = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
        if self.headers.get("Host") not in hosts:
            return self.send_error(403, "This page can be opened on this machine only, as localhost.")
        if self.path.split("?")[0] != "/":
            return self.send_error(404, "There is only one page: /")
        made = page(gather(self.server.paths, media=False), refresh=self.server.refresh).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(made)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if body:
            self.wfile.write(made)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def serve(paths: Sequence[Path], *, port: int, refresh: int) -> None:
    """Serve the page until Ctrl-C. Raises CairnError where a run folder is missing or the port is taken."""
    missing = [path for path in paths if not path.is_dir()]
    if missing:
        raise CairnError(f"there is no run folder {missing[0]}; start the training first.")
    with Server(paths, port, refresh) as server:
        try:
            print(f"{server.address} shows the report, updated every {refresh} s; stop it with Ctrl-C.", flush=True)
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nthe report server has stopped; trainings continue.")
