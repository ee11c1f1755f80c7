"""Requests to a coordinator that has read records which its followers may not have yet.

Another broker could lead the partition without them, so nothing is told of them, and nothing is planned on them, before
the high watermark has passed them. That takes a fetch of each follower. If one does not fetch, requests wait a second,
and are then refused as while the coordinator is loading.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError, log_all_callback_errors
from broker_core.broker.partition.replica import Replica
from broker_core.broker.timer_queue import TimerQueue
from broker_core.model.exceptions import StreamlogError
from broker_core.ports import Clock

_log: Final = logging.getLogger(__name__)
_WAIT_MS: Final = 1_000


class CommitWait:
    """`requests` are repeated when the wait is over, or lasts too long."""

    def __init__(self, replica: Replica, until_offset: int, timers: TimerQueue, clock: Clock) -> None:
        self._replica = replica
        self._until_offset = until_offset
        self._timers = timers
        self._clock = clock
        self._key: Hashable = ("loaded coordinator", replica.topic_partition)
        self._is_over = False
        self.is_late = False
        """Requests do not wait any more."""
        self.requests: list[Callable[[], None]] = []

    def start(self, on_committed: Callable[[], None], on_error: OnError) -> None:
        """Calls back once, unless `end` was called: then the requests are to be repeated."""

        def committed() -> None:
            if not self._is_over:
                self.end()
                on_committed()

        def failed(error: StreamlogError) -> None:
            if error.error_code is ErrorCode.not_enough_replicas_after_append:
                committed()  # the high watermark passed them
            elif not self._is_over:
                on_error(error)

        self._timers.set(self._key, self._clock.now_ms() + _WAIT_MS, self._late)
        self._replica.when_committed(self._until_offset, committed, failed)

    def repeat(self) -> None:
        """The coordinator can answer the requests, with whatever it is now."""
        requests, self.requests = self.requests, []
        log_all_callback_errors("a request to a coordinator", requests)

    def end(self) -> None:
        """The coordinator is loaded again, or given up."""
        self._is_over = True
        self._timers.cancel(self._key)

    def _late(self, now_ms: int) -> None:
        _log.warning("partition=%s is not committed up to %d", self._replica.topic_partition, self._until_offset)
        self.is_late = True
        self.repeat()
