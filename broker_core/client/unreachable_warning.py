"""A line in the log for whoever waits and wonders: from the first connection that fails on, and then now and then.

Kafka's clients wait as long, and say as early "Connection to node -1 could not be established. Node may not be
available." Where logging is not set up, Python shows a warning on stderr.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from broker_core.client.deadline import Deadline
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import StreamlogError

PAUSE_SECONDS: Final = 5.0
"""Between two lines about the same address; connections are tried several times a second."""

_log: Final = logging.getLogger(__name__)


class UnreachableWarning:
    """Of one client. Two threads at once may say the same twice."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._said_at: dict[BrokerAddress, float] = {}

    def on_failure(self, address: BrokerAddress, error: StreamlogError, deadline: Deadline) -> None:
        """A connection could not be made. Says nothing when time is up: the call itself fails with the same words."""
        now = time.monotonic()
        if deadline.is_over or now - self._said_at.get(address, -PAUSE_SECONDS) < PAUSE_SECONDS:
            return
        self._said_at[address] = now
        is_given = address in self._settings.bootstrap_servers
        _log.warning(
            "%s (%s). The broker may not be available; trying for up to %g s (%s).",
            error.message,
            "from bootstrap.servers" if is_given else "as advertised by the cluster",
            deadline.timeout_ms / 1000,
            deadline.setting,
        )
