"""States of a client's connection, and which may follow which.

NEW ── connected ──► READING ── as much is owed as may be ──► PAUSED ── there is room ──► READING
READING, PAUSED ── no more requests are wanted ──► ENDING
ENDING ── to be closed, and answers are not fetched yet ──► SENDING_REST
ENDING, SENDING_REST ── all that was ready is sent ──► CLOSING
READING, PAUSED, ENDING, SENDING_REST ── broken, or cut off ──► CLOSING
all but NEW ── the transport says that it is gone ──► LOST
"""

from __future__ import annotations

import enum
from typing import Final


class ConnectionState(enum.Enum):
    NEW = "new"
    """Accepted, and the transport is not ready."""

    READING = "reading"
    """Requests are read and taken as they come."""

    PAUSED = "paused"
    """Nothing is read: the client has as many requests, or as many bytes of answers, open as it may, or the node has no
    memory left. Requests that were read wait."""

    ENDING = "ending"
    """No further request is taken; those at work are answered. What still comes is read and thrown away."""

    SENDING_REST = "sending rest"
    """As ENDING, and it is closed as soon as the client has fetched what is ready."""

    CLOSING = "closing"
    """The transport was told to close, or will be in a moment. Nothing is taken or answered."""

    LOST = "lost"
    """The transport is gone."""


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
    """Asserts that the table has the transition."""
    assert state in VALID_PREDECESSORS[target], f"peer={peer}: {target.value} cannot follow {state.value}"
