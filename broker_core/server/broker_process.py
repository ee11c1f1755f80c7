"""Runs a broker in this process until SIGTERM or SIGINT. The first signal stops it cleanly, the second one at once.

    streamlog broker is ready: PLAINTEXT://127.0.0.1:9092 SASL_SSL://broker.example.com:9093

is written to stdout once clients can connect, with the advertised listeners; everything else is log lines on stderr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Final

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.server.broker_server import BrokerServer
from broker_core.server.descriptor_limit import raise_descriptor_limit

READY: Final = "streamlog broker is ready:"
_ENDED_AT_ONCE: Final = 130
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log: Final = logging.getLogger(__name__)


def run_broker(config: BrokerConfig) -> bool:
    """Returns after the broker has stopped. False: it did not stop cleanly; the log has the reason, and the next start
    recovers. Raises StreamlogError if it cannot start."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # The broker logs errors of clients itself.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    # The command line exits when its output pipe is closed, as filters do. Here clients disconnect during answers.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    raise_descriptor_limit()
    return asyncio.run(_run(config))


async def _run(config: BrokerConfig) -> bool:
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            # Something blocks the clean stop; the next start recovers.
            os._exit(_ENDED_AT_ONCE)
        asked_to_stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    server = BrokerServer(config)
    starting = loop.create_task(server.start())
    stopping = loop.create_task(asked_to_stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    # A stop during recovery waits until recovery is done, which takes seconds.
    await starting
    if not asked_to_stop.is_set():
        addresses = (f"{one.name}://{one.advertised}" for one in server.config.listeners)
        print(READY, *addresses, flush=True)
        await stopping
    _log.info("node=%d stopping", server.config.node_id)
    await server.stop()
    stopping.cancel()
    if not server.node.is_closed_cleanly:
        _log.error("node=%d did not stop cleanly: the next start will recover the log", server.config.node_id)
        return False
    _log.info("node=%d stopped", server.config.node_id)
    return True
