"""Runs a node of a cluster in this process until SIGTERM or SIGINT. The first signal stops it in order, the second one
at once.

    streamlog broker is ready: PLAINTEXT://127.0.0.1:9092

is written to stdout once the controller lets clients in; everything else is log lines on stderr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.link_security import USED_BY_LINKS, parse_links_to_brokers
from broker_core.broker.settings.setting_layers import base_name
from broker_core.model.setting_parsers import items_of
from broker_core.server.broker_process import READY
from broker_core.server.cluster.cluster_server import ClusterServer
from broker_core.server.cluster.replica_limits import USED_BY_REPLICAS, parse_replica_limits
from broker_core.server.descriptor_limit import raise_descriptor_limit
from broker_core.server.quorum.quorum_settings import USED_BY_QUORUM, VOTERS, parse_quorum_settings

_ENDED_AT_ONCE: Final = 130
_log: Final = logging.getLogger(__name__)


def is_of_cluster(given: Mapping[str, str]) -> bool:
    """Whether the settings are those of a node that is broker and voter of a quorum."""
    roles = items_of(given.get("process.roles", ""))
    return {"broker", "controller"} <= set(roles) and bool(given.get(VOTERS, "").strip())


def run_cluster_node(config: BrokerConfig, given: Mapping[str, str], *, cluster_id: str | None) -> None:
    """Returns after it has stopped. Raises StreamlogError and OSError if it cannot start or go on."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    raise_descriptor_limit()
    asyncio.run(_run(config, given, cluster_id))


async def _run(config: BrokerConfig, given: Mapping[str, str], cluster_id: str | None) -> None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Exception | None] = loop.create_future()

    def end(error: Exception | None = None) -> None:
        if not ended.done():
            ended.set_result(error)

    def on_signal() -> None:
        if ended.done():
            os._exit(_ENDED_AT_ONCE)
        end()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    used = USED_BY_QUORUM | USED_BY_REPLICAS | USED_BY_LINKS
    # A broker alone ignores them, and says so.
    notes = tuple(note for note in config.notes if base_name(note.partition(" ")[0]) not in used)
    config = replace(config, notes=notes)
    server = ClusterServer(
        config,
        parse_quorum_settings(given, is_broker=True),
        parse_replica_limits(given),
        links=parse_links_to_brokers(given),
        cluster_id=cluster_id,
        on_end=end,
    )
    starting = loop.create_task(server.start())
    awaited: list[asyncio.Future[None] | asyncio.Future[Exception | None]] = [starting, ended]
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        await starting
        print(READY, *(f"{one.name}://{one.advertised}" for one in server.config.listeners), flush=True)
    error = await ended
    starting.cancel()
    await asyncio.wait({starting})
    _log.info("node=%d stopping", server.config.node_id)
    if error is not None:
        await server.kill()
        raise error
    await server.stop()
    _log.info("node=%d stopped", server.config.node_id)
