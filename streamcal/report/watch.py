"""A report of a running stream, served to browsers on this machine.

The server listens on the loopback interface, which other machines can't reach. But another site in
a browser on this machine could resolve its name to 127.0.0.1. So a request must have exactly one
``Host`` header with the name of this server, or it is refused.

A report is computed again when a page requests it and something has been saved since. This takes at
most a sixth of the time, for tables of any size. The time of the first report does not count, since
it loads modules, which may take longer than any report.
"""

import json
import sys
import time
from collections.abc import Callable, Hashable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from streamcal.kernels.exclusive import Mutex
from streamcal.report import page, prometheus
from streamcal.report.content import Report

HOST = "127.0.0.1"
_PAUSE_FACTOR = 5.0  # pause between reports, as a multiple of the time of the last one


class Source:
    """The newest report, computed again when its data have changed.

    Parameters
    ----------
    build : callable
        Computes the report.
    stamp : callable
        Returns a value that changes when the report would; it must be fast.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(
        self,
        build: Callable[[], Report],
        stamp: Callable[[], Hashable],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build, self._stamp, self._clock = build, stamp, clock
        self._mutex = Mutex()
        self._report: Report | None = None
        self._report_stamp: Hashable = None
        self._next_build = 0.0

    def report(self) -> Report:
        """Return the report; compute it again if data have changed and the pause is over."""
        with self._mutex:
            start = self._clock()
            if self._report is None or start >= self._next_build:
                stamp = self._stamp()
                if self._report is None:
                    self._report, self._report_stamp = self._build(), stamp
                elif stamp != self._report_stamp:
                    self._report, self._report_stamp = self._build(), stamp
                    end = self._clock()
                    self._next_build = end + _PAUSE_FACTOR * (end - start)
            return self._report


class Server(ThreadingHTTPServer):
    """Serves the page at ``/``, updates at ``/data.json``, and ``/metrics`` for Prometheus.

    It listens on the loopback interface only.

    Parameters
    ----------
    source : Source
    port : int
        0 chooses a free one; see ``server_port``.

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
        """The URL of the page."""
        return f"http://{HOST}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing if a browser has closed the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "streamcal", ""

    def do_GET(self) -> None:
        names = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        hosts = self.headers.get_all("Host", [])
        # The parser stops at a malformed header line; the rest becomes the body.
        broken = self.headers.defects or self.headers.get_payload()
        if broken or len(hosts) != 1 or hosts[0] not in names:
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "not for this server\n")
            return
        path, _, query = self.path.partition("?")
        if path not in ("/", "/data.json", "/metrics"):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here\n")
            return
        try:
            report = self.server.source.report()
        except (OSError, ValueError) as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n")
            return
        if path == "/":
            self._send(HTTPStatus.OK, "text/html", page.render(report, live=True))
            return
        if path == "/metrics":
            text = prometheus.exposition(report.metrics)
            self._send(HTTPStatus.OK, prometheus.MEDIA_TYPE, text)
            return
        known = parse_qs(query).get("after")
        same = known == [page.version(report)]
        answer = {"version": known[0]} if known and same else page.update(report)
        self._send(HTTPStatus.OK, "application/json", json.dumps(answer))

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = page.encoded(text)
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: each page sends a request every two seconds."""
