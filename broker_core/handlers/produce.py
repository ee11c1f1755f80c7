"""Produce (0), versions 3 to 13: one batch for each partition, appended and acknowledged when it is durable.

acks 0     nothing is answered; trouble closes the connection, so that the client looks for the leader anew
acks 1     answered when it is durable: an ack waits for the disk (flush.policy=batch)
acks -1    the same, or REQUEST_TIMED_OUT after the request's timeout: it may still become durable

Exactly one batch of format 2 for each partition, zstd from version 7 on. A batch that says of itself that it is
transactional needs a transactional id and write access to it, and is verified with the transaction's coordinator; from
version 12 on that adds its partition to the transaction (KIP-890). Internal topics are written by the node alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.broker.replica import Replica
from broker_core.cluster import AppendResult
from broker_core.handlers.call import Call
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.durations import milliseconds_of
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import CompressionType, ProducerIdAndEpoch, TopicPartition
from broker_core.model.topic_name import is_internal_topic
from broker_core.record.batch_header import (
    HEADER_BYTES,
    LAST_OFFSET_DELTA_POSITION,
    LEAST_LEGACY_LENGTH,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MAGIC_POSITION,
    RECORD_COUNT_POSITION,
    BatchHeader,
    WritableBytes,
    read_header,
)

_FIRST_VERSION_WITH_ZSTD: Final = 7
_FIRST_VERSION_WITH_ABORTABLE: Final = 11
_FIRST_VERSION_THAT_ADDS_PARTITIONS: Final = 12
_ALL_ACKS: Final = (-1, 0, 1)
_NO_OFFSET: Final = -1
_SIGN_BIT: Final = 0x80
_WITHOUT_LOG_START: Final = frozenset(
    {ErrorCode.message_too_large, ErrorCode.corrupt_message, ErrorCode.kafka_storage_error}
)
"""Refusals that Kafka gives without the partition's log start."""


class _Place(NamedTuple):
    """Where the answer for a partition belongs: the topic as the request names it, and the partition's number."""

    topic: str | UUID
    number: int


class _Batch(NamedTuple):
    place: _Place
    replica: Replica
    records: WritableBytes
    header: BatchHeader


class _Refused(Exception):
    def __init__(self, error_code: ErrorCode, message: str | None = None, log_start_offset: int = _NO_OFFSET) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.log_start_offset = log_start_offset
        self.message = message


def handle(call: Call) -> None:
    if call.message.acks not in _ALL_ACKS:
        _Produce(call).refuse_all(ErrorCode.invalid_required_acks)
        return
    _Produce(call).begin()


class _Produce:
    """One request: collects an answer for each partition, and answers when it has them all."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._with_ids = hasattr(call.message.topic_data[0], "topic_id") if call.message.topic_data else False
        self._places: dict[_Place, None] = {}
        """An ordered set."""
        self._answers: dict[_Place, dict[str, Any]] = {}
        self._timer_key = ("produce", id(self))

    def begin(self) -> None:
        batches: list[_Batch] = []
        writable: dict[str, bool] = {}
        # Of a partition that is there twice, the last counts, as in Kafka.
        wanted: dict[_Place, memoryview | None] = {}
        for topic in self._call.message.topic_data:
            named: str | UUID = topic.topic_id if self._with_ids else topic.name
            wanted |= {_Place(named, partition.index): partition.records for partition in topic.partition_data}
        for place, records in wanted.items():
            self._places[place] = None
            try:
                batches.append(self._checked(place, records, writable))
            except _Refused as refused:
                self._refuse(
                    place,
                    error_code=refused.error_code,
                    error_message=refused.message,
                    log_start_offset=refused.log_start_offset,
                )
            except StreamlogError as trouble:
                self._refuse(place, error_code=trouble.error_code, error_message=trouble.message)
        transactional = [batch for batch in batches if batch.header.is_transactional]
        if transactional and not self._may_write_transaction():
            for place in self._places:
                self._refuse(place, error_code=ErrorCode.transactional_id_authorization_failed)
            self._maybe_respond()
            return
        if transactional:
            self._verify_and_append(batches, transactional)
        else:
            self._append(batches, {})

    def refuse_all(self, error_code: ErrorCode) -> None:
        for topic in self._call.message.topic_data:
            for partition in topic.partition_data:
                place = _Place(topic.topic_id if self._with_ids else topic.name, partition.index)
                self._places[place] = None
                self._refuse(place, error_code=error_code)
        self._maybe_respond()

    def _checked(self, place: _Place, records: memoryview | None, writable: dict[str, bool]) -> _Batch:
        """Raises _Refused, StreamlogError."""
        name = self._topic_name(place)
        if name not in writable:
            writable[name] = self._call.is_allowed(Operation.WRITE, ResourceType.TOPIC, name)
        if not writable[name]:
            raise _Refused(ErrorCode.topic_authorization_failed)
        if is_internal_topic(name):
            raise _Refused(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {name}")
        replica = self._call.node.replicas.get(TopicPartition(name, place.number))
        header = self._one_batch(records, replica)
        batch = memoryview(records or b"")[: header.size_bytes]
        # Where the request's own memory may be written to, the batch gets its place there.
        return _Batch(place, replica, bytearray(batch) if batch.readonly else batch, header)

    def _topic_name(self, place: _Place) -> str:
        if isinstance(place.topic, str):
            return place.topic
        topic = self._call.node.topics.image.topic_by_id(place.topic) if place.topic is not None else None
        if topic is None:
            raise _Refused(ErrorCode.unknown_topic_id)
        return topic.name

    def _one_batch(self, records: memoryview | None, replica: Replica) -> BatchHeader:
        version = self._call.version
        if records and _is_one_batch(records) and version >= _FIRST_VERSION_WITH_ZSTD:
            return read_header(records)
        if not records:
            raise _Refused(
                ErrorCode.invalid_record,
                f"Produce requests with version {version} must have at least one record batch per partition",
            )
        if not _begins_a_batch(records):
            raise _Refused(ErrorCode.invalid_record, f"{len(records)} bytes hold no whole record batch")
        if _batch_length(records) >= LEAST_LEGACY_LENGTH and records[MAGIC_POSITION] < MAGIC:
            raise _Refused(
                ErrorCode.invalid_record,
                f"Produce requests with version {version} are only allowed to contain record batches with magic"
                " version 2",
            )
        if _has_negative_count(records):
            raise _Refused(
                ErrorCode.invalid_record,
                "a batch with a negative last offset delta or record count",
                replica.bounds.log_start_offset,
            )
        header = read_header(records)
        if header.compression_type is CompressionType.ZSTD and version < _FIRST_VERSION_WITH_ZSTD:
            raise _Refused(
                ErrorCode.unsupported_compression_type,
                f"Produce requests with version {version} are not allowed to use ZStandard compression",
            )
        # What follows and is no whole batch is passed over, as in Kafka.
        if _begins_a_batch(records[header.size_bytes :]):
            raise _Refused(
                ErrorCode.invalid_record,
                f"Produce requests with version {version} are only allowed to contain exactly one record batch per"
                " partition",
            )
        return header

    def _may_write_transaction(self) -> bool:
        transactional_id = self._call.message.transactional_id
        return transactional_id is not None and self._call.is_allowed(
            Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )

    def _verify_and_append(self, batches: list[_Batch], transactional: list[_Batch]) -> None:
        if self._call.message.transactional_id == "":
            for batch in transactional:
                self._refuse(
                    batch.place, error_code=ErrorCode.invalid_request, error_message="an empty transactional id"
                )
            self._append([batch for batch in batches if not batch.header.is_transactional], {})
            return
        producers = {(batch.header.producer_id, batch.header.producer_epoch) for batch in transactional}
        if len(producers) > 1:
            for batch in transactional:
                self._refuse(batch.place, error_code=ErrorCode.invalid_request, error_message="several producers")
            self._append([batch for batch in batches if not batch.header.is_transactional], {})
            return
        ((producer_id, producer_epoch),) = producers
        self._call.node.transactions.prepare_append(
            transactional_id=self._call.message.transactional_id,
            producer=ProducerIdAndEpoch(producer_id=producer_id, producer_epoch=producer_epoch),
            partitions=[batch.replica.topic_partition for batch in transactional],
            adds=self._call.version >= _FIRST_VERSION_THAT_ADDS_PARTITIONS,
            knows_abortable=self._call.version >= _FIRST_VERSION_WITH_ABORTABLE,
            on_ready=lambda errors: self._append(batches, errors),
        )

    def _append(self, batches: list[_Batch], errors: Mapping[TopicPartition, ErrorCode]) -> None:
        if batches and self._call.message.acks == -1:
            timeout_ms = milliseconds_of(self._call.message.timeout)
            at_ms = self._call.now_ms + max(0, timeout_ms)
            self._call.node.timers.set(self._timer_key, at_ms, lambda now_ms: self._time_is_up())
        for batch in batches:
            error_code = errors.get(batch.replica.topic_partition)
            if error_code is not None and batch.header.is_transactional:
                self._refuse(batch.place, error_code=error_code)
            else:
                self._append_one(batch)
        self._maybe_respond()

    def _append_one(self, batch: _Batch) -> None:
        def done(result: AppendResult) -> None:
            self._answers[batch.place] = {
                "index": batch.place.number,
                "error_code": ErrorCode.none,
                "base_offset": result.base_offset,
                "log_append_time": result.log_append_time_ms,
                "log_start_offset": batch.replica.bounds.log_start_offset,
            }
            self._maybe_respond()

        def failed(trouble: StreamlogError) -> None:
            self._refuse(
                batch.place,
                error_code=trouble.error_code,
                error_message=trouble.message,
                log_start_offset=(
                    _NO_OFFSET if trouble.error_code in _WITHOUT_LOG_START else batch.replica.bounds.log_start_offset
                ),
            )
            self._maybe_respond()

        batch.replica.append(
            batch.records, origin=AppendOrigin.CLIENT, header=batch.header, on_done=done, on_trouble=failed
        )

    def _time_is_up(self) -> None:
        for place in self._places:
            if place not in self._answers:
                self._refuse(place, ErrorCode.request_timed_out)
        self._maybe_respond()

    def _refuse(
        self,
        place: _Place,
        error_code: ErrorCode,
        error_message: str | None = None,
        log_start_offset: int = _NO_OFFSET,
    ) -> None:
        self._answers[place] = {
            "index": place.number,
            "error_code": error_code,
            "error_message": error_message,
            "base_offset": _NO_OFFSET,
            "log_append_time": -1,
            "log_start_offset": log_start_offset,
        }

    def _maybe_respond(self) -> None:
        if self._call.is_answered or len(self._answers) < len(self._places):
            return
        self._call.node.timers.cancel(self._timer_key)
        if self._call.message.acks == 0:
            troubles = [answer["error_code"] for answer in self._answers.values() if answer["error_code"].value]
            if troubles:
                self._call.close_connection(f"a produce with acks=0 failed: {troubles[0].name}")
            else:
                self._call.respond_nothing()
            return
        topics: dict[Any, list[dict[str, Any]]] = {}
        for place in self._places:
            topics.setdefault(place.topic, []).append(self._answers[place])
        key = "topic_id" if self._with_ids else "name"
        self._call.respond(responses=[{key: topic, "partition_responses": each} for topic, each in topics.items()])


def _batch_length(records: memoryview) -> int:
    return int.from_bytes(records[LENGTH_PREFIX_BYTES - 4 : LENGTH_PREFIX_BYTES], "big", signed=True)


def _is_one_batch(records: memoryview) -> bool:
    """What nearly every request holds, and nothing that needs a second look."""
    return (
        len(records) > MAGIC_POSITION
        and records[MAGIC_POSITION] == MAGIC
        and _batch_length(records) + LENGTH_PREFIX_BYTES == len(records)
        and not _has_negative_count(records)
    )


def _has_negative_count(records: memoryview) -> bool:
    return len(records) >= HEADER_BYTES and bool(
        (records[LAST_OFFSET_DELTA_POSITION] | records[RECORD_COUNT_POSITION]) & _SIGN_BIT
    )


def _begins_a_batch(records: memoryview) -> bool:
    """Whether there is one that is whole, or one that claims to be too small to be one: Kafka's order of looking."""
    if len(records) < LENGTH_PREFIX_BYTES:
        return False
    batch_length = _batch_length(records)
    if batch_length < LEAST_LEGACY_LENGTH:
        return True
    if len(records) <= MAGIC_POSITION:
        return False
    return records[MAGIC_POSITION] > MAGIC or batch_length + LENGTH_PREFIX_BYTES <= len(records)
