"""Logs a warning when a call has been retried for about a second, so that nobody waits without knowing for what.

A connection that cannot be opened is not its matter: that has a warning of its own, see `unreachable_warning`.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from broker_core.client.deadline import Deadline
from broker_core.client.unreachable_warning import trying_until
from broker_core.model.exceptions import BrokerUnavailableError, StreamlogError

QUIET_SECONDS: Final = 1.0
"""Elections and moves of a leader end sooner, as a rule."""

PAUSE_SECONDS: Final = 10.0
"""The pause between two lines of the same call."""

_log: Final = logging.getLogger(__name__)


class RetryWarning:
    """The warnings of one call, which begins when this is made."""

    def __init__(self) -> None:
        self._due_at_s = time.monotonic() + QUIET_SECONDS

    def on_failure(self, what: str, error: StreamlogError, deadline: Deadline, *, pause_seconds: float) -> None:
        """A try failed, and after a pause there is another one, unless the call ends by then and fails with this."""
        next_try_s = time.monotonic() + pause_seconds
        if (
            next_try_s < self._due_at_s
            or pause_seconds >= deadline.remaining_seconds
            or isinstance(error, BrokerUnavailableError)
        ):
            return
        self._due_at_s = next_try_s + PAUSE_SECONDS
        about = error.message if error.message.startswith(what) else f"{what}: {error.message}"
        _log.warning("%s; %s", about, trying_until(deadline))
