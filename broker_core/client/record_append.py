"""Appends record batches to a partition, at its leader.

A produce request has one batch per partition. Several batches are sent in windows: up to MAX_IN_FLIGHT_REQUEST_COUNT
requests are in flight, and reach the leader in order. Each batch becomes durable by itself; if one fails, those before
it are written.

Nothing is written twice: a retry by a producer with an id has the same sequence numbers, so the leader recognises it
and answers with the original offsets. The first batch of such a producer is sent alone: a leader without state for it
would accept any sequence as the first. Batches without a producer id may be written twice if an answer is lost, as with
every Kafka producer without idempotence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.client.topic_identity import NO_TOPIC_ID, OTHER_TOPIC, require_topic
from broker_core.client.wire_values import milliseconds, remaining
from broker_core.cluster import AppendResult
from broker_core.model.exceptions import InvalidRecordError, StreamlogError
from broker_core.model.identifiers import NO_LEADER_EPOCH, TopicPartition
from broker_core.model.limits import MAX_IN_FLIGHT_REQUEST_COUNT
from broker_core.protocol.api_table import ApiKey
from broker_core.record.batch_header import BatchHeader, write_placement
from broker_core.record.batch_reader import iter_headers

_ALL_IN_SYNC: Final = i16(-1)
_BY_ID: Final = 13
"""The first version of Produce with topic ids; older ones have names."""


class RecordAppend:
    """See `Cluster.append`. Remembers the producers' transactional ids, which produce requests contain."""

    def __init__(self, router: BrokerRouter) -> None:
        self._router = router
        self._transactional_ids: dict[int, str] = {}

    def remember(self, producer_id: int, transactional_id: str) -> None:
        """Registers the producer's transactional id: a batch only holds the producer id."""
        self._transactional_ids[producer_id] = transactional_id

    def append(self, partition: TopicPartition, batches: bytearray, topic_id: UUID | None = None) -> AppendResult:
        wanted_id = None if topic_id == NO_TOPIC_ID else topic_id
        found = list(iter_headers(batches))
        _check(partition, batches, found)
        for position, _ in found:
            # A leader refuses a batch whose base offset is not 0.
            write_placement(batches, position, base_offset=0, leader_epoch=NO_LEADER_EPOCH)
        view = memoryview(batches)
        results: list[Any] = []

        def attempt(deadline: Deadline) -> None:
            while len(results) < len(found):
                self._append_window(partition, wanted_id, view, found, results, deadline)

        self._router.run(f"append to {partition}", attempt, timeout_ms=self._router.settings.delivery_timeout_ms)
        for (position, _), result in zip(found, results, strict=True):
            write_placement(batches, position, base_offset=result.base_offset, leader_epoch=NO_LEADER_EPOCH)
        return AppendResult(
            base_offset=results[0].base_offset,
            last_offset=results[-1].base_offset + found[-1][1].last_offset_delta,
            log_append_time_ms=milliseconds(results[0].log_append_time),
            is_duplicate=results[0].error_code == ErrorCode.duplicate_sequence_number,
        )

    def _append_window(
        self,
        partition: TopicPartition,
        topic_id: UUID | None,
        view: memoryview,
        found: Sequence[tuple[int, BatchHeader]],
        results: list[Any],
        deadline: Deadline,
    ) -> None:
        """Sends the next batches and notes the answers of the written ones. Raises for the first that was not
        written."""
        done = len(results)
        is_first_of_producer = found[done][1].base_sequence == 0
        is_idempotent = found[done][1].producer_id >= 0
        window = found[done : done + (MAX_IN_FLIGHT_REQUEST_COUNT if is_idempotent and not is_first_of_producer else 1)]
        leader = self._router.leader_of(partition, deadline)
        # With version 12 a transaction takes another course (KIP-890), which `remote_transactions` does not go.
        is_by_id = (
            topic_id is not None
            and not window[0][1].is_transactional
            and self._router.node(leader, deadline).supports(ApiKey.PRODUCE, _BY_ID)
        )
        if topic_id is not None and not is_by_id:
            require_topic(self._router, partition.topic, topic_id, deadline)
        requests = [
            self._request(
                partition,
                topic_id if is_by_id else None,
                header,
                view[position : position + header.size_bytes],
                deadline,
            )
            for position, header in window
        ]
        for answer in self._router.ask_node(leader, requests, deadline):
            entry = answer.responses[0].partition_responses[0]
            if entry.error_code in OTHER_TOPIC and topic_id is not None:
                # Otherwise the leader does not know the topic yet.
                require_topic(self._router, partition.topic, topic_id, deadline)
            if entry.error_code not in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                raise _refusal(partition, entry)
            results.append(entry)

    def _request(
        self,
        partition: TopicPartition,
        topic_id: UUID | None,
        header: BatchHeader,
        batch: memoryview,
        deadline: Deadline,
    ) -> Any:
        schema: Any
        named: dict[str, Any]
        if topic_id is not None:
            from kio.schema.produce.v13 import request as schema

            named = {"topic_id": topic_id}
        else:
            from kio.schema.produce.v9 import request as schema

            named = {"name": TopicName(partition.topic)}
        from kio.schema.types import TransactionalId

        transactional_id = self._transactional_ids.get(header.producer_id) if header.is_transactional else None
        if header.is_transactional and transactional_id is None:
            raise InvalidRecordError(
                f"{partition}: producer {header.producer_id} of a transactional batch was not initialized by"
                " this client"
            )
        records = cast(Records, batch)  # sent as it is
        data = schema.PartitionProduceData(index=i32(partition.partition), records=records)
        return schema.ProduceRequest(
            transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
            acks=_ALL_IN_SYNC,
            timeout=remaining(deadline, self._router.settings.request_timeout_ms),
            topic_data=(schema.TopicProduceData(**named, partition_data=(data,)),),
        )


def _check(partition: TopicPartition, batches: bytearray, found: Sequence[tuple[int, BatchHeader]]) -> None:
    end = found[-1][0] + found[-1][1].size_bytes if found else 0
    if not found:
        raise InvalidRecordError(f"{partition}: the append holds no batch")
    if end != len(batches):
        raise InvalidRecordError(f"{partition}: {len(batches) - end} bytes follow the last whole batch of the append")


def _refusal(partition: TopicPartition, entry: Any) -> StreamlogError:
    reasons = [found.batch_index_error_message for found in entry.record_errors if found.batch_index_error_message]
    message = entry.error_message or ""
    if reasons:
        message = f"{message} ({'; '.join(reasons[:3])})".strip()
    return broker_error(entry.error_code, f"append to {partition}", message or None)
