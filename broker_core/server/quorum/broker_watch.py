"""Notices at the active controller that the process of a broker is gone, long before its session is over.

    its last connection closes ──► connect to its listener ──► refused: nobody listens there ──► the controller is told
    a controller becomes active ─► the same for every broker that is not fenced

A process that was killed leaves no listening socket behind, so a connection is refused at once. A broker that is
frozen, or cut off, or whose machine is gone does not refuse: its session decides. A hint may be wrong (a port that is
forwarded): the broker is fenced then, and unfenced with its next heartbeat.

Only brokers of ours are watched: those of Kafka have Kafka's sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from broker_core.metadata.metadata_records import RegisterBrokerRecord
from broker_core.server.quorum.peer_connection import CLIENT_ID

_PROBE_SECONDS: Final = 1.0
_PROBES_AT_ONCE: Final = 16
_PROBE_ROUNDS: Final = 10
_PROBE_PAUSE_SECONDS: Final = 0.1
_log: Final = logging.getLogger(__name__)


class BrokerIncarnation(NamedTuple):
    broker_id: int
    broker_epoch: int


class BrokerWatch:
    """`brokers` are those of the active controller, by id; none elsewhere. `on_disconnected` and `on_gone` are told to
    the controller."""

    def __init__(
        self,
        *,
        brokers: Callable[[], Mapping[int, RegisterBrokerRecord]],
        on_disconnected: Callable[[BrokerIncarnation], None],
        on_gone: Callable[[BrokerIncarnation], None],
    ) -> None:
        self._brokers = brokers
        self._on_disconnected, self._on_gone = on_disconnected, on_gone
        self._by_connection: dict[int, BrokerIncarnation] = {}
        self._probes: set[asyncio.Task[None]] = set()

    def on_heartbeat(self, connection_id: int, client_id: str | None, broker: BrokerIncarnation) -> None:
        if client_id == CLIENT_ID:
            self._by_connection[connection_id] = broker

    def on_connection_closed(self, connection_id: int) -> None:
        """Of any connection."""
        broker = self._by_connection.pop(connection_id, None)
        if broker is None or self._is_connected(broker) or not self._is_registered(broker):
            return
        self._on_disconnected(broker)
        self._probe([broker])

    def look_at_all(self) -> None:
        """This node's controller has become active: those that went with the last one do not come back to it."""
        self._probe(
            BrokerIncarnation(broker_id, broker.broker_epoch)
            for broker_id, broker in self._brokers().items()
            if not broker.fenced
        )

    def close(self) -> None:
        for task in self._probes:
            task.cancel()

    def _is_registered(self, broker: BrokerIncarnation) -> bool:
        registered = self._brokers().get(broker.broker_id)
        return registered is not None and registered.broker_epoch == broker.broker_epoch

    def _probe(self, brokers: Iterable[BrokerIncarnation]) -> None:
        task = asyncio.get_running_loop().create_task(self._probe_each(list(brokers)))
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _probe_each(self, brokers: list[BrokerIncarnation]) -> None:
        """A process that ends closes one socket after the other: those that do not refuse at once are tried again."""
        for _ in range(_PROBE_ROUNDS):
            left: list[BrokerIncarnation] = []
            for start in range(0, len(brokers), _PROBES_AT_ONCE):
                some = brokers[start : start + _PROBES_AT_ONCE]
                are_over = await asyncio.gather(*map(self._is_over, some))
                left += (each for each, is_over in zip(some, are_over, strict=True) if not is_over)
            if not left:
                return
            brokers = left
            await asyncio.sleep(_PROBE_PAUSE_SECONDS)

    async def _is_over(self, broker: BrokerIncarnation) -> bool:
        """Whether there is no reason to look again: it is gone, or connected again, or another one is registered."""
        registered = self._brokers().get(broker.broker_id)
        if registered is None or not registered.end_points or not self._is_registered(broker):
            return True
        place = registered.end_points[0]
        is_refused = await _is_refused(place.host, place.port)
        if is_refused and self._is_registered(broker):
            _log.warning("broker=%d: nobody listens at %s:%d any more", broker.broker_id, place.host, place.port)
            self._on_gone(broker)
        return is_refused or self._is_connected(broker)

    def _is_connected(self, broker: BrokerIncarnation) -> bool:
        return broker in self._by_connection.values()


async def _is_refused(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return False
