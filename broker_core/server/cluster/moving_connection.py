"""A connection to a node whose address may change: the active controller, or a broker that registers again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_core.model.client_settings import BrokerAddress
from broker_core.server.quorum.peer_connection import PeerConnection
from broker_core.server.quorum.peer_dialer import PeerDialer


class MovingConnection:
    """`address_now` is where the node is, None while that is not known."""

    def __init__(self, address_now: Callable[[], BrokerAddress | None], dialer: PeerDialer) -> None:
        self._address_now = address_now
        self._dialer = dialer
        self._connection: PeerConnection | None = None

    def current(self) -> PeerConnection | None:
        """To where the node is now; one to an earlier address is closed."""
        address = self._address_now()
        if self._connection is not None and self._connection.address != address:
            self.close()
        if self._connection is None and address is not None:
            self._connection = PeerConnection(address, self._dialer)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def ask_once(connection: PeerConnection, message: Any) -> Any | None:
    """The answer to a message of a fixed version; None if the other node does not support it. Raises NO_ANSWER."""
    versions = range(message.__version__, message.__version__ + 1)
    return await connection.ask(message.__api_key__, versions, lambda version: message)
