"""How far a consumer group is behind, per partition: in offsets, in bytes and in time.

    committed ─────────────┐           ┌─ first record that the group has not seen, and may see
    log start ──┐          │           │                          ┌─ readable end
    ────────────●━━━━━━━━━━●━━━━━━━━━━━●━━━━━━━━━━━━━━━━━━━━━━━━━━●──────────────
                           └── behind_offsets, behind_bytes ──────┘
                                       └── behind_ms: from its timestamp until now

Offsets are not records: markers, aborted transactions and compaction take some that no reader gets. A group whose rest
is nothing but such offsets is behind by offsets, and by 0 ms. What lies below the log start was removed unread: it
counts as offsets behind, as Kafka's tools count it, and again as `lost_offsets`.

What one partition does not tell leaves the others alone: its numbers are None, and `error` says why.

What a sink has decided is left out: it stands where its group commits for an internal topic, and is no place to read
from. An ordinary group that reads an internal topic is behind like any other.
"""

from __future__ import annotations

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
from broker_core.model.identifiers import SINK_GROUP_PREFIX, IsolationLevel, TopicPartition
from broker_core.model.topic_name import is_internal_topic
from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.columns import decode

FETCH_BYTES: Final = 64 * 1024
MAX_FETCH_COUNT: Final = 64
"""How far the first unread record is looked for, behind markers and aborted records: this many fetches."""

GONE: Final = (UnknownTopicError, UnknownPartitionError)
NOT_TOLD: Final = (InvalidRequestError, AuthorizationError, BrokerError, RequestTimedOutError, CorruptDataError)
"""An error with one partition: a name that none can have, a missing right, no leader, damage. A broker that cannot be
reached is an error with all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """All but the first two are None when the partition does not exist any more.

    `log_end_offset` is the readable one. `behind_ms` is None, too, when no unread record was found within the bound of
    the search. `error`: why what is None is not known, where somebody said it.
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
    """Of every partition that the group has an offset for, ordered. Raises UnknownGroupError when it has none at all.

    `isolation` is that of the group's readers: what they may not see yet, they are not behind.
    """
    committed = cluster.fetch_offsets(group_id)
    if not committed:
        raise UnknownGroupError(f"Group {group_id!r} has no committed offsets.", group_id=group_id)
    is_sink = group_id.startswith(SINK_GROUP_PREFIX)
    return tuple(
        _lag(cluster, partition, committed[partition], now_ms, isolation)
        for partition in sorted(committed)
        if not (is_sink and is_internal_topic(partition.topic))
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
    except NOT_TOLD as error:
        return replace(known, error=error.message)


def _behind_ms(
    cluster: Cluster, partition: TopicPartition, unread: int, end: int, now_ms: int, isolation: IsolationLevel
) -> int | None:
    """How long ago the first unread record was written, by its timestamp; one of the future is as of now."""
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
