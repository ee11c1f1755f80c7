"""A real Kafka's `__transaction_state` and `__consumer_offsets`: read whole, and written again byte for byte."""

import pytest
from golden_data import unpack

from broker_core.cluster import GroupOffset
from broker_core.coordinator.stored_records import EndedTransaction, StoredRecord, events_of
from broker_core.group.group_records import decode_group_record, encode_group_record
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.txn_records import decode_transaction_record, encode_transaction_record


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("golden"))


def stored_records(golden, topic):
    """Of each partition, in order."""
    for log in sorted((golden / "log").glob(f"{topic}-*/*.log")):
        for event in events_of(log.read_bytes(), from_offset=0):
            assert not isinstance(event, EndedTransaction)
            yield event


def as_bytes(event: StoredRecord):
    return event.key, event.value


def test_every_transaction_record_is_written_as_kafka_wrote_it(golden):
    events = list(stored_records(golden, "__transaction_state"))
    records = [decode_transaction_record(*as_bytes(event)) for event in events]
    assert len(records) == 14 + 19 + 7
    stored = [encode_transaction_record(record, timestamp_ms=0) for record in records]
    assert [(each.key, each.value) for each in stored] == [as_bytes(event) for event in events]


def test_every_offset_record_is_written_as_kafka_wrote_it(golden):
    events = list(stored_records(golden, "__consumer_offsets"))
    stored = [encode_group_record(decode_group_record(*as_bytes(event)), timestamp_ms=0) for event in events]
    assert len(stored) == 50 + 2
    assert [(each.key, each.value) for each in stored] == [as_bytes(event) for event in events]


def test_the_transactions_have_the_state_that_kafka_left(golden):
    """Three producers, whose last transactions were the one that stayed open, a committed and an aborted one."""
    coordinator = TransactionCoordinator()
    for event in stored_records(golden, "__transaction_state"):
        coordinator.replay(decode_transaction_record(*as_bytes(event)))
    described = coordinator.list_transactions(prefix="golden-")
    assert [(each.transactional_id, each.producer_id) for each in described] == [
        ("golden-0", 4), ("golden-1", 5), ("golden-2", 6),
    ]  # fmt: skip
    (left_open,) = coordinator.list_transactions(states=[TransactionState.ONGOING])
    assert left_open.transactional_id == "golden-0"
    assert left_open.partitions == (TopicPartition("open-transaction", 0),)
    assert coordinator.ending() == ()
    coordinator.check_append(4, 0, TopicPartition("open-transaction", 0))
    (fenced,) = coordinator.plan_expire(left_open.start_time_ms + left_open.timeout_ms).reply
    assert (fenced.producer_id, fenced.producer_epoch, fenced.is_commit) == (4, 1, False)


def test_the_offsets_of_the_group_are_the_committed_ones(golden):
    """As the archive's README says; librdkafka stores the metadata with the zero byte that ends it in C."""
    offsets = GroupOffsets()
    for event in stored_records(golden, "__consumer_offsets"):
        offsets.replay(decode_group_record(*as_bytes(event)), record_offset=event.offset)
    committed_ms = 1_795_822_247_308
    assert offsets.fetch("golden-group") == {
        TopicPartition("codecs", 1): GroupOffset(offset=5, commit_time_ms=committed_ms),
        TopicPartition("keyed", 0): GroupOffset(offset=3, metadata="note\0", commit_time_ms=committed_ms),
    }
