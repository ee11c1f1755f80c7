"""Which brokers are heard, and how far they have replayed the metadata log. In memory of the active controller only.

A session begins with the first heartbeat of a registration, or when a controller becomes active: what it does not know
of earlier heartbeats it takes for now. A heartbeat of another broker epoch is another session.

A broker whose last connection was closed keeps its session, and with it what it leads; but another process may take its
id at once, which is most often the same one, started again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class _Session:
    broker_epoch: int
    heard_ms: int
    metadata_offset: int = -1
    is_connected: bool = True


class BrokerSessions:
    """Sessions of fenced brokers count too: they keep another process from taking the id."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, _Session] = {}

    def hear(self, broker_id: int, broker_epoch: int, *, metadata_offset: int, now_ms: int) -> None:
        self._sessions[broker_id] = _Session(broker_epoch, now_ms, metadata_offset)

    def begin(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A broker that was live before this controller was active."""
        self._sessions[broker_id] = _Session(broker_epoch, now_ms)

    def disconnect(self, broker_id: int, broker_epoch: int) -> None:
        """Until the next heartbeat."""
        session = self._sessions.get(broker_id)
        if session is not None and session.broker_epoch == broker_epoch:
            session.is_connected = False

    def end(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def keeps_id(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Whether no other process may take the id of the registration."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch or not session.is_connected:
            return False
        return not self._is_over(session, now_ms)

    def expired(self, broker_ids: Iterable[int], now_ms: int) -> int | None:
        """The one of these brokers that is silent for longest, if its session is over."""
        over = [
            (session.heard_ms, broker_id)
            for broker_id in broker_ids
            if (session := self._sessions.get(broker_id)) is not None and self._is_over(session, now_ms)
        ]
        return min(over)[1] if over else None

    def next_expiry_ms(self, broker_ids: Iterable[int]) -> int | None:
        heard = [self._sessions[broker_id].heard_ms for broker_id in broker_ids if broker_id in self._sessions]
        return min(heard) + self._timeout_ms if heard else None

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """How far the one of these brokers is that is furthest behind: -1 if it never told; None without any."""
        sessions = [self._sessions.get(broker_id) for broker_id in broker_ids]
        return min((-1 if each is None else each.metadata_offset for each in sessions), default=None)

    def _is_over(self, session: _Session, now_ms: int) -> bool:
        return now_ms >= session.heard_ms + self._timeout_ms
