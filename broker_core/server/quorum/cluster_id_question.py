"""Which cluster controllers belong to, asked by a node whose directory does not say it yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.model.client_settings import BrokerAddress
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.server.quorum.peer_connection import NO_ANSWER, PeerConnection
from broker_core.server.quorum.peer_dialer import PeerDialer

_DESCRIBE_CLUSTER: Final = 60
_VERSIONS: Final = range(1, 3)
"""From the first that can ask a controller on."""
_CONTROLLERS: Final = 2
_PAUSE_SECONDS: Final = 0.25
_ANSWER_SECONDS: Final = 5.0
_log: Final = logging.getLogger(__name__)


async def ask_cluster_id(controllers: Sequence[BrokerAddress], dialer: PeerDialer) -> str:
    """Asks them in turn until one answers."""
    is_told = False
    while True:
        for address in controllers:
            connection = PeerConnection(address, dialer)
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    answer = await connection.ask(_DESCRIBE_CLUSTER, _VERSIONS, _request)
                if answer is not None and answer.error_code is ErrorCode.none and answer.cluster_id:
                    return str(answer.cluster_id)
            except (*NO_ANSWER, TimeoutError) as error:
                _log.debug("controller %s does not answer: %r", address, error)
            finally:
                connection.close()
        if not is_told:
            is_told = True
            _log.info("waiting for a controller to tell the cluster's id: %s", ", ".join(map(str, controllers)))
        await asyncio.sleep(_PAUSE_SECONDS)


def _request(version: int) -> Any:
    values = {
        "include_cluster_authorized_operations": False,
        "endpoint_type": _CONTROLLERS,
        "include_fenced_brokers": False,
    }
    return build(message_types(_DESCRIBE_CLUSTER, version).request, values)
