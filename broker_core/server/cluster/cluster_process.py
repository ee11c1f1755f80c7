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
from functools import partial
from typing import Any, Final

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.link_security import USED_BY_LINKS
from broker_core.broker.settings.setting_layers import base_name
from broker_core.log_directory.meta_properties import META_PROPERTIES_FILE_NAME
from broker_core.model.setting_parsers import items_of
from broker_core.server.broker_process import READY
from broker_core.server.cluster.cluster_server import ClusterServer
from broker_core.server.cluster.metadata_source import OpenSource
from broker_core.server.cluster.replica_limits import USED_BY_REPLICAS, parse_replica_limits
from broker_core.server.descriptor_limit import raise_descriptor_limit
from broker_core.server.quorum.cluster_id_question import ask_cluster_id
from broker_core.server.quorum.observer_node import ObserverNode
from broker_core.server.quorum.observer_settings import (
    USED_BY_OBSERVER,
    parse_observer_settings,
)
from broker_core.server.quorum.peer_dialer import PeerDialer
from broker_core.server.quorum.quorum_server import QuorumServer
from broker_core.server.quorum.quorum_settings import BOOTSTRAP, USED_BY_QUORUM, VOTERS, parse_quorum_settings

_ENDED_AT_ONCE: Final = 130
_log: Final = logging.getLogger(__name__)


def is_of_cluster(given: Mapping[str, str]) -> bool:
    """Whether the settings are those of a broker of a cluster, with or without a vote in its quorum."""
    roles = items_of(given.get("process.roles", ""))
    return "broker" in roles and any(given.get(name, "").strip() for name in (VOTERS, BOOTSTRAP))


def is_of_controller(given: Mapping[str, str]) -> bool:
    """Whether the settings are those of a controller that is not a broker."""
    return items_of(given.get("process.roles", "")) == ["controller"]


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
    opening = loop.create_task(_source_of(given, cluster_id))
    if not await _is_done(opening, ended):
        opening.cancel()
        return
    server = ClusterServer(_without_notes(config, given), opening.result(), parse_replica_limits(given), on_end=end)
    starting = loop.create_task(server.start())
    if await _is_done(starting, ended):
        starting.result()
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


async def _is_done(task: asyncio.Task[Any], ended: asyncio.Future[Exception | None]) -> bool:
    """Whether it is done before the node is to end."""
    awaited: list[asyncio.Future[Any]] = [task, ended]
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    return task.done()


def _without_notes(config: BrokerConfig, given: Mapping[str, str]) -> BrokerConfig:
    """A broker alone ignores settings that a broker of a cluster uses, and says so."""
    used = USED_BY_REPLICAS | USED_BY_LINKS | (USED_BY_QUORUM if _has_vote(given) else USED_BY_OBSERVER)
    notes = tuple(note for note in config.notes if base_name(note.partition(" ")[0]) not in used)
    return replace(config, notes=notes)


def _has_vote(given: Mapping[str, str]) -> bool:
    return "controller" in items_of(given["process.roles"])


async def _source_of(given: Mapping[str, str], cluster_id: str | None) -> OpenSource:
    """A directory without a cluster gets that of its controllers, once one of them answers."""
    if _has_vote(given):
        return partial(QuorumServer, parse_quorum_settings(given, is_broker=True), cluster_id=cluster_id)
    settings = parse_observer_settings(given)
    if cluster_id is None and not os.path.exists(f"{settings.log_dir}/{META_PROPERTIES_FILE_NAME}"):
        cluster_id = await ask_cluster_id(settings.controllers, PeerDialer(settings.links))
    return partial(ObserverNode, settings, cluster_id=cluster_id)
