"""States of a client's connection and their valid transitions.

NEW ── connected ──► READING ── a limit is reached ──► PAUSED ── there is room ──► READING
READING, PAUSED ── no more requests are taken ──► ENDING
ENDING ── to be closed, but answers are not fetched yet ──► SENDING_REST
ENDING, SENDING_REST ── all ready answers are sent ──► CLOSING
READING, PAUSED, ENDING, SENDING_REST ── broken, or aborted ──► CLOSING
all but NEW ── the transport reports the connection as lost ──► LOST
"""

from __future__ import annotations

import enum
from typing import Final


class ConnectionState(enum.Enum):
    NEW = "new"
    """Accepted, but the transport is not ready."""

    READING = "reading"
    """Requests are read and taken as they arrive."""

    PAUSED = "paused"
    """Nothing is read: the client has reached its limit of open requests or of bytes of answers, is throttled, or the
    node has no memory left. Requests that were read wait."""

    ENDING = "ending"
    """No further request is taken; those in progress are answered. Later bytes are read and discarded."""

    SENDING_REST = "sending rest"
    """As ENDING, and closes as soon as the client has fetched the ready answers."""

    CLOSING = "closing"
    """The transport is closing, or will be in a moment. No request is taken or answered."""

    LOST = "lost"
    """The transport has lost the connection."""


_CONNECTED: Final = frozenset(ConnectionState) - {ConnectionState.NEW, ConnectionState.LOST}

VALID_PREDECESSORS: Final[dict[ConnectionState, frozenset[ConnectionState]]] = {
    ConnectionState.NEW: frozenset(),
    ConnectionState.READING: frozenset({ConnectionState.NEW, ConnectionState.PAUSED}),
    ConnectionState.PAUSED: frozenset({ConnectionState.READING}),
    ConnectionState.ENDING: frozenset({ConnectionState.READING, ConnectionState.PAUSED}),
    ConnectionState.SENDING_REST: frozenset({ConnectionState.ENDING}),
    ConnectionState.CLOSING: _CONNECTED - {ConnectionState.CLOSING},
    ConnectionState.LOST: _CONNECTED,
}


def assert_may_follow(target: ConnectionState, state: ConnectionState, peer: object) -> None:
    """Asserts that the transition is valid."""
    assert state in VALID_PREDECESSORS[target], f"peer={peer}: {target.value} cannot follow {state.value}"
