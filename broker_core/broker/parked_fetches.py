"""Fetches that wait for records: until a partition has enough of them, their time is over, or their client is gone."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from typing import Final, Protocol

from broker_core.broker.timer_queue import TimerQueue
from broker_core.fetch.purgatory import ParkedRequest, Purgatory
from broker_core.model.identifiers import TopicPartition

_log: Final = logging.getLogger(__name__)


class WaitingFetch(ParkedRequest, Protocol):
    """A fetch that is waiting for records."""

    def give_up_waiting(self) -> None:
        """Its timeout has expired: answers with the records available now."""
        ...

    def fail(self) -> None:
        """Ends a fetch that cannot be answered."""
        ...


class ParkedFetches:
    """Of one node. Runs on its loop."""

    def __init__(self, timers: TimerQueue) -> None:
        self._timers = timers
        self._purgatory = Purgatory()
        self._by_connection: dict[int, dict[_ParkedFetch, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_connection.values()))

    def park(
        self, fetch: WaitingFetch, partitions: Iterable[TopicPartition], *, until_ms: int, connection_id: int
    ) -> None:
        parked = _ParkedFetch(self, fetch, connection_id)
        self._by_connection.setdefault(connection_id, {})[parked] = None
        self._purgatory.park(parked, partitions)
        self._timers.set(parked, until_ms, parked.on_time)

    def wake(self, partition: TopicPartition) -> None:
        """Its bounds have changed, or it is gone."""
        self._purgatory.wake(partition)

    def forget_client(self, connection_id: int) -> None:
        for parked in tuple(self._by_connection.get(connection_id, ())):
            self._purgatory.remove(parked)
            self.on_unparked(parked)

    def maybe_remove(self, parked: _ParkedFetch) -> bool:
        """Whether it was still parked."""
        if not self._purgatory.remove(parked):
            return False
        self.on_unparked(parked)
        return True

    def on_unparked(self, parked: _ParkedFetch) -> None:
        self._timers.cancel(parked)
        of_connection = self._by_connection.get(parked.connection_id, {})
        of_connection.pop(parked, None)
        if not of_connection:
            self._by_connection.pop(parked.connection_id, None)


class _ParkedFetch:
    """A fetch in the purgatory, with its timer."""

    def __init__(self, fetches: ParkedFetches, fetch: WaitingFetch, connection_id: int) -> None:
        self.connection_id = connection_id
        self._fetches = fetches
        self._fetch = fetch

    def maybe_complete(self, partition: Hashable) -> bool:
        try:
            is_complete = self._fetch.maybe_complete(partition)
        except Exception:
            _log.exception("partition=%s: completing a parked fetch failed", partition)
            self._fetch.fail()
            is_complete = True
        if is_complete:
            self._fetches.on_unparked(self)
        return is_complete

    def on_time(self, now_ms: int) -> None:
        if not self._fetches.maybe_remove(self):
            return
        try:
            self._fetch.give_up_waiting()
        except Exception:
            _log.exception("answering a parked fetch at its timeout failed")
            self._fetch.fail()
