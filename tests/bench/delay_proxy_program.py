"""A proxy before an S3 server that adds a delay to each request, and counts requests and bytes.

Says on its first line which port it has. Each line on stdin is answered with the counts since the line before; the end
of stdin ends it.

It does not read HTTP: on a connection that is kept alive a request begins with the first bytes of the client after
those of the server. Its own work (the bytes go through it) is part of what is measured with a delay.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading

READ_BYTES = 256 * 1024


class DelayProxy:
    """`delay_ms` goes before each request reaches the server at `port`."""

    def __init__(self, port: int, delay_ms: float) -> None:
        self._port = port
        self._delay_s = delay_ms / 1000
        self._counts = {"requests": 0, "sent_bytes": 0, "received_bytes": 0}

    def take_counts(self) -> dict[str, int]:
        """Since the last call; `sent_bytes` are the client's."""
        counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
        return counts

    async def serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port, limit=READ_BYTES)
        exchange = _KeptConnection()
        try:
            await asyncio.gather(
                self._pass_requests(client, to_server, exchange), self._pass_answers(server, to_client, exchange)
            )
        except ConnectionError:
            pass  # a client that disconnects has what it needs
        finally:
            to_server.close()
            to_client.close()

    async def _pass_requests(
        self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter, exchange: _KeptConnection
    ) -> None:
        while data := await client.read(READ_BYTES):
            if exchange.is_answered:
                exchange.is_answered = False
                self._counts["requests"] += 1
                await asyncio.sleep(self._delay_s)
            self._counts["sent_bytes"] += len(data)
            to_server.write(data)
            await to_server.drain()
        to_server.close()

    async def _pass_answers(
        self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter, exchange: _KeptConnection
    ) -> None:
        while data := await server.read(READ_BYTES):
            exchange.is_answered = True
            self._counts["received_bytes"] += len(data)
            to_client.write(data)
            await to_client.drain()
        to_client.close()


class _KeptConnection:
    """Of one connection: whether the next bytes of the client begin a request."""

    is_answered = True


async def main() -> None:
    arguments = json.loads(sys.argv[1])
    proxy = DelayProxy(arguments["port"], arguments["delay_ms"])
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=READ_BYTES)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def listen() -> None:
        for _ in sys.stdin:
            loop.call_soon_threadsafe(lambda: print(json.dumps(proxy.take_counts()), flush=True))
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=listen, daemon=True).start()
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
