"""A report that keeps up with a running stream, served to this machine's own browsers.

The server listens on the loopback interface. That keeps other machines out, but not other sites
that a browser on this machine has open: they could have their own name resolved to 127.0.0.1. So a
request must name this server (``Host``), once, or it is refused.

A report is computed when a page asks and something has been saved since, but never for more than a
sixth of the time, however large the table has become.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Hashable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from streamcal.report import page
from streamcal.report.content import Report

HOST = "127.0.0.1"
_REST = 5.0  # times what the last report took


class Source:
    """The newest report, computed again when what it is from has changed.

    Parameters
    ----------
    build : callable
        Computes the report.
    stamp : callable
        Returns something cheap that changes when the report would.
    clock : callable
        Seconds that pass.
    """

    def __init__(
        self,
        build: Callable[[], Report],
        stamp: Callable[[], Hashable],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build, self._stamp, self._clock = build, stamp, clock
        self._mutex = threading.Lock()
        self._report: Report | None = None
        self._of: Hashable = None
        self._due = 0.0

    def report(self) -> Report:
        """Return the newest report that may be had now."""
        with self._mutex:
            start = self._clock()
            if self._report is None or start >= self._due:
                stamp = self._stamp()
                if self._report is None or stamp != self._of:
                    self._report, self._of = self._build(), stamp
                    end = self._clock()
                    self._due = end + _REST * (end - start)
            return self._report


class Server(ThreadingHTTPServer):
    """Serves the page at ``/`` and its news at ``/data.json``, on the loopback interface only.

    Parameters
    ----------
    source : Source
    port : int
        0 takes a free one; see ``server_port``.

    Raises
    ------
    OSError
        If the port is taken or not allowed.
    """

    daemon_threads = True

    def __init__(self, source: Source, port: int = 0) -> None:
        self.source = source
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where a browser has gone away in the middle of an answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "streamcal", ""

    def do_GET(self) -> None:
        names = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        hosts = self.headers.get_all("Host", [])
        # The parser stops at a line that is no header, and the body would hold the rest.
        broken = self.headers.defects or self.headers.get_payload()
        if broken or len(hosts) != 1 or hosts[0] not in names:
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "not for this server\n")
            return
        path, _, query = self.path.partition("?")
        if path not in ("/", "/data.json"):
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here\n")
            return
        try:
            report = self.server.source.report()
        except (OSError, ValueError) as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n")
            return
        if path == "/":
            self._answer(HTTPStatus.OK, "text/html", page.render(report, live=True))
            return
        known = parse_qs(query).get("after")
        same = known == [page.version(report)]
        told = {"version": known[0]} if known and same else page.news(report)
        self._answer(HTTPStatus.OK, "application/json", json.dumps(told))

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: one page asks every two seconds."""
