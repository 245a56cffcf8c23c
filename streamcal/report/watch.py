"""A report of a running stream, served to browsers on this machine, or to those who have a token.

Without a token the server listens on the loopback interface, which other machines can't reach. But
another site in a browser on this machine could resolve its name to 127.0.0.1. So a request must
have exactly one ``Host`` header with the name of this server, or it is refused.

With a token the server may listen anywhere, under any name: another site knows neither the token
nor the cookie that a browser gets for it. Browsers send a cookie to all ports of a machine, so it
holds a secret of this server, not the token.

A report is computed again when a page requests it and something has been saved since. This takes at
most a sixth of the time, for tables of any size. The time of the first report does not count, since
it loads modules, which may take longer than any report.
"""

import hmac
import json
import re
import secrets
import socket
import socketserver
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from streamcal.kernels.exclusive import Mutex
from streamcal.report import page, prometheus
from streamcal.report.content import Report

HOST = "127.0.0.1"
_LOCAL = (HOST, "localhost")
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,}")
"""What a token may be: it stands in a URL as it is, and is too long to be guessed."""
_PAUSE_FACTOR = 5.0  # pause between reports, as a multiple of the time of the last one


def check_access(host: str, token: str | None) -> None:
    """Raise ``ValueError`` unless a server may listen on a host with a token, or without one.

    Examples
    --------
    >>> check_access("127.0.0.1", None)
    >>> check_access("0.0.0.0", "a-token-of-20-letters")
    >>> check_access("0.0.0.0", None)
    Traceback (most recent call last):
    ...
    ValueError: --token (or STREAMCAL_TOKEN) must be given for --host 0.0.0.0
    """
    if token is None and host not in _LOCAL:
        raise ValueError(f"--token (or STREAMCAL_TOKEN) must be given for --host {host}")
    if token is not None and not _TOKEN.fullmatch(token):
        raise ValueError(
            "--token (or STREAMCAL_TOKEN) must be at least 16 letters, digits and signs of '-._~',"
            f" got {len(token)} characters"  # it stays secret
        )


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
        self._mutex = Mutex(type(self).__name__)
        self._report: Report | None = None
        self._report_stamp: Hashable = None
        self._error: OSError | ValueError | None = None  # of the last attempt
        self._next_build = 0.0

    def report(self) -> Report:
        """Return the report; compute it again if data have changed and the pause is over.

        Data that can't be reported are an error; the next attempt is after a pause, too.
        """
        with self._mutex:
            start = self._clock()
            if self._report is None or start >= self._next_build:
                stamp = self._stamp()
                if self._report is None:
                    self._report, self._report_stamp = self._build(), stamp
                elif stamp != self._report_stamp or self._error is not None:
                    self._error = None
                    try:
                        self._report, self._report_stamp = self._build(), stamp
                    except (OSError, ValueError) as error:
                        self._error = error
                    end = self._clock()
                    self._next_build = end + _PAUSE_FACTOR * (end - start)
            if self._error is not None:
                raise self._error.with_traceback(None)
            return self._report


class Server(ThreadingHTTPServer):
    """Serves the page at ``/``, updates at ``/data.json``, and ``/metrics`` for Prometheus.

    Parameters
    ----------
    source : Source
    port : int
        0 chooses a free one; see ``server_port``.
    host : str
        The address or the name to listen on; "0.0.0.0" and "::" are all of this machine.
    token : str, optional
        What a request must have: as ``Authorization: Bearer``, or the first one for the page as
        ``?token=``, which then becomes a cookie. See `check_access`.

    Raises
    ------
    ValueError
        If `check_access` refuses host and token.
    OSError
        If the port is taken or not allowed, or the host is not of this machine.
    """

    daemon_threads = True

    def __init__(
        self, source: Source, port: int = 0, host: str = HOST, token: str | None = None
    ) -> None:
        check_access(host, token)
        self.source, self.host, self.token = source, host, token
        self.secret: str = secrets.token_urlsafe()  # what a browser has in place of the token
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """The URL of the page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_port}/"

    @property
    def cookie(self) -> str:
        """The name of the cookie: servers on other ports of this machine have others."""
        return f"streamcal-{self.server_port}"

    def server_bind(self) -> None:
        """Bind without asking a name server for the host, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.host, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing if a browser has closed the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "streamcal", ""
    timeout = 60.0  # for a client that sends or reads nothing, in seconds

    def do_GET(self) -> None:
        names = {f"{name}:{self.server.server_port}" for name in _LOCAL}
        hosts = self.headers.get_all("Host", [])
        # The parser stops at a malformed header line; the rest becomes the body.
        broken = self.headers.defects or self.headers.get_payload()
        if broken or len(hosts) != 1 or (self.server.token is None and hosts[0] not in names):
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "not for this server\n")
            return
        path, _, query = self.path.partition("?")
        if self.server.token is not None:
            given = parse_qs(query).get("token", [])
            if path == "/" and len(given) == 1 and _are_equal(given[0], self.server.token):
                # The browser comes back without the token, which stays in no history. `Strict`
                # would keep the cookie back where the link stood on another site.
                kept = f"{self.server.cookie}={self.server.secret}; HttpOnly; SameSite=Lax"
                self._send(
                    HTTPStatus.SEE_OTHER, "text/plain", "", {"Location": "./", "Set-Cookie": kept}
                )
                return
        if self.server.token is not None and not self._is_known():
            text = "this needs the token: open /?token=..., or send `Authorization: Bearer ...`\n"
            asked = {"WWW-Authenticate": 'Bearer realm="streamcal"'}
            self._send(HTTPStatus.UNAUTHORIZED, "text/plain", text, asked)
            return
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

    def _is_known(self) -> bool:
        """Return whether a request has the token, or the cookie that its browser got for it."""
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return _are_equal(given.strip(), self.server.token or "")
        # Cookies of other servers on this machine come, too, and need not have any form.
        pairs = (pair.strip().partition("=") for pair in self.headers.get("Cookie", "").split(";"))
        found = [value for name, _, value in pairs if name == self.server.cookie]
        return any(_are_equal(value, self.server.secret) for value in found)

    def _send(
        self, status: HTTPStatus, kind: str, text: str, more: Mapping[str, str] | None = None
    ) -> None:
        body = page.encoded(text)
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: each page sends a request every two seconds."""


def _are_equal(given: str, expected: str) -> bool:
    """Compare secrets in a time that tells nothing about them."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
