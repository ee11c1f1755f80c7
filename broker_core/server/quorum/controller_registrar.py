"""Registers this controller with the active one, when another node leads: so that the cluster knows it and its levels.

It asks until its registration is in the committed image, on a connection of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import RegisterControllerRecord
from broker_core.model.client_settings import BrokerAddress
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.server.quorum.peer_connection import NO_ANSWER, PeerConnection
from broker_core.server.quorum.peer_dialer import PeerDialer

_CONTROLLER_REGISTRATION: Final = 70
_VERSIONS: Final = range(1)
_PAUSE_SECONDS: Final = 0.5

_log: Final = logging.getLogger(__name__)


class ControllerRegistrar:
    """`image` is the committed one, as it is now. Runs on the running loop."""

    def __init__(
        self, registration: RegisterControllerRecord, dialer: PeerDialer, *, image: Callable[[], MetadataImage]
    ) -> None:
        self._registration = registration
        self._dialer = dialer
        self._image = image
        self._task: asyncio.Task[None] | None = None

    def begin(self, leader: BrokerAddress) -> None:
        self.end()
        self._task = asyncio.get_running_loop().create_task(self._register(leader))

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _register(self, leader: BrokerAddress) -> None:
        connection = PeerConnection(leader, self._dialer)
        own = self._registration
        try:
            while True:
                await asyncio.sleep(_PAUSE_SECONDS)
                if self._image().registrations.controllers.get(own.controller_id) == own:
                    return
                try:
                    await connection.ask(_CONTROLLER_REGISTRATION, _VERSIONS, self._request)
                except NO_ANSWER as error:
                    _log.debug("node=%d is not registered at %s: %s", own.controller_id, leader, error)
        finally:
            connection.close()

    def _request(self, version: int) -> Any:
        own = self._registration
        values = {
            "controller_id": own.controller_id,
            "incarnation_id": own.incarnation_id,
            "zk_migration_ready": own.zk_migration_ready,
            "listeners": [
                {
                    "name": each.name,
                    "host": each.host,
                    "port": each.port,
                    "security_protocol": each.security_protocol,
                }
                for each in own.end_points
            ],
            "features": [
                {
                    "name": each.name,
                    "min_supported_version": each.min_supported_version,
                    "max_supported_version": each.max_supported_version,
                }
                for each in own.features
            ],
        }
        return build(message_types(_CONTROLLER_REGISTRATION, version).request, values)
