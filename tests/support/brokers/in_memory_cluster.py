"""A Cluster in a few lists: the tiny twin that planners and readers are tested with, without files and Spark.

It stores real batches, so readers decode real bytes. `before_fetch` is a hook to change the log between two steps of a
reader; a test that sets it asserts that it was called.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from support.brokers.in_memory_transactions import InMemoryTransactions
from support.builders.append_records import append_values

from broker_core.cluster import (
    AbortedTransaction,
    AppendResult,
    FetchedBatches,
    GroupDescription,
    GroupOffset,
    KeyRanges,
    OffsetAndTimestamp,
    PartitionBounds,
    SegmentDescription,
    TopicDescription,
    TransactionalProducer,
    TransactionDescription,
)
from broker_core.model.exceptions import (
    OffsetOutOfRangeError,
    TopicExistsError,
    TopicRecreatedError,
    UnknownGroupError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, ProducerIdAndEpoch, TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.record.batch_header import BatchHeader, read_header, write_placement
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.record.control_records import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
    read_control_type,
)

_ID_SPACE = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


@dataclass(slots=True)
class _Partition:
    batches: list[bytes] = field(default_factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 0


class InMemoryCluster:
    def __init__(self, *, now_ms: Callable[[], int] = lambda: 0, ends_together: bool = True) -> None:
        self.ends_together = ends_together
        self.is_auto_creating: bool | None = True
        self.between_ends: Callable[[], None] = lambda: None
        self._topics: dict[str, TopicDescription] = {}
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._ids = itertools.count()
        self.transactions = InMemoryTransactions(
            now_ms=now_ms,
            next_producer_id=lambda: next(self._ids),
            write_marker=lambda where, producer_id, epoch, is_commit: self.write_marker(
                where.topic, producer_id, is_commit=is_commit, partition=where.partition, producer_epoch=epoch
            ),
            store_offsets=lambda group, offsets: self._group_offsets.setdefault(group, {}).update(offsets),
        )
        self.before_fetch: Callable[[TopicPartition, int], None] | None = None
        self.fetch_count = 0
        self._group_offsets: dict[str, dict[TopicPartition, GroupOffset]] = {}
        self.before_commit_offsets: Callable[[], None] | None = None
        self.before_append: Callable[[], None] | None = None

    # -- Cluster --

    def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        return {name: topic for name, topic in self._topics.items() if names is None or name in names}

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        configs: Mapping[str, str] | None = None,
        is_internal: bool = False,
    ) -> TopicDescription:
        if name in self._topics:
            raise TopicExistsError(f"the topic {name} exists")
        topic_id = uuid5(_ID_SPACE, f"{name} {next(self._ids)}")
        topic = TopicDescription(
            name=name, topic_id=topic_id, partition_count=0, configs=configs or {}, is_internal=is_internal
        )
        self._topics[name] = topic
        return self.create_partitions(name, partition_count or 1)

    def auto_creates_topics(self) -> bool | None:
        return self.is_auto_creating

    def delete_topic(self, name: str) -> None:
        topic = self._topics.pop(name)
        for number in range(topic.partition_count):
            del self._partitions[TopicPartition(name, number)]
        # As a broker does: groups have no offsets in a topic that is gone.
        for group, offsets in self._group_offsets.items():
            self._group_offsets[group] = {tp: stored for tp, stored in offsets.items() if tp.topic != name}

    def create_partitions(self, name: str, total_count: int) -> TopicDescription:
        topic = self._topics[name]
        for number in range(topic.partition_count, total_count):
            self._partitions[TopicPartition(name, number)] = _Partition()
        self._topics[name] = TopicDescription(
            name=name,
            topic_id=topic.topic_id,
            partition_count=total_count,
            configs=topic.configs,
            is_internal=topic.is_internal,
        )
        return self._topics[name]

    def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        raise NotImplementedError

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return {tp: self._find_offset(tp, wanted, isolation) for tp, wanted in partitions.items()}

    def bounds(self, partition: TopicPartition) -> PartitionBounds:
        log = self._log(partition)
        open_transactions: dict[int, int] = {}
        for header in self._headers(log):
            if header.is_control:
                open_transactions.pop(header.producer_id, None)
            elif header.is_transactional:
                open_transactions.setdefault(header.producer_id, header.base_offset)
        return PartitionBounds(
            log_start_offset=log.log_start_offset,
            last_stable_offset=min(open_transactions.values(), default=log.log_end_offset),
            high_watermark=log.log_end_offset,
            log_end_offset=log.log_end_offset,
        )

    def fetch(
        self,
        partition: TopicPartition,
        from_offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        topic_id: UUID | None = None,
    ) -> FetchedBatches:
        self.fetch_count += 1
        if self.before_fetch is not None:
            self.before_fetch(partition, from_offset)
        log, bounds = self._log(partition), self.bounds(partition)
        if topic_id is not None and self._topics[partition.topic].topic_id != topic_id:
            raise UnknownTopicError(f"the topic {partition.topic} is another one by now")
        if not bounds.log_start_offset <= from_offset <= bounds.log_end_offset:
            raise OffsetOutOfRangeError(f"{partition} has no offset {from_offset}", offset=from_offset)
        end = bounds.readable_end(isolation)
        taken = bytearray()
        next_offset = from_offset
        for batch in log.batches:
            header = read_header(batch)
            if header.last_offset < from_offset or header.base_offset >= end:
                continue
            if taken and len(taken) + len(batch) > max_bytes:
                break
            taken += batch
            next_offset = header.next_offset
        if not taken:
            next_offset = max(from_offset, end)
        is_committed = isolation is IsolationLevel.READ_COMMITTED
        return FetchedBatches(
            buffer=memoryview(bytes(taken)),
            next_offset=next_offset,
            bounds=bounds,
            aborted_transactions=self._aborted(log, from_offset) if is_committed else (),
        )

    def append(self, partition: TopicPartition, batches: bytearray, *, topic_id: UUID | None = None) -> AppendResult:
        if self.before_append is not None:
            self.before_append()
        if topic_id is not None and partition.topic in self._topics:
            self._require_id(partition.topic, topic_id)
        for _, header in iter_headers(batches):
            self.transactions.check_append(partition, header)
        return self._store(partition, batches)

    def _require_id(self, name: str, topic_id: UUID) -> None:
        if self._topics[name].topic_id != topic_id:
            raise TopicRecreatedError.of(name, topic_id)

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        log = self._log(partition)
        log.log_start_offset = log.log_end_offset if before_offset == -1 else before_offset
        log.batches = [b for b in log.batches if read_header(b).last_offset >= log.log_start_offset]
        return log.log_start_offset

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int:
        taken_bytes = 0
        reached = from_offset
        for batch, header in self._batches_between(partition, from_offset, until_offset):
            taken_bytes += len(batch)
            if reached > from_offset and taken_bytes > max_bytes:
                return reached
            reached = min(header.next_offset, until_offset)
        return until_offset

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        return sum(len(batch) for batch, _ in self._batches_between(partition, from_offset, until_offset))

    def describe_segments(self, partition: TopicPartition) -> tuple[SegmentDescription, ...]:
        """A segment per batch, the last one active."""
        log = self._log(partition)
        headers = self._headers(log)
        return tuple(
            SegmentDescription(
                base_offset=header.base_offset,
                next_offset=following.base_offset if following else log.log_end_offset,
                size_bytes=header.size_bytes,
                max_timestamp_ms=header.max_timestamp,
                is_active=following is None,
                path="",
            )
            for header, following in itertools.zip_longest(headers, headers[1:])
        )

    def ranges_with_key(
        self, partition: TopicPartition, key: bytes | None, from_offset: int, until_offset: int
    ) -> KeyRanges:
        """All but the batches without the key, the last of the log excepted: as exact as a filter can be."""
        ranges, wanted, skipped_bytes = [], from_offset, 0
        batches = self._batches_between(partition, from_offset, until_offset)
        for batch, header in batches:
            is_last = header.next_offset == self._log(partition).log_end_offset
            if is_last or header.is_control or any(record.key == key for record in records_of(batch, 0)):
                continue
            if wanted < header.base_offset:
                ranges.append((wanted, header.base_offset))
            wanted = header.next_offset
            skipped_bytes += len(batch)
        if wanted < until_offset:
            ranges.append((wanted, until_offset))
        return KeyRanges(ranges=tuple(ranges), skipped_bytes=skipped_bytes)

    # -- consumer groups --

    def list_groups(self) -> tuple[str, ...]:
        return tuple(sorted(self._group_offsets))

    def describe_group(self, group_id: str) -> GroupDescription:
        state = GroupState.EMPTY if group_id in self._group_offsets else GroupState.DEAD
        return GroupDescription(group_id=group_id, state=state)

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        *,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> None:
        if self.before_commit_offsets is not None:
            self.before_commit_offsets()
        for name, topic_id in (topic_ids or {}).items():
            self._require_id(name, topic_id)
        for partition in offsets:
            # The topic of the groups themselves is there without being made.
            if partition.topic != "__consumer_offsets":
                self._log(partition)
        self._group_offsets.setdefault(group_id, {}).update(offsets)

    def fetch_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        committed = self._group_offsets.get(group_id, {})
        return {tp: offset for tp, offset in committed.items() if partitions is None or tp in partitions}

    def delete_group(self, group_id: str) -> None:
        if group_id not in self._group_offsets:
            raise UnknownGroupError(f"the group {group_id} has no committed offsets")
        del self._group_offsets[group_id]

    # -- producers and transactions --

    def init_producer(
        self, transactional_id: str | None = None, *, timeout_ms: int = 60_000, is_two_phase: bool = False
    ) -> ProducerIdAndEpoch:
        if transactional_id is None:
            return ProducerIdAndEpoch(producer_id=next(self._ids), producer_epoch=0)
        assert not is_two_phase, "the twin has no two-phase transactions"
        return self.transactions.init_producer(transactional_id, timeout_ms)

    def add_partitions_to_transaction(
        self, producer: TransactionalProducer, partitions: Collection[TopicPartition]
    ) -> None:
        for partition in partitions:
            self._log(partition)
        self.transactions.add_partitions(producer, partitions)

    def commit_offsets_in_transaction(
        self, producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        self.transactions.commit_offsets(producer, group_id, offsets)

    def end_transaction(
        self, producer: TransactionalProducer, *, commit: bool, together_with: Sequence[TransactionalProducer] = ()
    ) -> None:
        if self.ends_together:
            self.transactions.end([producer, *together_with], commit=commit)
            return
        # As a client does it at a broker: after a look that each could be ended, one after the other.
        self.transactions.require_endable([producer, *together_with], commit=commit)
        for each in (producer, *together_with):
            self.transactions.end([each], commit=commit)
            self.between_ends()

    def abort_transaction(self, transactional_id: str) -> bool:
        return self.transactions.abort(transactional_id)

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        found = self.transactions.descriptions()
        return {name: found[name] for name in transactional_ids if name in found}

    def list_transactions(
        self, *, prefix: str = "", states: Collection[TransactionState] | None = None
    ) -> tuple[TransactionDescription, ...]:
        found = self.transactions.descriptions().values()
        return tuple(
            one for one in found if one.transactional_id.startswith(prefix) and (states is None or one.state in states)
        )

    def close(self) -> None:
        pass

    # -- for tests --

    def add(self, topic: str, *values: str | bytes | None, **given: Any) -> AppendResult:
        """See `append_values`."""
        return append_values(self, topic, *values, **given)

    def write_marker(
        self, topic: str, producer_id: int, *, is_commit: bool, partition: int = 0, producer_epoch: int = 0
    ) -> None:
        """Ends a transaction that was written without `init_producer`."""
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=1_000,
        )
        self._store(TopicPartition(topic, partition), marker)

    def compact_away(self, topic: str, *batch_numbers: int, partition: int = 0) -> None:
        """Removes whole batches and leaves gaps, as compaction does: the log start stays."""
        log = self._log(TopicPartition(topic, partition))
        log.batches = [batch for number, batch in enumerate(log.batches) if number not in batch_numbers]

    def truncate(self, topic: str, until_offset: int, *, partition: int = 0) -> None:
        """Cuts the log behind a batch that ends at `until_offset`: what unclean elections and restored backups do."""
        log = self._log(TopicPartition(topic, partition))
        log.batches = [batch for batch in log.batches if read_header(batch).next_offset <= until_offset]
        log.log_end_offset = until_offset

    # -- within --

    def _store(self, partition: TopicPartition, batches: bytearray) -> AppendResult:
        log = self._log(partition)
        base_offset = log.log_end_offset
        for position, header in list(iter_headers(batches)):
            write_placement(batches, position, base_offset=log.log_end_offset, leader_epoch=0)
            log.batches.append(bytes(batches[position : position + header.size_bytes]))
            log.log_end_offset += header.last_offset_delta + 1
        return AppendResult(base_offset=base_offset, last_offset=log.log_end_offset - 1)

    def _log(self, partition: TopicPartition) -> _Partition:
        if partition.topic not in self._topics:
            raise UnknownTopicError(f"the topic {partition.topic} does not exist")
        if partition not in self._partitions:
            raise UnknownPartitionError(f"the partition {partition} does not exist")
        return self._partitions[partition]

    def _batches_between(
        self, partition: TopicPartition, from_offset: int, until_offset: int
    ) -> list[tuple[bytes, BatchHeader]]:
        batches = [(batch, read_header(batch)) for batch in self._log(partition).batches]
        if from_offset >= until_offset:
            return []
        return [(b, h) for b, h in batches if h.last_offset >= from_offset and h.base_offset < until_offset]

    def _headers(self, log: _Partition) -> list[BatchHeader]:
        return [read_header(batch) for batch in log.batches]

    def _find_offset(
        self, partition: TopicPartition, wanted: OffsetSpec | int, isolation: IsolationLevel
    ) -> OffsetAndTimestamp | None:
        bounds = self.bounds(partition)
        if wanted == OffsetSpec.EARLIEST:
            return OffsetAndTimestamp(offset=bounds.log_start_offset, timestamp_ms=-1)
        if wanted == OffsetSpec.LATEST:
            return OffsetAndTimestamp(offset=bounds.readable_end(isolation), timestamp_ms=-1)
        for batch in self._log(partition).batches:
            for record in records_of(batch, 0):
                if record.offset >= bounds.log_start_offset and record.timestamp_ms >= wanted:
                    return OffsetAndTimestamp(offset=record.offset, timestamp_ms=record.timestamp_ms)
        return None

    def _aborted(self, log: _Partition, from_offset: int) -> tuple[AbortedTransaction, ...]:
        first_offsets: dict[int, int] = {}
        aborted = []
        for batch in log.batches:
            header = read_header(batch)
            first_offset = first_offsets.get(header.producer_id)
            is_abort = header.is_control and read_control_type(batch, 0) is ControlType.ABORT
            if is_abort and header.last_offset >= from_offset and first_offset is not None:
                aborted.append(AbortedTransaction(producer_id=header.producer_id, first_offset=first_offset))
            if header.is_control:
                first_offsets.pop(header.producer_id, None)
            elif header.is_transactional:
                first_offsets.setdefault(header.producer_id, header.base_offset)
        return tuple(aborted)
