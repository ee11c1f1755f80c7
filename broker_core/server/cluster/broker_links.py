"""Requests to other brokers: a connection to each, one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from broker_core.broker.callback_errors import OnError, log_callback_errors
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import BrokerUnavailableError
from broker_core.protocol.api_table import api_label
from broker_core.server.cluster.moving_connection import MovingConnection, ask_once
from broker_core.server.quorum.peer_connection import NO_ANSWER
from broker_core.server.quorum.peer_dialer import PeerDialer

_ANSWER_SECONDS: Final = 10.0


class BrokerLinks:
    """A BrokerPort. `address_of` a broker: None while it is not registered. Runs on the running loop."""

    def __init__(self, address_of: Callable[[int], BrokerAddress | None], dialer: PeerDialer) -> None:
        self._address_of = address_of
        self._dialer = dialer
        self._loop = asyncio.get_running_loop()
        self._links: dict[int, _BrokerLink] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, broker_id: int, message: Any, on_answer: Callable[[Any], None], on_error: OnError) -> None:
        link = self._link_to(broker_id)
        task = self._loop.create_task(self._ask(broker_id, link, message, on_answer, on_error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _link_to(self, broker_id: int) -> _BrokerLink:
        link = self._links.get(broker_id)
        if link is None:
            link = self._links[broker_id] = _BrokerLink(lambda: self._address_of(broker_id), self._dialer)
        return link

    def close(self) -> None:
        """What is under way is not answered any more."""
        for task in list(self._tasks):
            task.cancel()
        for link in self._links.values():
            link.close()

    async def _ask(
        self, broker_id: int, link: _BrokerLink, message: Any, on_answer: Callable[[Any], None], on_error: OnError
    ) -> None:
        label = api_label(message.__api_key__)
        try:
            async with link.turn, asyncio.timeout(_ANSWER_SECONDS):
                answer = await link.ask(message)
        except (*NO_ANSWER, TimeoutError) as error:
            link.close()
            gone = BrokerUnavailableError(f"broker {broker_id} does not answer {label}: {error!r}", address="")
            log_callback_errors(label, on_error, gone)
            return
        log_callback_errors(label, on_answer, answer)


class _BrokerLink:
    def __init__(self, address_now: Callable[[], BrokerAddress | None], dialer: PeerDialer) -> None:
        self.turn = asyncio.Lock()
        self._connection = MovingConnection(address_now, dialer)

    async def ask(self, message: Any) -> Any:
        connection = self._connection.current()
        if connection is None:
            raise BrokerUnavailableError("it is not registered", address="")
        answer = await ask_once(connection, message)
        if answer is None:
            address = str(connection.address)
            raise BrokerUnavailableError(f"{address} does not support the request", address=address)
        return answer

    def close(self) -> None:
        self._connection.close()
