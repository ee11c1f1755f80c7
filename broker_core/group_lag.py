"""How far a consumer group is behind, per partition: in offsets, in bytes and in time.

    committed ─────────────┐           ┌─ first record that the group has not seen, and may see
    log start ──┐          │           │                          ┌─ readable end
    ────────────●━━━━━━━━━━●━━━━━━━━━━━●━━━━━━━━━━━━━━━━━━━━━━━━━━●──────────────
                           └── behind_offsets, behind_bytes ──────┘
                                       └── behind_ms: from its timestamp until now

Offsets are not records: markers, aborted transactions and compaction take some that no reader gets. A group with
only such offsets left has a lag in offsets, and 0 ms. Records below the log start were removed unread: they are part
of the offset lag, as in Kafka's tools, and of `lost_offsets`.

An error of one partition does not affect the others: its numbers are None, and `error` has the reason. A partition that
has no leader is not asked: a client would wait for its leader until the deadline of a call, for each such partition.

The decisions of a sink and the topic ids of a source are left out: they are commits of a group for an internal topic,
but not read positions. The lag of an ordinary group that reads an internal topic is included.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from broker_core.cluster import Cluster, GroupOffset
from broker_core.model.exceptions import (
    AuthorizationError,
    BrokerError,
    CorruptDataError,
    InvalidRequestError,
    RequestTimedOutError,
    UnknownGroupError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import OWN_GROUP_PREFIXES, IsolationLevel, TopicPartition
from broker_core.model.topic_name import is_internal_topic
from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.columns import decode

FETCH_BYTES: Final = 64 * 1024
MAX_FETCH_COUNT: Final = 64
"""How many fetches the search for the first unread record makes, past markers and aborted records."""

NO_LEADER: Final = "the partition has no leader now: the brokers that hold it are down"
"""`PartitionLag.error` of such a partition."""

GONE: Final = (UnknownTopicError, UnknownPartitionError)
UNREADABLE_LAG_ERRORS: Final = (
    InvalidRequestError,
    AuthorizationError,
    BrokerError,
    RequestTimedOutError,
    CorruptDataError,
)
"""Errors of one partition: an invalid name, a missing permission, no leader, damage. An unreachable broker is an error
of all partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """All but the first two are None if the partition does not exist any more.

    `log_end_offset` is the readable one. `behind_ms` is also None if no unread record was found within the limit of
    the search. `error`: the reason of unknown values, if there is one.
    """

    partition: TopicPartition
    committed: GroupOffset
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    behind_offsets: int | None = None
    behind_bytes: int | None = None
    behind_ms: int | None = None
    lost_offsets: int | None = None
    error: str | None = None


def lag_of_group(
    cluster: Cluster,
    group_id: str,
    *,
    now_ms: int,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> tuple[PartitionLag, ...]:
    """The lag of every partition with an offset of the group, ordered. Raises UnknownGroupError if there is none.

    `isolation` is that of the group's readers: records that they may not see yet are not part of the lag.
    """
    committed = cluster.fetch_offsets(group_id)
    if not committed:
        raise UnknownGroupError(f"Group {group_id!r} has no committed offsets.", group_id=group_id)
    is_own = group_id.startswith(OWN_GROUP_PREFIXES)
    partitions = [each for each in sorted(committed) if not (is_own and is_internal_topic(each.topic))]
    leaderless = leaderless_among(cluster, partitions)
    return tuple(
        PartitionLag(partition=each, committed=committed[each], error=NO_LEADER)
        if each in leaderless
        else _lag(cluster, each, committed[each], now_ms, isolation)
        for each in partitions
    )


def leaderless_among(cluster: Cluster, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """Those that no broker leads now. Only what a broker tells at once: nothing waits for a leader."""
    topics = cluster.describe_topics({partition.topic for partition in partitions}) if partitions else {}
    return frozenset(
        partition
        for partition in partitions
        if partition.topic in topics and partition.partition in topics[partition.topic].leaderless
    )


def _lag(
    cluster: Cluster, partition: TopicPartition, committed: GroupOffset, now_ms: int, isolation: IsolationLevel
) -> PartitionLag:
    known = PartitionLag(partition=partition, committed=committed)
    try:
        bounds = cluster.bounds(partition)
        end = bounds.readable_end(isolation)
        unread = max(committed.offset, bounds.log_start_offset)
        known = replace(
            known,
            log_start_offset=bounds.log_start_offset,
            log_end_offset=end,
            behind_offsets=max(0, end - committed.offset),
            lost_offsets=max(0, bounds.log_start_offset - committed.offset),
        )
        known = replace(known, behind_bytes=cluster.bytes_between(partition, unread, end) if unread < end else 0)
        return replace(known, behind_ms=_behind_ms(cluster, partition, unread, end, now_ms, isolation))
    except GONE:
        return PartitionLag(partition=partition, committed=committed)
    except UNREADABLE_LAG_ERRORS as error:
        return replace(known, error=error.message)


def _behind_ms(
    cluster: Cluster, partition: TopicPartition, unread: int, end: int, now_ms: int, isolation: IsolationLevel
) -> int | None:
    """The age of the first unread record by its timestamp; 0 for a timestamp in the future."""
    aborted = AbortedFilter() if isolation is IsolationLevel.READ_COMMITTED else None
    for _ in range(MAX_FETCH_COUNT):
        if unread >= end:
            return 0
        fetched = cluster.fetch(partition, unread, max_bytes=FETCH_BYTES, isolation=isolation)
        if aborted is not None:
            aborted.add(fetched.aborted_transactions)
        decoded = decode(
            fetched.buffer,
            from_offset=unread,
            until_offset=end,
            columns=frozenset({"timestamp"}),
            aborted=aborted,
            max_rows=1,
        )
        if decoded.record_batch.num_rows:
            timestamp_us = decoded.record_batch.column("timestamp").cast(pa.int64())[0].as_py()
            return max(0, now_ms - int(timestamp_us) // 1000)
        unread = decoded.next_offset if len(fetched.buffer) else fetched.next_offset
    return None
