"""A connection to the active controller, whichever node that is now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import BrokerUnavailableError, MalformedMessageError
from broker_core.server.quorum.peer_connection import PeerConnection

NO_ANSWER: Final = (OSError, BrokerUnavailableError, MalformedMessageError, asyncio.IncompleteReadError)
"""What a `PeerConnection` raises when the other node does not answer."""


class LeaderConnection:
    """`leader` is the active controller's address, None while nobody is known to lead."""

    def __init__(self, leader: Callable[[], BrokerAddress | None]) -> None:
        self._leader = leader
        self._connection: PeerConnection | None = None

    def current(self) -> PeerConnection | None:
        """To the controller that leads now; one to an earlier leader is closed."""
        address = self._leader()
        if self._connection is not None and self._connection.address != address:
            self.close()
        if self._connection is None and address is not None:
            self._connection = PeerConnection(address)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
