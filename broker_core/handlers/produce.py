"""Produce (0), versions 3 to 13: one batch for each partition, appended and acknowledged when it is durable.

acks 0     nothing is answered; an error closes the connection, so that the client looks the leader up again
acks 1     answered when it is durable: an ack waits for the disk (flush.policy=batch)
acks -1    the same, or REQUEST_TIMED_OUT after the request's timeout: it may still become durable

Exactly one batch of format 2 for each partition, zstd from version 7 on; a length or a magic that no batch can have
costs the whole request (see `produced_batch`). A batch that says of itself that it is transactional needs a
transactional id and write access to it, and is verified with the transaction's coordinator; from version 12 on that
adds its partition to the transaction (KIP-890). Internal topics are written by the node alone.

Of a partition that a request names twice, the last batch counts, and null records before it are ignored. If one of the
others is no single whole batch, the partition is refused, and nothing is appended to it. This differs on purpose from
Kafka 4.3.1: it gives the same answer in all versions, but appends a good batch, whether before or after the bad one, so
a client that sends it again after the error has it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.broker.partition.replica import Replica
from broker_core.cluster import AppendResult
from broker_core.handlers.call import Call
from broker_core.handlers.produced_batch import NO_OFFSET, Refused, only_batch, refusal_of_all, require_one_batch
from broker_core.log.append_request import AppendRequest
from broker_core.log.record_refusals import summary_of
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.durations import milliseconds_of
from broker_core.model.exceptions import InvalidRecordError, StreamlogError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.record_error import RecordError
from broker_core.model.topic_name import is_internal_topic
from broker_core.record.batch_header import BatchHeader, WritableBytes

_FIRST_VERSION_WITH_ABORTABLE: Final = 11
_FIRST_VERSION_THAT_ADDS_PARTITIONS: Final = 12
_ALL_ACKS: Final = (-1, 0, 1)
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


def handle(call: Call) -> None:
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
        self._earlier: dict[_Place, list[memoryview]] = {}
        """Of a partition that is there more than once, all records but the last."""

    def begin(self) -> None:
        batches: list[_Batch] = []
        writable: dict[str, bool] = {}
        wanted: dict[_Place, memoryview | None] = {}
        for topic in self._call.message.topic_data:
            named: str | UUID = topic.topic_id if self._with_ids else topic.name
            for partition in topic.partition_data:
                place = _Place(named, partition.index)
                earlier = wanted.get(place)
                if earlier is not None:
                    self._earlier.setdefault(place, []).append(earlier)
                wanted[place] = partition.records
        whole: Refused | None = None
        for place, records in wanted.items():
            self._places[place] = None
            try:
                batches.append(self._checked(place, records, writable))
            except Refused as refused:
                self._refuse(
                    place,
                    error_code=refused.error_code,
                    error_message=refused.message,
                    log_start_offset=refused.log_start_offset,
                )
                whole = refused if refused.is_of_all else whole
            except StreamlogError as error:
                self._refuse(place, error_code=error.error_code, error_message=error.message)
        if self._answers:
            # Seldom: what Kafka looks for first is looked for only where something was found.
            whole = refusal_of_all(self._call.message.topic_data, self._may_write_transaction) or whole
        transactional = [batch for batch in batches if batch.header.is_transactional]
        if whole is None and transactional and not self._may_write_transaction():
            whole = Refused(ErrorCode.transactional_id_authorization_failed)
        if whole is not None:
            self._refuse_each(self._places, whole)
        elif self._call.message.acks not in _ALL_ACKS:
            self._refuse_each([batch.place for batch in batches], Refused(ErrorCode.invalid_required_acks))
        elif transactional:
            self._verify_and_append(batches, transactional)
        else:
            self._append(batches, {})

    def _refuse_each(self, places: Iterable[_Place], refused: Refused) -> None:
        for place in places:
            self._refuse(place, error_code=refused.error_code, error_message=refused.message)
        self._maybe_respond()

    def _checked(self, place: _Place, records: memoryview | None, writable: dict[str, bool]) -> _Batch:
        """Raises Refused, StreamlogError."""
        name = self._topic_name(place)
        if name not in writable:
            writable[name] = self._call.is_allowed(Operation.WRITE, ResourceType.TOPIC, name)
        if not writable[name]:
            raise Refused(ErrorCode.topic_authorization_failed)
        if is_internal_topic(name):
            raise Refused(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {name}")
        replica = self._call.node.replicas.get(TopicPartition(name, place.number))
        for earlier in self._earlier.get(place, ()):
            require_one_batch(earlier, self._call.version)
        header = only_batch(records, self._call.version, replica)
        batch = memoryview(records or b"")[: header.size_bytes]
        # Where the request's own memory may be written to, the batch gets its place there.
        return _Batch(place, replica, bytearray(batch) if batch.readonly else batch, header)

    def _topic_name(self, place: _Place) -> str:
        if isinstance(place.topic, str):
            return place.topic
        topic = self._call.node.topics.image.topic_by_id(place.topic) if place.topic is not None else None
        if topic is None:
            raise Refused(ErrorCode.unknown_topic_id)
        return topic.name

    def _may_write_transaction(self) -> bool:
        transactional_id = self._call.message.transactional_id
        return transactional_id is not None and self._call.is_allowed(
            Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )

    def _verify_and_append(self, batches: list[_Batch], transactional: list[_Batch]) -> None:
        if self._call.message.transactional_id == "":
            for batch in transactional:
                self._refuse(
                    batch.place, error_code=ErrorCode.invalid_request, error_message="the transactional id is empty"
                )
            self._append([batch for batch in batches if not batch.header.is_transactional], {})
            return
        producers = {(batch.header.producer_id, batch.header.producer_epoch) for batch in transactional}
        if len(producers) > 1:
            for batch in transactional:
                self._refuse(
                    batch.place,
                    error_code=ErrorCode.invalid_request,
                    error_message="the request holds batches of several producers",
                )
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

        def failed(error: StreamlogError) -> None:
            record_errors = error.record_errors if isinstance(error, InvalidRecordError) else ()
            self._refuse(
                batch.place,
                error_code=error.error_code,
                error_message=summary_of(error) if record_errors else error.message,
                record_errors=record_errors,
                log_start_offset=(
                    NO_OFFSET if error.error_code in _WITHOUT_LOG_START else batch.replica.bounds.log_start_offset
                ),
            )
            self._maybe_respond()

        batch.replica.append(
            AppendRequest(
                batches=batch.records,
                header=batch.header,
                on_done=done,
                on_error=failed,
                awaits_replication=self._call.message.acks == -1,
            )
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
        log_start_offset: int = NO_OFFSET,
        record_errors: Sequence[RecordError] = (),
    ) -> None:
        self._answers[place] = {
            "index": place.number,
            "error_code": error_code,
            "error_message": error_message,
            "base_offset": NO_OFFSET,
            "log_append_time": -1,
            "log_start_offset": log_start_offset,
            "record_errors": [
                {"batch_index": error.index, "batch_index_error_message": error.message} for error in record_errors
            ],
        }

    def _maybe_respond(self) -> None:
        if self._call.is_answered or len(self._answers) < len(self._places):
            return
        self._call.node.timers.cancel(self._timer_key)
        if self._call.message.acks == 0:
            errors = [answer["error_code"] for answer in self._answers.values() if answer["error_code"].value]
            if errors:
                self._call.close_connection(f"a produce with acks=0 failed: {errors[0].name}")
            else:
                self._call.respond_nothing()
            return
        topics: dict[Any, list[dict[str, Any]]] = {}
        for place in self._places:
            topics.setdefault(place.topic, []).append(self._answers[place])
        key = "topic_id" if self._with_ids else "name"
        self._call.respond(responses=[{key: topic, "partition_responses": each} for topic, each in topics.items()])
