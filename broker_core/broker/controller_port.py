"""Requests of a broker to other nodes of its cluster. The node's driver carries them out; callbacks on the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from broker_core.broker.callback_errors import OnError


class ControllerPort(Protocol):
    """The active controller, whichever node that is."""

    def ask(self, message: Any, on_answer: Callable[[Any], None], on_error: OnError) -> None:
        """Sends kio's dataclass of a request, once there is an active controller, and again if it says that it is not.
        `on_error` gets RemoteError when no controller answers in time: the request may have been carried out."""
        ...


class BrokerPort(Protocol):
    """The other brokers."""

    def ask(self, broker_id: int, message: Any, on_answer: Callable[[Any], None], on_error: OnError) -> None:
        """`on_error` gets RemoteError: the request may have been carried out."""
        ...
