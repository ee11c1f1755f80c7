"""A small HTTP server next to the broker: `/metrics` for Prometheus, `/health` for health checks.

    GET /metrics    200, the text format of Prometheus
    GET /health     200 "ready", or 503 "starting", "stopping"

Each connection has one request. It is meant for the machine's own network: there are no logins.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import BrokerUnavailableError
from broker_core.server.node_metrics import ReadingCollector
from broker_core.server.node_reading import ReadableServer, read_node, topic_name_of
from broker_core.server.request_metrics import RequestMetrics

_MAX_REQUEST_BYTES: Final = 8 * 1024
_PATIENCE_SECONDS: Final = 10.0
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
_TEXT: Final = "text/plain; charset=utf-8"

_log: Final = logging.getLogger(__name__)


class MetricsEndpoint:
    """`observer` must be called for all requests."""

    def __init__(self, server: ReadableServer) -> None:
        self._server = server
        self._registry = CollectorRegistry()
        self.observer = RequestMetrics(self._registry, lambda topic_id: topic_name_of(server.node, topic_id))
        self._http: asyncio.Server | None = None

    async def start(self, address: BrokerAddress) -> int:
        """Returns the port. Raises BrokerUnavailableError if the address cannot be bound."""
        try:
            self._http = await asyncio.start_server(self._serve, address.host, address.port, limit=_MAX_REQUEST_BYTES)
        except OSError as error:
            raise BrokerUnavailableError(f"metrics.listener: cannot listen on {address}: {error.strerror}") from error
        port: int = self._http.sockets[0].getsockname()[1]
        _log.info("serving metrics at http://%s/metrics", BrokerAddress(host=address.host, port=port))
        return port

    async def stop(self) -> None:
        if self._http is not None:
            self._http.close()
            await self._http.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = await self._answer(head)
                writer.write(
                    f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                )
                writer.write(body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("a request for metrics failed: %s", error)
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> tuple[int, str, bytes]:
        words = head.split(b"\r\n", 1)[0].split()
        if len(words) != 3:
            return 400, _TEXT, b"this is not HTTP\n"
        if words[0] != b"GET":
            return 405, _TEXT, b"only GET is answered\n"
        match words[1].partition(b"?")[0]:
            case b"/metrics":
                return 200, CONTENT_TYPE_LATEST, await self._metrics()
            case b"/health":
                state = self._server.state
                return (200 if state == "ready" else 503), _TEXT, f"{state}\n".encode()
            case _:
                return 404, _TEXT, b"there are /metrics and /health\n"

    async def _metrics(self) -> bytes:
        """Reads on the loop, formats in a thread: ten thousand partitions take a while."""
        reading = await read_node(self._server)
        return await asyncio.to_thread(self._text, ReadingCollector(reading))

    def _text(self, collector: ReadingCollector) -> bytes:
        node_registry = CollectorRegistry()
        node_registry.register(collector)
        return generate_latest(node_registry) + generate_latest(self._registry)
