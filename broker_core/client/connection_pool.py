"""A client's connections, one per broker, opened on demand.

A forked child starts without any: connections, locks and TLS states belong to the process that created them. Each use
compares the process id, so no fork handler is needed.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.deadline import Deadline
from broker_core.client.unreachable_warning import UnreachableWarning
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import BrokerUnavailableError, RemoteError, RequestTimedOutError


@dataclass(slots=True)
class _Open:
    """The state of one process."""

    process_id: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)
    connections: dict[BrokerAddress, BrokerConnection] = field(default_factory=dict)
    places: dict[BrokerAddress, threading.Lock] = field(default_factory=dict)


class ConnectionPool:
    """Thread-safe. Two threads never connect to the same broker at once."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._warning = UnreachableWarning(settings)
        self._is_closed = False
        self._state = _Open()

    def connection(
        self, address: BrokerAddress, deadline: Deadline, *, then: str | None = "trying again"
    ) -> BrokerConnection:
        """Raises what `BrokerConnection` raises. `then`: what the caller does next in that case, for the warning; None:
        the caller fails with this error, and no warning is logged."""
        state = self._own()
        with state.lock:
            place = state.places.setdefault(address, threading.Lock())
        with place:
            found = state.connections.get(address)
            if found is not None and found.is_usable:
                return found
            if found is not None:
                found.close()
                state.connections.pop(address, None)
            made = self._made(address, deadline, then)
            with state.lock:
                if not self._is_closed:
                    state.connections[address] = made
                    return made
            made.close()
            raise self._closed()

    def connected(self) -> list[BrokerAddress]:
        """The slot of one broker's connection."""
        return list(self._own().connections)

    def close(self) -> None:
        """Closing twice is harmless; after it every call raises RemoteError."""
        state = self._own(is_closing=True)
        with state.lock:
            self._is_closed = True
            connections = list(state.connections.values())
            state.connections.clear()
        for connection in connections:
            connection.close()

    def _made(self, address: BrokerAddress, deadline: Deadline, then: str | None) -> BrokerConnection:
        try:
            return BrokerConnection(address, self._settings, deadline)
        except (BrokerUnavailableError, RequestTimedOutError) as error:
            if then is not None:
                self._warning.on_failure(address, error, deadline, then=then)
            raise

    def _closed(self) -> RemoteError:
        return RemoteError(f"The client of {self._settings} was closed.")

    def _own(self, *, is_closing: bool = False) -> _Open:
        if self._is_closed and not is_closing:
            raise self._closed()
        state = self._state
        if state.process_id != os.getpid():
            for connection in state.connections.values():
                # Closes the child's copy of the descriptor; the parent's connection stays open.
                connection.close()
            self._state = state = _Open()
        return state
