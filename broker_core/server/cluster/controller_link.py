"""Requests to the active controller, one after the other, on a connection of their own.

A controller that does not answer, or that is not the active one, is asked again when another one is known to lead,
until the time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import fields
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError, log_callback_errors
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import RequestTimedOutError, UnsupportedVersionError
from broker_core.protocol.api_table import api_label
from broker_core.server.cluster.moving_connection import MovingConnection, ask_once
from broker_core.server.quorum.peer_connection import NO_ANSWER
from broker_core.server.quorum.peer_dialer import PeerDialer

_PAUSE_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 0.1
"""How often it is looked whether another controller leads, while one does not answer."""
_log: Final = logging.getLogger(__name__)


class ControllerLink:
    """A ControllerPort. `leader` is the active controller's address, None while nobody is known to lead. Runs on the
    running loop."""

    def __init__(
        self, leader: Callable[[], BrokerAddress | None], dialer: PeerDialer, *, timeout_seconds: float
    ) -> None:
        self._connection = MovingConnection(leader, dialer)
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, message: Any, on_answer: Callable[[Any], None], on_error: OnError) -> None:
        task = self._loop.create_task(self._ask(message, on_answer, on_error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """What is under way is not answered any more."""
        for task in list(self._tasks):
            task.cancel()
        self._connection.close()

    async def _ask(self, message: Any, on_answer: Callable[[Any], None], on_error: OnError) -> None:
        label = api_label(message.__api_key__)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._answer_of(message)
        except TimeoutError:
            error = RequestTimedOutError(f"{label}: no controller answered in {self._timeout_seconds:g} s")
            log_callback_errors(label, on_error, error)
            return
        if answer is None:
            log_callback_errors(
                label, on_error, UnsupportedVersionError(f"the controller does not support {label} as it is needed")
            )
        else:
            log_callback_errors(label, on_answer, answer)

    async def _answer_of(self, message: Any) -> Any | None:
        """None: the controller does not support the request."""
        while True:
            async with self._turn:
                connection = self._connection.current()
                if connection is not None:
                    try:
                        answer = await self._while_it_leads(ask_once(connection, message))
                        if answer is None or not _is_from_another(answer):
                            return answer
                    except NO_ANSWER as error:
                        _log.debug("controller %s does not answer: %s", connection.address, error)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _while_it_leads(self, asked: Coroutine[Any, Any, Any]) -> Any:
        """The answer. A controller that is frozen keeps its connection open: when another one leads, it is closed, and
        with it what was asked."""
        asking = self._loop.create_task(asked)
        try:
            while not (await asyncio.wait({asking}, timeout=_LOOK_SECONDS))[0]:
                self._connection.current()
            return asking.result()
        finally:
            asking.cancel()


def _is_from_another(answer: Any) -> bool:
    """Whether a controller says that it is not the active one: for the request, or for each thing in it."""
    if getattr(answer, "error_code", None) is ErrorCode.not_controller:
        return True
    for field in fields(answer):
        value = getattr(answer, field.name)
        if isinstance(value, tuple) and value and getattr(value[0], "error_code", None) is ErrorCode.not_controller:
            return True
    return False
