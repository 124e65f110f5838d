"""The report of runs in progress, served to this machine alone."""

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
    """Reads the runs anew for every visit; films and played episodes are left to the page that is written."""

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
        """A visitor who leaves before the page has come is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/"


class Visit(BaseHTTPRequestHandler):
    """GET / and nothing else. A page of another site that had its name point here is turned away by its Host."""

    server: Server

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
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
        """Visits are no news."""


def serve(paths: Sequence[Path], *, port: int, refresh: int) -> None:
    """Until Ctrl-C."""
    missing = [path for path in paths if not path.is_dir()]
    if missing:
        raise CairnError(f"there is no run folder {missing[0]}; start the training first.")
    with Server(paths, port, refresh) as server:
        try:
            print(f"{server.address} shows the report, updated every {refresh} s; stop it with Ctrl-C.", flush=True)
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nthe report server has stopped; trainings continue.")
