"""A proxy before an S3 server that does to requests what networks and busy stores do.

`next_fault` is asked for each request (method, path) and says what becomes of it; `counts` counts what was done, and
`exchanges` has all that was answered, in the order of the answers. A request that carries the session token
`expired_token` fares as `expired`:

    None         it is passed on and answered
    slow_down    503 SlowDown, and the server does not see it
    expired      400 ExpiredToken, as S3 says it, and the server does not see it
    reset        the connection is reset before the server sees it
    no_answer    the server has done it, and the connection is reset instead of an answer
    cut          half of the answer comes, then the connection is reset
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

_ERROR = (
    "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
)


@dataclass(frozen=True, slots=True)
class ProxiedRequest:
    """`sent_bytes` and `received_bytes` are those of the bodies, as the client counts them."""

    method: str
    path: str
    status: int
    sent_bytes: int
    received_bytes: int
    began_s: float
    ended_s: float


class FaultyProxy:
    """On a free port of this machine, until `close`."""

    def __init__(self, port: int) -> None:
        self._upstream_port = port
        self.next_fault: Callable[[str, str], str | None] = lambda method, path: None
        self.expired_token: str | None = None
        self.counts: Counter[str] = Counter()
        self.requests: list[tuple[str, str]] = []
        self.exchanges: list[ProxiedRequest] = []
        proxy = self

        class ProxiedConnection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                # A client that closes the connection needs no more of it.
                with suppress(ConnectionError):
                    proxy._serve(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), ProxiedConnection)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def once(self, fault: str, matches: Callable[[str, str], bool], times: int = 1) -> None:
        """The next requests that match go wrong, so many of them."""
        left = [times]

        def next_fault(method: str, path: str) -> str | None:
            if left[0] and matches(method, path):
                left[0] -= 1
                return fault
            return None

        self.next_fault = next_fault

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, client: socket.socket) -> None:
        request = _read_message(client)
        if request is None:
            return
        method, path = request.split(b"\r\n", 1)[0].decode().split(" ")[:2]
        began_s = time.monotonic()
        fault = self.next_fault(method, path)
        if self.expired_token is not None and _token_of(request) == self.expired_token:
            fault = "expired"
        self.requests.append((method, path))
        if fault is not None:
            self.counts[fault] += 1
        if fault == "reset":
            _reset(client)
        elif fault == "slow_down":
            client.sendall(_error("503 Slow Down", "SlowDown", "Please reduce your request rate."))
        elif fault == "expired":
            client.sendall(_error("400 Bad Request", "ExpiredToken", "The provided token has expired."))
        else:
            answer = self._ask(request, method)
            if fault == "no_answer":
                _reset(client)
            elif fault == "cut":
                head, _, body = answer.partition(b"\r\n\r\n")
                client.sendall(head + b"\r\n\r\n" + body[: len(body) // 2])
                _reset(client)
            else:
                status = int(answer.split(b" ", 2)[1])
                sent, received = (len(data.partition(b"\r\n\r\n")[2]) for data in (request, answer))
                # Before the answer is sent: else the next request, which it leads to, could come first.
                self.exchanges.append(ProxiedRequest(method, path, status, sent, received, began_s, time.monotonic()))
                client.sendall(answer)

    def _ask(self, request: bytes, method: str) -> bytes:
        with socket.create_connection(("127.0.0.1", self._upstream_port), timeout=30) as upstream:
            upstream.sendall(request)
            answer = _read_message(upstream, has_no_body=method == "HEAD") or b""
        # One request a connection, so that no client thinks it could go on in a closed one.
        head, separator, body = answer.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"keep-alive:"))]
        return b"\r\n".join([*lines, b"Connection: close"]) + separator + body


def _read_message(connection: socket.socket, *, has_no_body: bool = False) -> bytes | None:
    """A request or an answer, whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    if b"100-continue" in head.lower():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while not has_no_body and len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            return None
        body += piece
    return head + b"\r\n\r\n" + body


def _token_of(request: bytes) -> str | None:
    head = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    name = "x-amz-security-token:"
    return next((line[len(name) :].strip() for line in head if line.lower().startswith(name)), None)


def _reset(connection: socket.socket) -> None:
    """RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _error(status: str, code: str, message: str) -> bytes:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return _ERROR.format(status=status, length=len(body), body=body).encode()
