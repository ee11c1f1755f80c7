"""What runs a coordinator, in memory: plans, appends the records as bytes, replays what the bytes say."""

import itertools
from dataclasses import replace

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.group.group_records import decode_group_record, encode_group_record
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.txn_records import decode_transaction_record, encode_transaction_record

ORDERS = [TopicPartition("orders", number) for number in range(3)]


class TransactionRunner:
    """Time stands in `now_ms`; producer ids are 1000, 1001, …"""

    def __init__(self, *, first_producer_id=1000):
        self.coordinator = TransactionCoordinator()
        self.log = []
        self.now_ms = 1_000_000
        self._producer_ids = itertools.count(first_producer_id)

    def run(self, result):
        for record in result.records:
            self.append(record)
        return result.reply

    def append(self, record):
        stored = encode_transaction_record(record, timestamp_ms=self.now_ms)
        self.log.append((stored.key, stored.value))
        self.coordinator.replay(decode_transaction_record(stored.key, stored.value))

    def new_producer_id(self):
        return next(self._producer_ids)

    def plan_init(self, transactional_id="t", *, timeout_ms=60_000, is_two_phase=False):
        return self.coordinator.plan_init_producer(
            transactional_id,
            timeout_ms=timeout_ms,
            is_two_phase=is_two_phase,
            new_producer_id=self.new_producer_id,
            now_ms=self.now_ms,
        )

    def init(self, transactional_id="t", **options):
        """The producer that takes over, after what its predecessor left was ended."""
        while (given := self.run(self.plan_init(transactional_id, **options)).producer) is None:
            self.complete()
        return TransactionalProducer(
            transactional_id=transactional_id,
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
        )

    def add(self, producer, *partitions):
        self.run(self.coordinator.plan_add_partitions(producer, partitions, now_ms=self.now_ms))

    def decide(self, *producers, commit=True):
        return self.run(
            self.coordinator.plan_end(
                producers, commit=commit, new_producer_id=self.new_producer_id, now_ms=self.now_ms
            )
        )

    def complete(self):
        """As if all markers were written."""
        self.run(self.coordinator.plan_complete(self.coordinator.ending(), now_ms=self.now_ms))

    def end(self, *producers, commit=True):
        self.decide(*producers, commit=commit)
        self.complete()

    def climb(self, transactional_id, epoch):
        """The producer with that epoch, as if its id had been initialised that often."""
        key, value = next((key, value) for key, value in reversed(self.log) if transactional_id.encode() in key)
        record = decode_transaction_record(key, value)
        self.append(replace(record, value=replace(record.value, producer_epoch=epoch)))
        return TransactionalProducer(
            transactional_id=transactional_id, producer_id=record.value.producer_id, producer_epoch=epoch
        )

    def describe(self, transactional_id="t"):
        return self.coordinator.describe([transactional_id]).get(transactional_id)

    def replayed(self, log=None):
        """A coordinator that knows only the log."""
        coordinator = TransactionCoordinator()
        for key, value in self.log if log is None else log:
            coordinator.replay(decode_transaction_record(key, value))
        return coordinator


class OffsetsRunner:
    """The log holds (key, value, producer id or -1) and markers (producer id, is commit)."""

    def __init__(self):
        self.offsets = GroupOffsets()
        self.log = []
        self.now_ms = 1_000_000

    def run(self, result, *, producer_id=-1):
        for record in result.records:
            stored = encode_group_record(record, timestamp_ms=self.now_ms)
            self.log.append((stored.key, stored.value, producer_id))
            self._replay(self.offsets, len(self.log) - 1)
        return result.reply

    def commit(self, group_id, offsets, *, producer_id=-1):
        asked = {
            partition: GroupOffset(offset=given) if isinstance(given, int) else given
            for partition, given in offsets.items()
        }
        self.run(self.offsets.plan_commit(group_id, asked, now_ms=self.now_ms), producer_id=producer_id)

    def mark(self, producer_id, *, is_commit=True):
        self.log.append((producer_id, is_commit))
        self._replay(self.offsets, len(self.log) - 1)

    def fetched(self, group_id, partitions=None):
        """Partition -> offset."""
        return {partition: held.offset for partition, held in self.offsets.fetch(group_id, partitions).items()}

    def replayed(self):
        offsets = GroupOffsets()
        for at in range(len(self.log)):
            self._replay(offsets, at)
        return offsets

    def _replay(self, offsets, at):
        if len(self.log[at]) == 2:
            producer_id, is_commit = self.log[at]
            offsets.replay_marker(producer_id, is_commit=is_commit)
        else:
            key, value, producer_id = self.log[at]
            offsets.replay(decode_group_record(key, value), record_offset=at, producer_id=producer_id)


def refusal_of(action, *arguments, **options):
    """What the action raises, None if it does not; nothing but an error of the log's own tree is caught."""
    try:
        action(*arguments, **options)
    except StreamlogError as refusal:
        return refusal
    return None
