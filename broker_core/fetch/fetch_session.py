"""Fetch sessions (KIP-227): a client names its partitions once; later requests and answers contain only changes.

    session id 0, epoch -1      no session: the request and the answer are complete
    epoch 0                     begins one, if the cache has room: the answer carries its id. A named one ends
    epoch n > 0                 the next request of a session; the broker expects n, then n + 1 (1 after 2^31 - 1)
    session id > 0, epoch -1    ends the session; the answer is that of a request without one

A session keeps its partitions in order; partitions answered with records move to the end, so that none starves when a
request's byte limit is reached. An answer contains the partitions with records or an error, and those whose high
watermark or log start offset changed since the last answer that contained them.

The cache has a limited number of sessions. A new one replaces the least recently used one if that was idle for two
minutes; else it is not kept, and the client fetches without a session. The same holds when all sessions together would
name more partitions than the cache allows; a session that grows beyond that limit is dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.model.limits import MAX_FETCH_SESSION_PARTITION_COUNT

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1

_MAX_EPOCH: Final = 2**31 - 1
_EVICTION_AFTER_MS: Final = 120_000
_UNKNOWN: Final = -1


class PartitionKey(NamedTuple):
    """A partition as requests name it: by its topic's name, or by its id, which may be unknown."""

    topic: str | UUID | None
    number: int


class WantedPartition(NamedTuple):
    """A client's request for one partition."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    """That of the follower that asks."""


@dataclass(slots=True, kw_only=True)
class SessionPartition:
    """One partition of a session, with the offsets that the client last received."""

    wanted: WantedPartition
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN


@dataclass(slots=True, kw_only=True)
class FetchSession:
    session_id: int
    with_topic_ids: bool
    epoch: int
    last_used_ms: int
    partitions: OrderedDict[PartitionKey, SessionPartition] = field(default_factory=OrderedDict)

    def update(self, wanted: Mapping[PartitionKey, WantedPartition], forgotten: Iterable[PartitionKey]) -> None:
        """The changes that a request makes to its session."""
        for key, each in wanted.items():
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = SessionPartition(wanted=each)
            else:
                known.wanted = each
        for key in forgotten:
            self.partitions.pop(key, None)

    def maybe_report(
        self, key: PartitionKey, *, high_watermark: int, log_start_offset: int, has_records: bool, has_error: bool
    ) -> bool:
        """Whether this partition belongs in the answer; remembers the offsets that are sent."""
        known = self.partitions.get(key)
        if known is None:
            return True
        has_moved = (known.high_watermark, known.log_start_offset) != (high_watermark, log_start_offset)
        known.high_watermark, known.log_start_offset = high_watermark, log_start_offset
        if has_records:
            self.partitions.move_to_end(key)
        if has_error:
            # An error is sent in each answer until it is gone; the first answer after it is a change.
            known.high_watermark = known.log_start_offset = _UNKNOWN
        return has_records or has_error or has_moved


class FetchContext(NamedTuple):
    """The partitions of one request. `session` None: none is used, or `error` says why there is none."""

    wanted: Mapping[PartitionKey, WantedPartition]
    session: FetchSession | None = None
    is_incremental: bool = False
    error: ErrorCode = ErrorCode.none

    @property
    def session_id(self) -> int:
        """For the answer."""
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessionCache:
    """All sessions of a node. `new_id` returns a random positive int32."""

    def __init__(
        self,
        *,
        max_session_count: int,
        new_id: Callable[[], int],
        max_partition_count: int = MAX_FETCH_SESSION_PARTITION_COUNT,
    ) -> None:
        self._max_session_count = max_session_count
        self._max_partition_count = max_partition_count
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def context_of(
        self,
        *,
        session_id: int,
        epoch: int,
        wanted: Mapping[PartitionKey, WantedPartition],
        forgotten: Iterable[PartitionKey],
        with_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext:
        """The session and partitions of a request."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            session = None
            if epoch == INITIAL_EPOCH:
                session = self._maybe_begin(wanted, with_topic_ids=with_topic_ids, now_ms=now_ms)
            return FetchContext(wanted=wanted, session=session)
        known = self._sessions.get(session_id)
        if known is None:
            return FetchContext(wanted={}, error=ErrorCode.fetch_session_id_not_found)
        if known.with_topic_ids != with_topic_ids:
            return FetchContext(wanted={}, error=ErrorCode.fetch_session_topic_id_error)
        if known.epoch != epoch:
            return FetchContext(wanted={}, error=ErrorCode.invalid_fetch_session_epoch)
        known_count = len(known.partitions)
        known.update(wanted, forgotten)
        if len(known.partitions) > known_count and self.partition_count > self._max_partition_count:
            del self._sessions[session_id]
            return FetchContext(wanted={}, error=ErrorCode.fetch_session_id_not_found)
        if not known.partitions:
            del self._sessions[session_id]
            return FetchContext(wanted={})
        known.epoch = 1 if known.epoch == _MAX_EPOCH else known.epoch + 1
        known.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        everything = {key: each.wanted for key, each in known.partitions.items()}
        return FetchContext(wanted=everything, session=known, is_incremental=True)

    def drop(self, session_id: int) -> None:
        """Its client will not hear of it."""
        self._sessions.pop(session_id, None)

    def _maybe_begin(
        self, wanted: Mapping[PartitionKey, WantedPartition], *, with_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        if len(self._sessions) >= self._max_session_count:
            oldest_id, oldest = next(iter(self._sessions.items()), (NO_SESSION, None))
            if oldest is None or now_ms - oldest.last_used_ms < _EVICTION_AFTER_MS:
                return None
            del self._sessions[oldest_id]
        if self.partition_count + len(wanted) > self._max_partition_count:
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = FetchSession(
            session_id=session_id, with_topic_ids=with_topic_ids, epoch=INITIAL_EPOCH + 1, last_used_ms=now_ms
        )
        session.update(wanted, ())
        self._sessions[session_id] = session
        return session
