"""Runs a node of the quorum in this process until SIGTERM or SIGINT.

    streamlog controller is ready: CONTROLLER://127.0.0.1:9093

is written to stdout once it listens; role changes and everything else are log lines on stderr.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Final

from broker_core.server.quorum.quorum_server import QuorumServer
from broker_core.server.quorum.quorum_settings import QuorumSettings

CONTROLLER_READY: Final = "streamlog controller is ready:"

_log: Final = logging.getLogger(__name__)


def run_quorum_node(settings: QuorumSettings, *, cluster_id: str | None) -> None:
    """Returns after it has stopped. Raises StreamlogError and OSError if it cannot start or go on."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    asyncio.run(_run(settings, cluster_id))


async def _run(settings: QuorumSettings, cluster_id: str | None) -> None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Exception | None] = loop.create_future()

    def end(error: Exception | None = None) -> None:
        if not ended.done():
            ended.set_result(error)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    server = QuorumServer(settings, cluster_id=cluster_id, on_end=end)
    server.start()
    print(CONTROLLER_READY, f"CONTROLLER://{settings.address}", flush=True)
    error = await ended
    await server.stop()
    if error is not None:
        raise error
    _log.info("node=%d stopped", settings.node_id)
