import pytest

from broker_core.broker.coordination.coordinator_kind import groups_kind, transactions_kind
from broker_core.coordinator.stored_records import EndedTransaction, StoredRecord
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_records import OffsetCommitRecord, OffsetCommitValue
from broker_core.group.group_settings import GroupSettings
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import TopicPartition
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_steps import first
from broker_core.txn.txn_records import TransactionRecord

T0 = TopicPartition("t", 0)
GROUPS = groups_kind(lambda: GroupCoordinator(GroupSettings(), new_id=lambda: "id"))
TRANSACTIONS = transactions_kind(TransactionCoordinator)


def event_of(kind, record, *, offset=0, producer_id=-1):
    stored = kind.encode(record, timestamp_ms=0)
    return StoredRecord(stored.key, stored.value, offset, producer_id)


def test_what_is_read_back_is_what_was_replayed_live():
    record = TransactionRecord(transactional_id="t", value=first(7, timeout_ms=1000, now_ms=5))
    live, read = TRANSACTIONS.begin(), TRANSACTIONS.begin()
    TRANSACTIONS.replay(live, record, 0, -1)
    TRANSACTIONS.replay_event(read, event_of(TRANSACTIONS, record))
    assert read.value("t") == live.value("t") == record.value


def test_offsets_of_a_transaction_wait_for_its_marker():
    value = OffsetCommitValue(offset=5, commit_time_ms=0)
    groups = GROUPS.begin()
    record = OffsetCommitRecord(group_id="g", partition=T0, value=value)
    GROUPS.replay_event(groups, event_of(GROUPS, record, producer_id=7))
    assert groups.offsets.fetch("g") == {}
    GROUPS.replay_event(groups, EndedTransaction(7, True))
    assert groups.offsets.fetch("g")[T0].offset == 5


def test_markers_say_nothing_to_the_log_of_transactions():
    coordinator = TRANSACTIONS.begin()
    TRANSACTIONS.replay_event(coordinator, EndedTransaction(7, True))
    assert coordinator.find(lambda key, value: True) == {}


@pytest.mark.parametrize("kind", [GROUPS, TRANSACTIONS], ids=["groups", "transactions"])
def test_keys_of_the_future_are_skipped_and_damage_is_told(kind):
    kind.replay_event(kind.begin(), StoredRecord(b"\x00\x63", b"", 0, -1))
    with pytest.raises(CorruptBatchError):
        kind.replay_event(kind.begin(), StoredRecord(b"\x00", b"", 0, -1))
