"""Fetches record batches of a partition from its leader.

A leader fills an answer to the byte, so the last batch may be cut off: it is dropped, and is the first one of the next
fetch. The first batch always fits; if a leader cuts it off too, it is fetched again with a larger limit. The result is
a view of the received bytes.

If the caller knows the topic's id, the request uses it (KIP-516, Kafka 3.1): the leader itself refuses a topic that was
recreated under the same name. For a broker that only supports names the id is checked after each fetch.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i64

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.client.offset_lookup import OffsetLookup
from broker_core.client.topic_identity import NO_TOPIC_ID, OTHER_TOPIC, require_topic
from broker_core.client.wire_values import duration, milliseconds
from broker_core.cluster import AbortedTransaction, FetchedBatches, PartitionBounds
from broker_core.model.exceptions import CorruptBatchError, OffsetOutOfRangeError, StreamlogError
from broker_core.model.fetch_start import FetchStart
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.protocol.api_table import ApiKey
from broker_core.record.batch_header import HEADER_BYTES, LENGTH_PREFIX_BYTES, read_header

NO_SESSION: Final = (0, -1)
"""Session id and epoch of a fetch without a session."""

BY_ID: Final = 13
"""The first version of Fetch with topic ids; older ones have names."""

_MAX_INT32: Final = 2**31 - 1
_SECOND_LOOK_MS: Final = 500
_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8


class RecordFetch:
    """See `Cluster.fetch`. `bounds` has the high watermark as the log end: brokers do not return more."""

    def __init__(self, router: BrokerRouter, offsets: OffsetLookup) -> None:
        self._router = router
        self._offsets = offsets

    def fetch(
        self,
        partition: TopicPartition,
        from_offset: int,
        max_bytes: int,
        isolation: IsolationLevel,
        topic_id: UUID | None = None,
    ) -> FetchedBatches:
        wanted_id = None if topic_id == NO_TOPIC_ID else topic_id

        def attempt(deadline: Deadline) -> FetchedBatches:
            found = self._ask(partition, from_offset, max_bytes, isolation, wanted_id, deadline)
            if len(found.buffer) or found.bounds.readable_end(isolation) <= from_offset:
                return found
            # No records below the end: a gap. Or the end moved just after the read, so fetch once more, and the
            # leader may wait for a record.
            again = self._ask(
                partition, from_offset, max_bytes, isolation, wanted_id, deadline, max_wait_ms=_SECOND_LOOK_MS
            )
            if len(again.buffer) or again.bounds.readable_end(isolation) <= from_offset:
                return again
            return FetchedBatches(
                buffer=memoryview(b""),
                next_offset=min(found.bounds.readable_end(isolation), again.bounds.readable_end(isolation)),
                bounds=again.bounds,
            )

        return self._router.run(f"fetch {partition} from offset {from_offset}", attempt)

    def fetch_several(
        self, starts: Mapping[TopicPartition, FetchStart], max_bytes: int, isolation: IsolationLevel
    ) -> dict[TopicPartition, FetchedBatches]:
        """See `ClusterClient.fetch_several`. Nothing is found at brokers that know topics by their names only."""
        found: dict[TopicPartition, FetchedBatches] = {}

        def attempt(deadline: Deadline) -> None:
            for leader, partitions in self._router.by_leader(starts, deadline).items():
                connection = self._router.node(leader, deadline)
                if not connection.supports(ApiKey.FETCH, BY_ID):
                    continue
                request = _request_several({tp: starts[tp] for tp in partitions}, max_bytes, isolation)
                (answer,) = connection.ask([request], deadline)
                names = {starts[tp].topic_id: tp.topic for tp in partitions}
                for topic in answer.responses if answer.error_code == ErrorCode.none else ():
                    for entry in topic.partitions if topic.topic_id in names else ():
                        partition = TopicPartition(names[topic.topic_id], entry.partition_index)
                        if entry.error_code == ErrorCode.none and entry.records:
                            fetched = _fetched(entry, starts[partition].from_offset)
                            if len(fetched.buffer):
                                found[partition] = fetched

        with suppress(StreamlogError):
            attempt(Deadline(self._router.settings.api_timeout_ms, setting="default.api.timeout.ms"))
        return found

    def _ask(
        self,
        partition: TopicPartition,
        from_offset: int,
        max_bytes: int,
        isolation: IsolationLevel,
        topic_id: UUID | None,
        deadline: Deadline,
        *,
        max_wait_ms: int = 0,
    ) -> FetchedBatches:
        """One answer, with records if there are any."""
        leader = self._router.leader_of(partition, deadline)
        while True:
            connection = self._router.node(leader, deadline)
            asked_id = topic_id if connection.supports(ApiKey.FETCH, BY_ID) else None
            request = _request(
                partition,
                asked_id,
                from_offset=from_offset,
                max_bytes=max_bytes,
                isolation=isolation,
                max_wait_ms=max_wait_ms,
            )
            (answer,) = connection.ask([request], deadline)
            if answer.error_code != ErrorCode.none:
                raise broker_error(answer.error_code, f"fetch {partition}")
            entry = answer.responses[0].partitions[0]
            if entry.error_code in OTHER_TOPIC:
                raise self._refusal_of_id(partition, topic_id, entry.error_code, deadline)
            if entry.error_code == ErrorCode.offset_out_of_range:
                raise self._out_of_range(partition, from_offset, deadline)
            if entry.error_code == ErrorCode.corrupt_message:
                raise _damaged(partition, from_offset)
            if entry.error_code != ErrorCode.none:
                raise broker_error(entry.error_code, f"fetch {partition}")
            if topic_id is not None and asked_id is None:
                # After the fetch, so that a recreated topic is noticed before its records are returned.
                require_topic(self._router, partition.topic, topic_id, deadline)
            # A broker sends no records while the quota is exceeded, and returns the throttle time.
            throttle_ms = milliseconds(answer.throttle_time)
            if not entry.records and throttle_ms and deadline.pause(throttle_ms / 1000):
                continue
            found = _fetched(entry, from_offset)
            if len(found.buffer) or not entry.records:
                return found
            max_bytes = _room_for_first_batch(partition, entry.records, max_bytes)

    def _refusal_of_id(
        self, partition: TopicPartition, topic_id: UUID | None, code: ErrorCode, deadline: Deadline
    ) -> StreamlogError:
        """A retriable error: the leader does not know the topic yet. Raises UnknownTopicError if the topic was deleted
        or recreated."""
        if topic_id is not None:
            require_topic(self._router, partition.topic, topic_id, deadline)
        return broker_error(code, f"fetch {partition}")

    def _out_of_range(self, partition: TopicPartition, offset: int, deadline: Deadline) -> OffsetOutOfRangeError:
        bounds = self._offsets.try_bounds(partition, deadline)
        return OffsetOutOfRangeError(
            f"{partition}: offset {offset} is outside the log, which holds offsets {bounds.log_start_offset} to "
            f"{bounds.log_end_offset}",
            offset=offset,
            log_start_offset=bounds.log_start_offset,
            log_end_offset=bounds.log_end_offset,
        )


def _damaged(partition: TopicPartition, from_offset: int) -> StreamlogError:
    """The answer does not say where the batch begins or ends."""
    return broker_error(
        ErrorCode.corrupt_message,
        f"fetch {partition} from offset {from_offset}",
        "the batch with this offset is damaged, and the broker does not serve it (CORRUPT_MESSAGE). The broker's log "
        "names the file, and so does 'streamlog log verify' with the broker's directory",
        offset=from_offset,
    )


def _request(
    partition: TopicPartition,
    topic_id: UUID | None,
    *,
    from_offset: int,
    max_bytes: int,
    isolation: IsolationLevel,
    max_wait_ms: int,
) -> Any:
    """Requests by the topic's id, or by its name if there is no id."""
    schema: Any
    named: dict[str, Any]
    if topic_id is not None:
        from kio.schema.fetch.v13 import request as schema

        named = {"topic_id": topic_id}
    else:
        from kio.schema.fetch.v12 import request as schema

        named = {"topic": TopicName(partition.topic)}
    limit = i32(max(1, min(max_bytes, _MAX_INT32)))
    session_id, session_epoch = NO_SESSION
    wanted = schema.FetchPartition(
        partition=i32(partition.partition), fetch_offset=i64(from_offset), partition_max_bytes=limit
    )
    return schema.FetchRequest(
        max_wait=duration(max_wait_ms),
        min_bytes=i32(1),
        max_bytes=limit,
        isolation_level=i8(isolation),
        session_id=i32(session_id),
        session_epoch=i32(session_epoch),
        topics=(schema.FetchTopic(**named, partitions=(wanted,)),),
        forgotten_topics_data=(),
    )


def _request_several(starts: Mapping[TopicPartition, FetchStart], max_bytes: int, isolation: IsolationLevel) -> Any:
    from kio.schema.fetch.v13 import request as schema

    limit = i32(max(1, min(max_bytes, _MAX_INT32)))
    # A share for each: behind one with much to read the others would get nothing.
    share = i32(max(1, limit // len(starts)))
    session_id, session_epoch = NO_SESSION
    by_topic: dict[UUID, list[Any]] = {}
    for partition, start in starts.items():
        wanted = schema.FetchPartition(
            partition=i32(partition.partition), fetch_offset=i64(start.from_offset), partition_max_bytes=share
        )
        by_topic.setdefault(start.topic_id, []).append(wanted)
    return schema.FetchRequest(
        max_wait=duration(0),
        min_bytes=i32(1),
        max_bytes=limit,
        isolation_level=i8(isolation),
        session_id=i32(session_id),
        session_epoch=i32(session_epoch),
        topics=tuple(schema.FetchTopic(topic_id=key, partitions=tuple(each)) for key, each in by_topic.items()),
        forgotten_topics_data=(),
    )


def _fetched(entry: Any, from_offset: int) -> FetchedBatches:
    last_stable = entry.last_stable_offset if entry.last_stable_offset >= 0 else entry.high_watermark
    buffer, next_offset = whole_batches(entry.records or memoryview(b""), from_offset)
    return FetchedBatches(
        buffer=buffer,
        next_offset=next_offset,
        bounds=PartitionBounds(
            log_start_offset=entry.log_start_offset,
            last_stable_offset=last_stable,
            high_watermark=entry.high_watermark,
            log_end_offset=entry.high_watermark,
        ),
        aborted_transactions=tuple(
            AbortedTransaction(producer_id=found.producer_id, first_offset=found.first_offset)
            for found in entry.aborted_transactions or ()
        ),
    )


def _room_for_first_batch(partition: TopicPartition, records: memoryview, max_bytes: int) -> int:
    """The byte limit that the next fetch needs, after one that returned only a part of a batch."""
    length = _LENGTH.unpack_from(records, _LENGTH_POSITION)[0] if len(records) >= LENGTH_PREFIX_BYTES else 0
    if length + LENGTH_PREFIX_BYTES <= max_bytes:
        raise CorruptBatchError(f"{partition}: the broker sent {len(records)} bytes without a whole batch")
    return int(length + LENGTH_PREFIX_BYTES)


def whole_batches(records: memoryview, from_offset: int) -> tuple[memoryview, int]:
    """(the batches up to the last whole one, the offset after them).

    Raises CorruptBatchError for a length that no batch has, UnsupportedFormatError for messages older than v2.
    """
    position, last, size = 0, -1, len(records)
    while size - position >= LENGTH_PREFIX_BYTES:
        (length,) = _LENGTH.unpack_from(records, position + _LENGTH_POSITION)
        if length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
            read_header(records, position)  # it says what is wrong
        if length > size - position - LENGTH_PREFIX_BYTES:
            break
        last, position = position, position + LENGTH_PREFIX_BYTES + length
    if last < 0:
        return memoryview(b""), from_offset
    return records[:position], read_header(records, last).next_offset
