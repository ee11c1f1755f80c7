"""Logs a warning at the first failed connection, and repeats it from time to time.

Kafka's clients also keep trying, and log "Connection to node -1 could not be established. Node may not be available."
Without a logging configuration Python shows the warning on stderr.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from broker_core.client.deadline import Deadline
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import StreamlogError

PAUSE_SECONDS: Final = 5.0
"""The pause between two lines about the same address; connections are tried several times a second."""

_log: Final = logging.getLogger(__name__)


class UnreachableWarning:
    """The warnings of one client. Concurrent threads may log the same line twice."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._said_at: dict[BrokerAddress, float] = {}

    def on_failure(self, address: BrokerAddress, error: StreamlogError, deadline: Deadline, *, then: str) -> None:
        """A connection failed. `then`: what the caller does next. Logs nothing at the deadline: the call itself fails
        with the same text."""
        now = time.monotonic()
        if deadline.is_over or now - self._said_at.get(address, -PAUSE_SECONDS) < PAUSE_SECONDS:
            return
        self._said_at[address] = now
        is_given = address in self._settings.bootstrap_servers
        _log.warning(
            "%s (%s). The broker may not be available; %s.",
            error.message,
            "from bootstrap.servers" if is_given else "as advertised by the cluster",
            then,
        )


def trying_next(address: BrokerAddress) -> str:
    return f"trying {address} next"


def trying_until(deadline: Deadline) -> str:
    return f"trying for up to {deadline.timeout_ms / 1000:g} s ({deadline.setting})"
