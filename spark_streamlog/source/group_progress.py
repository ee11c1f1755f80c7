"""Stores a stream's progress in a consumer group and, with `pinRetention`, protects the offsets above from retention.

    store(offsets)     all below the offsets is done: they are in Spark's checkpoint, and a restart continues there

Called at every trigger, also of an idle query, many times a second. So the same offsets are stored again only to renew
a pin, when a third of its lease is over.

Progress is for users and lag tools: if it cannot be stored, the query continues with a warning and retries some time
later. A pin is a guarantee. If the first one cannot be set, or the last one ended before the next one could be set, the
query fails with STREAMLOG_PIN_LOST rather than continue unprotected.

The ids of the query's topics are stored with it, so that a restart detects whether one was deleted and created again
(`topic_memory`). When a topic is deleted, a group's offsets in it are deleted with their metadata, so the ids are in a
group of their own (`group_topics`). Where that group may not be written, the offsets of several topics do: their
metadata holds the ids of all, and those that remain still name the deleted one.

    streamlog-topic-ids:{"ids":[{"t":"<id>"}],"vectors":{"<digest>":0}}        after a pin, if there is one
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from broker_core.cluster import Cluster, GroupOffset
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.retention_pin import pin_metadata
from spark_streamlog.errors import condition_error
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.stream_offset import StreamOffset
from spark_streamlog.planning.topic_ids import VectorTopics, digest_of
from spark_streamlog.source.group_topics import RETRY_INTERVAL_MS, GroupTopics, topic_ids_in, topic_ids_text
from spark_streamlog.wall_clock import has_passed, wall_clock_ms

logger = logging.getLogger("spark_streamlog")

BEARER_COUNT: Final = 3
"""In this many topics the ids of all are stored with the offset of one partition."""


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
        target=str(options.target),
    )


class GroupProgress:
    """For one run of one stream, in the process that plans it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        group_id: str,
        pin_retention_ms: int | None,
        now_ms: Callable[[], int],
        target: str = "",
    ) -> None:
        """`target` names the log in the digests of offsets."""
        self._cluster = cluster
        self._group_id = group_id
        self._pin_retention_ms = pin_retention_ms
        self._now_ms = now_ms
        self._target = target
        self._topics = GroupTopics(cluster, group_id, now_ms=now_ms)
        self._topic_ids_text = ""
        self._stored: tuple[dict[TopicPartition, int], str] | None = None
        self._stored_at_ms = 0
        self._failed_at_ms: int | None = None

    def ids_at(self, offsets: StreamOffset) -> Mapping[str, UUID]:
        """As in `topic_memory.TopicMemory`. Nothing is known if the group cannot be read or has no ids."""
        digest = digest_of(offsets, self._target)
        try:
            committed = self._cluster.fetch_offsets(self._group_id)
        except (StreamlogError, OSError) as error:
            logger.warning("The topic ids of the query cannot be read from the group %s: %s", self._group_id, error)
            committed = {}
        known: dict[str, UUID] = {}
        for stored in committed.values():
            known |= topic_ids_in(stored.metadata).get(digest, {})
        return {**known, **self._topics.ids_at(digest)}

    def remember(self, vectors: Sequence[VectorTopics]) -> None:
        """Stored at once in the group of the ids, and in the query's own group with the next offsets."""
        ids_by_digest = {digest_of(each.offsets, self._target): each.topic_ids for each in vectors}
        self._topic_ids_text = topic_ids_text(ids_by_digest)
        self._topics.store(ids_by_digest)

    def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises STREAMLOG_PIN_LOST."""
        now_ms = self._now_ms()
        wanted = (dict(offsets), self._topic_ids_text)
        if (wanted == self._stored and not self._is_renewal_due(now_ms)) or self._is_too_early_again(now_ms):
            return
        try:
            self._commit(offsets, now_ms)
        except (StreamlogError, OSError) as error:
            self._on_failure(error, now_ms)
        else:
            self._stored, self._stored_at_ms, self._failed_at_ms = wanted, now_ms, None

    def _commit(self, offsets: Mapping[TopicPartition, int], now_ms: int) -> None:
        topics = self._cluster.describe_topics({tp.topic for tp in offsets})
        pin = "" if self._pin_retention_ms is None else pin_metadata(now_ms + self._pin_retention_ms)
        # The offsets may still name deleted partitions, and such a commit would be refused.
        present = [
            tp for tp in sorted(offsets) if tp.topic in topics and tp.partition < topics[tp.topic].partition_count
        ]
        firsts = {tp.topic: tp for tp in reversed(present)}
        bearers = sorted(firsts.values())[:BEARER_COUNT] if self._topic_ids_text else []
        both = f"{pin};{self._topic_ids_text}" if pin else self._topic_ids_text
        if present:
            self._cluster.commit_offsets(
                self._group_id,
                {tp: GroupOffset(offset=offsets[tp], metadata=both if tp in bearers else pin) for tp in present},
            )

    def _is_renewal_due(self, now_ms: int) -> bool:
        retention_ms = self._pin_retention_ms
        return retention_ms is not None and has_passed(retention_ms // 3, self._stored_at_ms, now_ms)

    def _is_too_early_again(self, now_ms: int) -> bool:
        if self._failed_at_ms is None:
            return False
        interval_ms = RETRY_INTERVAL_MS
        if self._pin_retention_ms is not None:
            interval_ms = min(interval_ms, self._pin_retention_ms // 10)
        return not has_passed(interval_ms, self._failed_at_ms, now_ms)

    def _on_failure(self, error: Exception, now_ms: int) -> None:
        retention_ms = self._pin_retention_ms
        if retention_ms is not None and (self._stored is None or now_ms - self._stored_at_ms >= retention_ms):
            raise condition_error("STREAMLOG_PIN_LOST", group=self._group_id, reason=str(error)) from error
        if self._failed_at_ms is None:
            logger.warning("The progress of the query cannot be stored in the group %s: %s", self._group_id, error)
        self._failed_at_ms = now_ms
