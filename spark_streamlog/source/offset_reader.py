"""Reads from the log which partitions a query has, and their start and end offsets. Used where queries are planned.

One request is not enough: a topic can be deleted between listing it and requesting its offsets, and a cluster's
metadata can be stale for a moment, so that offsets seem to go backwards or partitions seem to be missing. Such requests
are repeated, `fetchOffset.numRetries` times with `fetchOffset.retryIntervalMs` between, before the answer is accepted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from broker_core.cluster import Cluster
from broker_core.model.exceptions import OffsetOutOfRangeError, UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition
from spark_streamlog.errors import condition_error
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.offset_limits import (
    EARLIEST,
    LATEST,
    OffsetLimit,
    names_of,
    places_of,
    resolve_committed,
    resolve_counts_below_end,
    resolve_timestamps,
)
from spark_streamlog.planning.subscription import assigned_partitions, missing_names, topics_to_describe
from spark_streamlog.wall_clock import wall_clock_ms

logger = logging.getLogger("spark_streamlog")

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The partitions of a query at one instant, with the ids of their topics."""

    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestOffsets:
    """Readable ends of the assigned partitions."""

    offsets: dict[TopicPartition, int]
    topic_ids: Mapping[str, UUID]


class OffsetReader:
    """All offsets are as the query's isolation level sees them."""

    def __init__(
        self,
        cluster: Cluster,
        options: ReadOptions,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._sleep = sleep
        self._now_ms = now_ms

    def assignment(self) -> Assignment:
        subscription = self._options.subscription
        topics = self._cluster.describe_topics(topics_to_describe(subscription))
        partitions = assigned_partitions(subscription, topics)
        return Assignment(partitions=partitions, topic_ids={tp.topic: topics[tp.topic].topic_id for tp in partitions})

    def existing_partitions(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Those that exist, whether the query subscribes to them or not."""
        topics = self._cluster.describe_topics({tp.topic for tp in partitions})
        return frozenset(
            tp for tp in partitions if tp.topic in topics and tp.partition < topics[tp.topic].partition_count
        )

    def first_assignment(self) -> Assignment:
        """For a query that starts: raises STREAMLOG_UNKNOWN_TOPICS if a topic or partition it names does not exist."""
        subscription = self._options.subscription
        missing = missing_names(subscription, self._cluster.describe_topics(topics_to_describe(subscription)))
        if missing:
            present = sorted(t.name for t in self._cluster.describe_topics().values() if not t.is_internal)
            raise condition_error(
                "STREAMLOG_UNKNOWN_TOPICS",
                option=subscription.option,
                target=self._options.target,
                missing=", ".join(missing),
                present=_some_of(present),
            )
        return self.assignment()

    def unresolved(
        self,
        limit: OffsetLimit,
        partitions: Collection[TopicPartition],
        *,
        is_start: bool,
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, int]:
        """An offset, EARLIEST or LATEST for each partition; all other kinds of limit are looked up.

        A limit relative to the end is relative to `ends`, where they are known. Raises
        STREAMLOG_NO_OFFSET_FOR_TIMESTAMP and STREAMLOG_GROUP_WITHOUT_OFFSETS.
        """
        places = places_of(limit, partitions, is_start=is_start, now_ms=self._now_ms())
        found = self._cluster.list_offsets(places.timestamps, self._options.isolation) if places.timestamps else {}
        settled = resolve_timestamps(
            limit,
            places.timestamps,
            {tp: answer.offset if answer else None for tp, answer in found.items()},
            latest_if_none=not is_start or self._options.latest_if_no_timestamp_matches,
        )
        below_end = self._below_end(places.counts_below_end, ends or {})
        committed = self._committed(places.group_id, partitions) if places.group_id is not None else {}
        return places.offsets | settled | below_end | committed

    def resolved(
        self, unresolved: Mapping[TopicPartition, int], isolation: IsolationLevel | None = None
    ) -> dict[TopicPartition, int]:
        """EARLIEST and LATEST resolved to offsets; other offsets stay as they are, even if they do not exist.

        `isolation` replaces the query's.
        """
        specs = {tp: OffsetSpec(offset) for tp, offset in unresolved.items() if offset in (EARLIEST, LATEST)}
        return dict(unresolved) | self._list_offsets(specs, isolation)

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Log starts; deleted partitions are missing from the answer."""

        def ask() -> dict[TopicPartition, int]:
            present = self.assignment().partitions & frozenset(partitions)
            return self._list_offsets(dict.fromkeys(present, OffsetSpec.EARLIEST))

        return self.retried_if_topics_vanish(ask) if partitions else {}

    def latest(self, known: Mapping[TopicPartition, int]) -> LatestOffsets:
        """Retried while partitions of `known` are missing from the answer, or the answer is below them."""
        for attempt in range(self._options.fetch_offset_attempt_count):
            if attempt:
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
            answer = self.retried_if_topics_vanish(lambda: self._ask_latest(known))
            if all(answer.offsets.get(tp, -1) >= offset for tp, offset in known.items()):
                break
        return answer

    def above_open_transactions(
        self, known: Mapping[TopicPartition, int], readable: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Known offsets that are above the first open transaction, but in the log: nothing is lost, the query waits.

        A read-uncommitted query or group can have read up to there, and a read-committed one continues.
        """
        if self._options.isolation is IsolationLevel.READ_UNCOMMITTED:
            return {}
        above = {tp: OffsetSpec.LATEST for tp, end in readable.items() if known.get(tp, end) > end}
        log_ends = self._list_offsets(above, IsolationLevel.READ_UNCOMMITTED)
        return {tp: known[tp] for tp, log_end in log_ends.items() if known[tp] <= log_end}

    # -- bytes, for `planning.byte_limit`: what cannot be measured has size 0, and the tasks report the reason --

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int:
        try:
            return self._cluster.find_offset_within_bytes(partition, from_offset, until_offset, max_bytes)
        except (UnknownTopicError, UnknownPartitionError, OffsetOutOfRangeError):
            return until_offset

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        try:
            return self._cluster.bytes_between(partition, from_offset, until_offset)
        except (UnknownTopicError, UnknownPartitionError, OffsetOutOfRangeError):
            return 0

    def retried_if_topics_vanish(self, ask: Callable[[], Answer]) -> Answer:
        """A topic that was listed and then unknown is not listed the next time; the last attempt's error stays."""
        attempts_left = self._options.fetch_offset_attempt_count
        while True:
            try:
                return ask()
            except (UnknownTopicError, UnknownPartitionError):
                attempts_left -= 1
                if attempts_left <= 0:
                    raise
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)

    def _below_end(
        self, counts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if not counts:
            return {}
        log_starts = self._list_offsets(dict.fromkeys(counts, OffsetSpec.EARLIEST))
        log_ends = self._list_offsets(dict.fromkeys(counts.keys() - ends.keys(), OffsetSpec.LATEST))
        return resolve_counts_below_end(counts, log_starts, log_ends | dict(ends))

    def _committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        committed = self._cluster.fetch_offsets(group_id)
        starts = resolve_committed(
            group_id,
            partitions,
            {tp: entry.offset for tp, entry in committed.items()},
            is_group_known=bool(committed),
        )
        without = [tp for tp in starts if tp not in committed]
        if without:
            logger.warning(
                "The group %s has not committed an offset for %s: reading starts at earliest there",
                group_id,
                names_of(without),
            )
        return starts

    def _ask_latest(self, known: Mapping[TopicPartition, int]) -> LatestOffsets:
        assignment = self.assignment()
        offsets = self._list_offsets(dict.fromkeys(assignment.partitions, OffsetSpec.LATEST))
        return LatestOffsets(
            offsets=offsets | self.above_open_transactions(known, offsets), topic_ids=assignment.topic_ids
        )

    def _list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], isolation: IsolationLevel | None = None
    ) -> dict[TopicPartition, int]:
        if not specs:
            return {}
        found = self._cluster.list_offsets(specs, self._options.isolation if isolation is None else isolation)
        return {tp: answer.offset for tp, answer in found.items() if answer is not None}


def _some_of(names: list[str], limit: int = 20) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "") or "none"
