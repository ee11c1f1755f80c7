import pytest

from broker_core.coordinator.coordinator_kind import NO_PRODUCER
from broker_core.coordinator.stored_records import EndedTransaction, NewestRecords, StoredRecord, events_of
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_log import groups_kind, offsets_kind
from broker_core.group.group_records import OffsetCommitRecord, OffsetCommitValue
from broker_core.group.group_settings import GroupSettings
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.record.batch_header import write_placement
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_log import transactions_kind
from broker_core.txn.transaction_steps import first
from broker_core.txn.txn_records import TransactionRecord

T0 = TopicPartition("t", 0)
C0 = TopicPartition("c", 0)
GROUPS = groups_kind(C0, lambda: GroupCoordinator(GroupSettings(), new_id=lambda: "id"))
TRANSACTIONS = transactions_kind(C0, TransactionCoordinator)
OFFSETS = offsets_kind(C0, GroupOffsets)


def event_of(kind, record, *, offset=0, producer_id=-1):
    stored = kind.encode(record, timestamp_ms=0)
    return StoredRecord(stored.key, stored.value, offset, producer_id)


def test_records_read_back_match_records_replayed_live():
    record = TransactionRecord(transactional_id="t", value=first(7, timeout_ms=1000, now_ms=5))
    live, read = TRANSACTIONS.begin(), TRANSACTIONS.begin()
    TRANSACTIONS.replay(live, record, 0, -1)
    TRANSACTIONS.replay_event(read, event_of(TRANSACTIONS, record))
    assert read.value("t") == live.value("t") == record.value


def test_offsets_of_a_transaction_wait_for_its_marker():
    value = OffsetCommitValue(offset=5, commit_time_ms=0)
    groups, alone = GROUPS.begin(), OFFSETS.begin()
    record = OffsetCommitRecord(group_id="g", partition=T0, value=value)
    for kind, state, offsets in ((GROUPS, groups, groups.offsets), (OFFSETS, alone, alone)):
        kind.replay_event(state, event_of(kind, record, producer_id=7))
        assert offsets.fetch("g") == {}
        kind.replay_event(state, EndedTransaction(7, True))
        assert offsets.fetch("g")[T0].offset == 5


def test_live_replay_and_reading_back_give_the_same_state():
    """A group's offsets, once by one and once of all that is newest, in the broker's log and in the embedded one."""
    producer = ProducerIdAndEpoch(producer_id=7, producer_epoch=0)
    for kind in (GROUPS, OFFSETS):
        log = bytearray()
        for number, writer in enumerate([NO_PRODUCER, producer, NO_PRODUCER]):
            partition = TopicPartition("t", number // 2)
            value = OffsetCommitValue(offset=number, commit_time_ms=0)
            record = OffsetCommitRecord(group_id="g", partition=partition, value=value)
            batch = kind.new_batch([record], timestamp_ms=5, producer=writer)
            write_placement(batch, 0, base_offset=number, leader_epoch=0)
            log += batch
        followed, newest = kind.begin(), NewestRecords()
        kind.replay_events(followed, events_of(log, from_offset=0))
        newest.add(log)
        loaded = kind.load(newest)
        for state in (followed, loaded):
            offsets = getattr(state, "offsets", state)
            found = {where.partition: one.offset for where, one in offsets.fetch("g").items()}
            assert found == {0: 0, 1: 2}
            kind.replay_event(state, EndedTransaction(7, True))
            assert offsets.fetch("g")[T0].offset == 1


def test_a_damaged_record_is_reported_with_partition_and_offset():
    with pytest.raises(CorruptBatchError, match=r"^c-0: the record at offset 9: "):
        GROUPS.replay_events(GROUPS.begin(), [StoredRecord(b"\x00", b"", 9, -1)])


def test_markers_are_ignored_in_the_transaction_log():
    coordinator = TRANSACTIONS.begin()
    TRANSACTIONS.replay_event(coordinator, EndedTransaction(7, True))
    assert coordinator.find(lambda key, value: True) == {}


@pytest.mark.parametrize("kind", [GROUPS, TRANSACTIONS, OFFSETS], ids=["groups", "transactions", "offsets"])
def test_unknown_keys_are_skipped_and_damage_is_reported(kind):
    kind.replay_event(kind.begin(), StoredRecord(b"\x00\x63", b"", 0, -1))
    with pytest.raises(CorruptBatchError):
        kind.replay_event(kind.begin(), StoredRecord(b"\x00", b"", 0, -1))
