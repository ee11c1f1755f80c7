"""What one request counts against its client's quotas, and how long the client is throttled for it.

Made only while somebody has a quota. Requests that brokers send each other are exempt, as in Kafka: those of followers,
transaction markers, partitions that a broker adds to a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from broker_core.controller.requests.envelope import FIRST_STRICT_VERSION
from broker_core.model.durations import milliseconds_of
from broker_core.protocol.api_table import ApiKey
from broker_core.protocol.connection import Request
from broker_core.quota.client_throttle import ClientThrottle, MutationCharge
from broker_core.quota.quota_table import QuotaClient

_FIRST_VERSION_OF_BROKERS: Final[dict[int, int]] = {ApiKey.WRITE_TXN_MARKERS: 0, ApiKey.ADD_PARTITIONS_TO_TXN: 4}
_NEVER: Final = 2**15
_NO_TIME: Final = timedelta()


class RequestMeter:
    """`stopwatch_ns` measures the time of the thread that handles requests."""

    def __init__(
        self,
        throttle: ClientThrottle,
        request: Request,
        *,
        principal: str,
        now_ms: Callable[[], int],
        stopwatch_ns: Callable[[], int],
    ) -> None:
        self._throttle = throttle
        self._request = request
        self._client = QuotaClient(principal.partition(":")[2], request.client_id or "")
        self._now_ms = now_ms
        self._stopwatch_ns = stopwatch_ns
        self._begun_ns = stopwatch_ns()
        self._spent_ns: int | None = None
        self._mutations: MutationCharge | None = None
        self._fetch_throttle_ms: int | None = None
        self._is_exempt = request.api_version >= _FIRST_VERSION_OF_BROKERS.get(request.api_key, _NEVER) or (
            _replica_id(request.message) >= 0
        )

    def on_handler_end(self) -> None:
        """What follows, until the request is answered, is waiting."""
        self._spent_ns = self._stopwatch_ns() - self._begun_ns

    def most_fetch_bytes(self) -> int | None:
        """None: no limit."""
        return None if self._is_exempt else self._throttle.most_fetch_bytes(self._client)

    def on_fetched(self, byte_count: int) -> int:
        """Bytes of records that are to be sent. Not 0: send none, the client is throttled for so many ms."""
        if self._is_exempt:
            return 0
        now_ms = self._now_ms()
        of_time = self._throttle.on_handled(self._client, self._taken_ns(), now_ms)
        of_bytes = self._throttle.on_fetched(self._client, byte_count, now_ms)
        if of_time and not of_bytes:
            self._throttle.rollback_fetched(self._client, byte_count, now_ms)
        self._fetch_throttle_ms = max(of_time, of_bytes)
        return self._fetch_throttle_ms

    def take_mutations(self, partition_count: int) -> bool:
        """The request creates or deletes so many partitions. False: that is refused."""
        if self._mutations is None:
            first = FIRST_STRICT_VERSION.get(self._request.api_key, _NEVER)
            self._mutations = self._throttle.mutations_of(self._client, is_strict=self._request.api_version >= first)
        return self._mutations is None or self._mutations.take(partition_count, self._now_ms())

    def on_answer(self, message: Any) -> int:
        """For how many ms the client is throttled. The answer of a controller may tell a time of its own."""
        if self._is_exempt:
            return 0
        told_ms = milliseconds_of(getattr(message, "throttle_time", _NO_TIME))
        if self._fetch_throttle_ms is not None:
            return max(told_ms, self._fetch_throttle_ms)
        now_ms = self._now_ms()
        found = [told_ms]
        is_unanswered = False
        if self._request.api_key == ApiKey.PRODUCE:
            found.append(self._throttle.on_produced(self._client, self._request.size_bytes, now_ms))
            is_unanswered = self._request.message is not None and self._request.message.acks == 0
        if self._mutations is not None:
            found.append(self._mutations.throttle_ms(now_ms))
        if not is_unanswered:
            found.append(self._throttle.on_handled(self._client, self._taken_ns(), now_ms))
        return max(found)

    def _taken_ns(self) -> int:
        return self._stopwatch_ns() - self._begun_ns if self._spent_ns is None else self._spent_ns


def _replica_id(message: Any) -> int:
    state = getattr(message, "replica_state", None)
    found: int = getattr(message, "replica_id", -1) if state is None else state.replica_id
    return found
