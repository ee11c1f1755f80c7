"""The coordinator of transactions and groups for a ScriptedBroker: a few dictionaries that answer as Kafka does."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i64
from support.brokers.scripted_broker import NO_TIME, schema_of

from broker_core.protocol.api_table import ApiKey

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class ScriptedTransaction:
    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    timeout: timedelta = timedelta(seconds=60)
    partitions: set = field(default_factory=set)
    pending: dict = field(default_factory=dict)
    """(group, topic, number) -> (offset, metadata)"""
    markers_left: int = 0
    """How many more descriptions show the transaction as not complete yet."""


class ScriptedCoordinator:
    def __init__(self, broker):
        self.entries = {}
        self.offsets = {}
        self._next_producer_id = 100
        for key, answer in {
            ApiKey.INIT_PRODUCER_ID: self.init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self.commit_in_transaction,
            ApiKey.END_TXN: self.end,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe,
            ApiKey.LIST_TRANSACTIONS: self.list_all,
            ApiKey.OFFSET_COMMIT: self.commit,
            ApiKey.OFFSET_FETCH: self.fetch,
        }.items():
            broker.script(key, answer)

    def init(self, request):
        message = request.message
        name = message.transactional_id
        schema = schema_of(ApiKey.INIT_PRODUCER_ID, request.api_version)
        if name is None:
            self._next_producer_id += 1
            return schema.InitProducerIdResponse(
                throttle_time=NO_TIME,
                error_code=ErrorCode.none,
                producer_id=self._next_producer_id,
                producer_epoch=i16(0),
            )
        if message.transaction_timeout > timedelta(minutes=15):
            return schema.InitProducerIdResponse(
                throttle_time=NO_TIME, error_code=ErrorCode.invalid_transaction_timeout, producer_epoch=i16(-1)
            )
        entry = self.entries.get(name)
        if entry is not None and entry.state == "Ongoing":
            entry.epoch += 1
            self._finish(entry, commit=False)
            return schema.InitProducerIdResponse(
                throttle_time=NO_TIME, error_code=ErrorCode.concurrent_transactions, producer_epoch=i16(-1)
            )
        if entry is None:
            self._next_producer_id += 1
            entry = self.entries[name] = ScriptedTransaction(producer_id=self._next_producer_id, epoch=-1)
        entry.epoch += 1
        entry.state = "Empty"
        entry.timeout = message.transaction_timeout
        return schema.InitProducerIdResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            producer_id=ProducerId(entry.producer_id),
            producer_epoch=i16(entry.epoch),
        )

    def add_partitions(self, request):
        message = request.message
        schema = schema_of(ApiKey.ADD_PARTITIONS_TO_TXN, 3)
        code = self._check(message.v3_and_below_transactional_id, message.v3_and_below_producer_id,
                           message.v3_and_below_producer_epoch)  # fmt: skip
        if code is ErrorCode.none:
            entry = self.entries[message.v3_and_below_transactional_id]
            entry.state = "Ongoing"
            entry.partitions |= {(topic.name, one) for topic in message.v3_and_below_topics for one in topic.partitions}
        return schema.AddPartitionsToTxnResponse(
            throttle_time=NO_TIME,
            results_by_topic_v3_and_below=tuple(
                schema.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        schema.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                        for number in topic.partitions
                    ),
                )
                for topic in message.v3_and_below_topics
            ),
        )

    def add_offsets(self, request):
        message = request.message
        code = self._check(message.transactional_id, message.producer_id, message.producer_epoch)
        if code is ErrorCode.none:
            self.entries[message.transactional_id].state = "Ongoing"
        return schema_of(ApiKey.ADD_OFFSETS_TO_TXN, 3).AddOffsetsToTxnResponse(throttle_time=NO_TIME, error_code=code)

    def commit_in_transaction(self, request):
        message = request.message
        entry = self.entries[message.transactional_id]
        for topic in message.topics:
            for one in topic.partitions:
                key = (message.group_id, topic.name, one.partition_index)
                entry.pending[key] = (one.committed_offset, one.committed_metadata)
        return self._committed(message, schema_of(ApiKey.TXN_OFFSET_COMMIT, 3), "TxnOffsetCommitResponse")

    def end(self, request):
        """From version 5 on each end raises the epoch, an abort of nothing is an end too, and an end with the epoch
        before it is the same one asked for again."""
        message = request.message
        code = self._check(message.transactional_id, message.producer_id, message.producer_epoch)
        entry = self.entries.get(message.transactional_id)
        done = "CompleteCommit" if message.committed else "CompleteAbort"
        raises_epoch = request.api_version >= 5
        is_repeated = raises_epoch and entry is not None and message.producer_epoch == entry.epoch - 1
        if code is ErrorCode.producer_fenced and is_repeated and entry.state.startswith("Complete"):
            code = ErrorCode.none if entry.state == done else ErrorCode.invalid_txn_state
        elif code is ErrorCode.none:
            ends_nothing = raises_epoch and not message.committed and entry.state != "Ongoing"
            if entry.state == "Ongoing" or ends_nothing:
                self._finish(entry, commit=message.committed)
                entry.epoch += raises_epoch
            elif entry.state != done:
                code = ErrorCode.invalid_txn_state
        return schema_of(ApiKey.END_TXN, request.api_version).EndTxnResponse(throttle_time=NO_TIME, error_code=code)

    def describe(self, request):
        schema = schema_of(ApiKey.DESCRIBE_TRANSACTIONS, 0)
        return schema.DescribeTransactionsResponse(
            throttle_time=NO_TIME,
            transaction_states=tuple(self._state(schema, name) for name in request.message.transactional_ids),
        )

    def list_all(self, request):
        schema = schema_of(ApiKey.LIST_TRANSACTIONS, request.api_version)
        wanted = request.message.state_filters
        return schema.ListTransactionsResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            transaction_states=tuple(
                schema.TransactionState(
                    transactional_id=TransactionalId(name),
                    producer_id=ProducerId(entry.producer_id),
                    transaction_state=entry.state,
                )
                for name, entry in self.entries.items()
                if not wanted or entry.state in wanted
            ),
        )

    def commit(self, request):
        message = request.message
        for topic in message.topics:
            for one in topic.partitions:
                key = (message.group_id, topic.name, one.partition_index)
                self.offsets[key] = (one.committed_offset, one.committed_metadata)
        return self._committed(message, schema_of(ApiKey.OFFSET_COMMIT, 8), "OffsetCommitResponse")

    def fetch(self, request):
        message = request.message
        schema = schema_of(ApiKey.OFFSET_FETCH, 7)
        group = message.group_id
        pending = {key for entry in self.entries.values() for key in entry.pending}
        if message.topics is None:
            asked = sorted({(topic, number) for name, topic, number in self.offsets if name == group})
        else:
            asked = [(topic.name, number) for topic in message.topics for number in topic.partition_indexes]
        entries = []
        for topic, number in asked:
            offset, metadata = self.offsets.get((group, topic, number), (-1, ""))
            is_unstable = message.require_stable and (group, topic, number) in pending
            one = schema.OffsetFetchResponsePartition(
                partition_index=i32(number),
                committed_offset=i64(-1 if is_unstable else offset),
                metadata=metadata,
                error_code=ErrorCode.unstable_offset_commit if is_unstable else ErrorCode.none,
            )
            entries.append(schema.OffsetFetchResponseTopic(name=TopicName(topic), partitions=(one,)))
        return schema.OffsetFetchResponse(throttle_time=NO_TIME, topics=tuple(entries))

    def _check(self, name, producer_id, epoch):
        entry = self.entries.get(name)
        if entry is None or entry.producer_id != producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return ErrorCode.none if entry.epoch == epoch else ErrorCode.producer_fenced

    def _finish(self, entry, *, commit):
        entry.state = "CompleteCommit" if commit else "CompleteAbort"
        if commit:
            self.offsets.update(entry.pending)
        entry.pending.clear()
        entry.partitions.clear()

    def _committed(self, message, schema, name):
        return getattr(schema, name)(
            throttle_time=NO_TIME,
            topics=tuple(
                getattr(schema, f"{name}Topic")(
                    name=topic.name,
                    partitions=tuple(
                        getattr(schema, f"{name}Partition")(
                            partition_index=one.partition_index, error_code=ErrorCode.none
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in message.topics
            ),
        )

    def _state(self, schema, name):
        entry = self.entries.get(name)
        if entry is None:
            return schema.TransactionState(
                error_code=ErrorCode.transactional_id_not_found, transactional_id=name, transaction_state="",
                transaction_timeout=NO_TIME, transaction_start_time=_EPOCH - timedelta(milliseconds=1),
                producer_id=ProducerId(-1), producer_epoch=i16(-1), topics=(),
            )  # fmt: skip
        state = entry.state
        if state.startswith("Complete") and entry.markers_left:
            entry.markers_left -= 1
            state = state.replace("Complete", "Prepare")
        by_topic = {}
        for topic, number in sorted(entry.partitions):
            by_topic.setdefault(topic, []).append(i32(number))
        return schema.TransactionState(
            error_code=ErrorCode.none,
            transactional_id=name,
            transaction_state=state,
            transaction_timeout=entry.timeout,
            transaction_start_time=_EPOCH + timedelta(milliseconds=5 if state == "Ongoing" else -1),
            producer_id=ProducerId(entry.producer_id),
            producer_epoch=i16(entry.epoch),
            topics=tuple(schema.TopicData(topic=name, partitions=tuple(found)) for name, found in by_topic.items()),
        )
