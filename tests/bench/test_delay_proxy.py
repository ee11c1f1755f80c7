"""The proxy of the benches on object storage: it delays and counts requests, also those of one connection."""

from __future__ import annotations

import threading
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from bench.object_storage import DelayingProxy
from bench.stage import Stage
from support.objects.s3_servers import S3Server

DELAY_MS = 40
BODY = b"x" * 300_000


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """It says nothing."""


@pytest.fixture
def port():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def test_each_request_of_a_connection_is_delayed_and_counted_once(port):
    proxy = DelayingProxy(S3Server(name="echo", port=port, keeps_keys=False), DELAY_MS, Stage.environment())
    try:
        connection = HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        begin = time.monotonic()
        for _ in range(3):
            connection.request("PUT", "/x", body=BODY)
            assert connection.getresponse().read() == BODY
        assert time.monotonic() - begin >= 3 * DELAY_MS / 1000
        connection.close()
        counts = proxy.take_counts()
        assert counts["requests"] == 3
        assert counts["sent_bytes"] > 3 * len(BODY) and counts["received_bytes"] > 3 * len(BODY)
        assert proxy.take_counts() == {"requests": 0, "sent_bytes": 0, "received_bytes": 0}
    finally:
        proxy.close()
