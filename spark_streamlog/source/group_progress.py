"""Stores how far a stream has come in a consumer group, and, with `pinRetention`, keeps retention off what lies above.

    store(offsets)     all below the offsets is done: Spark's checkpoint says so, and a restart goes on from them

Called at every trigger, also of an idle query, many times a second. So the same offsets are stored again only to renew
a pin, when a third of its lease is over.

Progress is for people and lag tools: when it cannot be stored, the query goes on with a warning, and some time later it
is tried again. A pin is a promise. When the first one cannot be made, or the last one has ended before a next one could
be made, the query fails with STREAMLOG_PIN_LOST rather than go on unprotected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from broker_core.cluster import Cluster, GroupOffset
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.retention_pin import pin_metadata
from spark_streamlog.errors import condition_error
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.wall_clock import wall_clock_ms

logger = logging.getLogger("spark_streamlog")

RETRY_INTERVAL_MS: Final = 10_000
"""After a failure; a pin is tried again sooner where its lease is short."""


def progress_of(
    cluster: Cluster, options: ReadOptions, *, now_ms: Callable[[], int] = wall_clock_ms
) -> GroupProgress | None:
    """None when the query stores no progress. `now_ms` is a wall clock: others read the pins."""
    if options.group_id is None:
        return None
    return GroupProgress(
        cluster,
        group_id=options.group_id,
        pin_retention_ms=options.pin_retention_ms,
        now_ms=now_ms,
    )


class GroupProgress:
    """For one run of one stream, in the process that plans it."""

    def __init__(
        self, cluster: Cluster, *, group_id: str, pin_retention_ms: int | None, now_ms: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._pin_retention_ms = pin_retention_ms
        self._now_ms = now_ms
        self._stored: dict[TopicPartition, int] | None = None
        self._stored_at_ms = 0
        self._failed_at_ms: int | None = None

    def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises STREAMLOG_PIN_LOST."""
        now_ms = self._now_ms()
        if (offsets == self._stored and not self._is_renewal_due(now_ms)) or self._is_too_early_again(now_ms):
            return
        try:
            self._commit(offsets, now_ms)
        except (StreamlogError, OSError) as error:
            self._on_failure(error, now_ms)
        else:
            self._stored, self._stored_at_ms, self._failed_at_ms = dict(offsets), now_ms, None

    def _commit(self, offsets: Mapping[TopicPartition, int], now_ms: int) -> None:
        topics = self._cluster.describe_topics({tp.topic for tp in offsets})
        metadata = "" if self._pin_retention_ms is None else pin_metadata(now_ms + self._pin_retention_ms)
        present = {
            tp: GroupOffset(offset=offset, metadata=metadata)
            for tp, offset in offsets.items()
            # The offsets may still name what was deleted, and such a commit would be refused.
            if tp.topic in topics and tp.partition < topics[tp.topic].partition_count
        }
        if present:
            self._cluster.commit_offsets(self._group_id, present)

    def _is_renewal_due(self, now_ms: int) -> bool:
        retention_ms = self._pin_retention_ms
        return retention_ms is not None and _has_passed(retention_ms // 3, self._stored_at_ms, now_ms)

    def _is_too_early_again(self, now_ms: int) -> bool:
        if self._failed_at_ms is None:
            return False
        interval_ms = RETRY_INTERVAL_MS
        if self._pin_retention_ms is not None:
            interval_ms = min(interval_ms, self._pin_retention_ms // 10)
        return not _has_passed(interval_ms, self._failed_at_ms, now_ms)

    def _on_failure(self, error: Exception, now_ms: int) -> None:
        retention_ms = self._pin_retention_ms
        if retention_ms is not None and (self._stored is None or now_ms - self._stored_at_ms >= retention_ms):
            raise condition_error("STREAMLOG_PIN_LOST", group=self._group_id, reason=str(error)) from error
        if self._failed_at_ms is None:
            logger.warning("The progress of the query cannot be stored in the group %s: %s", self._group_id, error)
        self._failed_at_ms = now_ms


def _has_passed(duration_ms: int, since_ms: int, now_ms: int) -> bool:
    # A wall clock that was set back must not put anything off.
    return now_ms < since_ms or now_ms - since_ms >= duration_ms
