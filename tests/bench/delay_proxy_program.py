"""A proxy before an S3 server that adds a delay to each request, and counts requests and bytes.

Says on its first line which port it has. Each line on stdin is answered with the counts since the line before; the end
of stdin ends it.

It does not read HTTP: on a connection that is kept alive a request begins with the first bytes of the client after
those of the server. Nor does it read the bytes: Linux moves them from socket to pipe to socket (`splice`), so that they
cost what is measured little processor time, as they would from a machine elsewhere.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sys
import threading
import time
from contextlib import suppress

PIPE_BYTES = 1024 * 1024


class DelayProxy:
    """`delay_ms` goes before each request reaches the server at `port`. Two threads for each connection."""

    def __init__(self, port: int, delay_ms: float) -> None:
        self._port = port
        self._delay_s = delay_ms / 1000
        self._lock = threading.Lock()
        self._counts = {"requests": 0, "sent_bytes": 0, "received_bytes": 0}

    def take_counts(self) -> dict[str, int]:
        """Since the last call; `sent_bytes` are the client's."""
        with self._lock:
            counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
        return counts

    def serve(self, listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", self._port))
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            exchange = _KeptConnection()
            for serve in (self._pass_requests, self._pass_answers):
                threading.Thread(target=serve, args=(client, server, exchange), daemon=True).start()

    def _pass_requests(self, client: socket.socket, server: socket.socket, exchange: _KeptConnection) -> None:
        waiting = select.poll()
        waiting.register(client, select.POLLIN)
        with _Pipe(client, server) as pipe:
            while waiting.poll():
                if exchange.is_answered and client.recv(1, socket.MSG_PEEK):
                    exchange.is_answered = False
                    self._count("requests", 1)
                    time.sleep(self._delay_s)
                if not self._count("sent_bytes", pipe.take()):
                    break
                pipe.give()

    def _pass_answers(self, client: socket.socket, server: socket.socket, exchange: _KeptConnection) -> None:
        with _Pipe(server, client) as pipe:
            while self._count("received_bytes", pipe.take()):
                exchange.is_answered = True
                pipe.give()

    def _count(self, name: str, count: int) -> int:
        with self._lock:
            self._counts[name] += count
        return count


class _KeptConnection:
    """Of one connection: whether the next bytes of the client begin a request."""

    is_answered = True


class _Pipe:
    """From one socket to another. At its end, or if a peer disconnects, the other one sees the end of what it reads."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source = source
        self._target = target
        self._out, self._in = os.pipe()
        fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._byte_count = 0

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        os.close(self._out)
        os.close(self._in)
        with suppress(OSError):
            self._target.shutdown(socket.SHUT_WR)
        return kind is not None and issubclass(kind, OSError)

    def take(self) -> int:
        """Waits for bytes of the source; returns how many. 0 is the end."""
        self._byte_count = os.splice(self._source.fileno(), self._in, PIPE_BYTES)
        return self._byte_count

    def give(self) -> None:
        while self._byte_count:
            self._byte_count -= os.splice(self._out, self._target.fileno(), self._byte_count)


def main() -> None:
    arguments = json.loads(sys.argv[1])
    proxy = DelayProxy(arguments["port"], arguments["delay_ms"])
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(proxy.take_counts()), flush=True)


if __name__ == "__main__":
    main()
