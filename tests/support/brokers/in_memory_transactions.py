"""Transactions of the in-memory twin: Kafka's rules in a dict, every call whole and at once.

    init_producer      a higher epoch under the same id; what was open is aborted
    end_transaction    all of the producers, or none and an error; the epoch goes up with each end (KIP-890), also when
                       nothing was open and is "aborted"
    the clock          `now_ms()`; an open transaction past its timeout is aborted by the next call

Appends are checked for producers that were initialised here. Tests that write transactional batches of producers they
made up end them by `write_marker`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from broker_core.cluster import GroupOffset, TransactionalProducer, TransactionDescription
from broker_core.model.exceptions import (
    InvalidTransactionStateError,
    ProducerFencedError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.record.batch_header import BatchHeader

OFFSETS_PARTITION = TopicPartition("__consumer_offsets", 0)

State = TransactionState


@dataclass(slots=True)
class _KnownTransaction:
    producer_id: int
    timeout_ms: int
    producer_epoch: int = -1
    state: TransactionState = State.EMPTY
    start_time_ms: int = -1
    partitions: set[TopicPartition] = field(default_factory=set)
    offsets: dict[str, dict[TopicPartition, GroupOffset]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class InMemoryTransactions:
    """`write_marker(partition, producer_id, producer_epoch, is_commit)` and `store_offsets` are the twin's own."""

    next_producer_id: Callable[[], int]
    write_marker: Callable[[TopicPartition, int, int, bool], None]
    store_offsets: Callable[[str, Mapping[TopicPartition, GroupOffset]], None]
    now_ms: Callable[[], int]
    entries: dict[str, _KnownTransaction] = field(default_factory=dict)

    def init_producer(self, transactional_id: str, timeout_ms: int) -> ProducerIdAndEpoch:
        self._expire()
        entry = self.entries.get(transactional_id)
        if entry is None:
            entry = self.entries[transactional_id] = _KnownTransaction(self.next_producer_id(), timeout_ms)
        if entry.state is State.ONGOING:
            self._end(entry, commit=False)
        entry.producer_epoch += 1
        entry.state, entry.timeout_ms = State.EMPTY, timeout_ms
        return ProducerIdAndEpoch(producer_id=entry.producer_id, producer_epoch=entry.producer_epoch)

    def add_partitions(self, producer: TransactionalProducer, partitions: Collection[TopicPartition]) -> None:
        entry = self._entry_of(producer)
        if entry.state is not State.ONGOING:
            entry.state, entry.start_time_ms = State.ONGOING, self.now_ms()
        entry.partitions |= set(partitions)

    def check_append(self, partition: TopicPartition, header: BatchHeader) -> None:
        self._expire()
        for transactional_id, entry in self.entries.items():
            if entry.producer_id == header.producer_id and header.is_transactional:
                producer = TransactionalProducer(
                    transactional_id=transactional_id,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                )
                self._entry_of(producer)
                if entry.state is not State.ONGOING or partition not in entry.partitions:
                    raise InvalidTransactionStateError(f"{transactional_id} has not added {partition}")

    def commit_offsets(
        self, producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        self.add_partitions(producer, [OFFSETS_PARTITION])
        self.entries[producer.transactional_id].offsets.setdefault(group_id, {}).update(offsets)

    def end(self, producers: Sequence[TransactionalProducer], *, commit: bool) -> None:
        for entry in self.require_endable(producers, commit=commit):
            self._end(entry, commit=commit)

    def require_endable(self, producers: Sequence[TransactionalProducer], *, commit: bool) -> list[_KnownTransaction]:
        """Those that are still open; raises for one that could not be ended so."""
        self._expire()
        entries = [self.entries.get(producer.transactional_id) for producer in producers]
        ended_so = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
        open_entries = []
        for producer, entry in zip(producers, entries, strict=True):
            is_repeated = (
                entry is not None
                and entry.state is ended_so
                and (entry.producer_id, entry.producer_epoch) == (producer.producer_id, producer.producer_epoch + 1)
            )
            if not is_repeated:
                found = self._entry_of(producer)
                if commit and found.state is not State.ONGOING:
                    raise InvalidTransactionStateError(f"{producer.transactional_id} is {found.state.label}")
                open_entries.append(found)
        return open_entries

    def abort(self, transactional_id: str) -> bool:
        self._expire()
        if transactional_id not in self.entries:
            raise UnknownTransactionalIdError(f"{transactional_id} is not known")
        entry = self.entries[transactional_id]
        is_open = entry.state is State.ONGOING
        if is_open:
            self._end(entry, commit=False)
        return is_open

    def descriptions(self) -> dict[str, TransactionDescription]:
        self._expire()
        return {
            transactional_id: TransactionDescription(
                transactional_id=transactional_id,
                state=entry.state,
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                timeout_ms=entry.timeout_ms,
                start_time_ms=entry.start_time_ms,
                partitions=tuple(sorted(entry.partitions)),
            )
            for transactional_id, entry in sorted(self.entries.items())
        }

    def _entry_of(self, producer: TransactionalProducer) -> _KnownTransaction:
        self._expire()
        entry = self.entries.get(producer.transactional_id)
        if entry is None:
            raise UnknownTransactionalIdError(f"{producer.transactional_id} is not known")
        if (entry.producer_id, entry.producer_epoch) != (producer.producer_id, producer.producer_epoch):
            raise ProducerFencedError(f"{producer.transactional_id} has a newer producer")
        return entry

    def _expire(self) -> None:
        for entry in self.entries.values():
            if entry.state is State.ONGOING and self.now_ms() >= entry.start_time_ms + entry.timeout_ms:
                self._end(entry, commit=False)

    def _end(self, entry: _KnownTransaction, *, commit: bool) -> None:
        entry.producer_epoch += 1
        for partition in sorted(entry.partitions - {OFFSETS_PARTITION}):
            self.write_marker(partition, entry.producer_id, entry.producer_epoch, commit)
        if commit:
            for group_id, offsets in entry.offsets.items():
                self.store_offsets(group_id, offsets)
        entry.partitions, entry.offsets, entry.start_time_ms = set(), {}, -1
        entry.state = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
