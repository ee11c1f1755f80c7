"""Transactions and groups at a broker."""

import time

import pytest

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.model.exceptions import (
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    OffsetMetadataTooLargeError,
    ProducerFencedError,
    UnknownGroupError,
    UnknownTopicError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from broker_core.record.columns import decode

COMMITTED = IsolationLevel.READ_COMMITTED
DECISION = TopicPartition("__consumer_offsets", 0)


def init(client, name, **given):
    made = client.init_producer(name, **given)
    return TransactionalProducer(
        transactional_id=name, producer_id=made.producer_id, producer_epoch=made.producer_epoch
    )


def begin(client, name, *partitions, values=("v",)):
    """A producer with an open transaction and a batch in each partition."""
    producer = init(client, name)
    client.add_partitions_to_transaction(producer, partitions)
    for partition in partitions:
        write(client, producer, partition, *values)
    return producer


def write(client, producer, partition, *values, first_sequence=0):
    records = [Record(value=value.encode(), timestamp_ms=1000) for value in values]
    batch = build_batch(
        records,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=first_sequence,
        is_transactional=True,
    )
    return client.append(partition, batch)


def committed_values(client, partition):
    hider, found, offset = AbortedFilter(), [], 0
    while True:
        fetched = client.fetch(partition, offset, max_bytes=2**20, isolation=COMMITTED)
        hider.add(fetched.aborted_transactions)
        if not len(fetched.buffer):
            return found
        decoded = decode(fetched.buffer, from_offset=offset, aborted=hider)
        found += [value.decode() for value in decoded.record_batch.column("value").to_pylist()]
        offset = fetched.next_offset


def test_a_committed_transaction_is_readable_when_its_end_returns(broker, client, topic):
    partitions = [TopicPartition(topic, number) for number in (0, 1)]
    producer = begin(client, broker.name("x"), *partitions, values=("a", "b"))
    assert client.bounds(partitions[0]).last_stable_offset == 0
    assert [committed_values(client, partition) for partition in partitions] == [[], []]
    client.end_transaction(producer, commit=True)
    assert [committed_values(client, partition) for partition in partitions] == [["a", "b"]] * 2
    bounds = client.bounds(partitions[0])
    assert (bounds.last_stable_offset, bounds.high_watermark) == (3, 3)


def test_an_aborted_transaction_is_not_readable_and_a_later_one_is(broker, client, topic):
    partition = TopicPartition(topic, 0)
    producer = begin(client, broker.name("x"), partition, values=("a", "b"))
    client.end_transaction(producer, commit=False)
    producer = begin(client, producer.transactional_id, partition, values=("c",))
    client.end_transaction(producer, commit=True)
    assert committed_values(client, partition) == ["c"]


def test_ending_again_the_same_way_is_harmless_and_the_other_way_is_refused(broker, client, topic):
    producer = begin(client, broker.name("x"), TopicPartition(topic, 0))
    client.end_transaction(producer, commit=True)
    client.end_transaction(producer, commit=True)
    with pytest.raises(InvalidTransactionStateError):
        client.end_transaction(producer, commit=False)


def test_an_older_producer_is_fenced_and_its_transaction_aborted(broker, client, topic):
    partition, name = TopicPartition(topic, 0), broker.name("x")
    old = begin(client, name, partition)
    new = init(client, name)
    assert (new.producer_id, new.producer_epoch > old.producer_epoch) == (old.producer_id, True)
    for call in (
        lambda: client.add_partitions_to_transaction(old, [partition]),
        lambda: client.commit_offsets_in_transaction(old, "g", {partition: GroupOffset(offset=1)}),
        lambda: client.end_transaction(old, commit=True),
        lambda: write(client, old, partition, "w", first_sequence=1),
    ):
        with pytest.raises(ProducerFencedError):
            call()
    assert client.bounds(partition).last_stable_offset == client.bounds(partition).high_watermark
    assert committed_values(client, partition) == []


def test_transactions_of_tasks_are_ended_by_another_client(broker, client, topic):
    partition = TopicPartition(topic, 0)
    group = broker.name("decisions")
    with broker.client() as one, broker.client() as other:
        tasks = [begin(one, broker.name("task"), partition), begin(other, broker.name("task"), partition)]
    driver = init(client, broker.name("driver"))
    client.commit_offsets_in_transaction(driver, group, {DECISION: GroupOffset(offset=7, metadata="2 tasks")})
    assert client.fetch_offsets(group) == {}
    client.end_transaction(driver, commit=True, together_with=tasks)
    assert committed_values(client, partition) == ["v", "v"]
    found = client.fetch_offsets(group)[DECISION]
    assert (found.offset, found.metadata) == (7, "2 tasks")
    client.end_transaction(driver, commit=True, together_with=tasks)


def test_nothing_is_decided_when_a_tasks_transaction_is_gone(broker, client, topic):
    partition, group = TopicPartition(topic, 0), broker.name("decisions")
    task = begin(client, broker.name("task"), partition)
    assert client.abort_transaction(task.transactional_id)
    driver = init(client, broker.name("driver"))
    client.commit_offsets_in_transaction(driver, group, {DECISION: GroupOffset(offset=7)})
    with pytest.raises((ProducerFencedError, InvalidTransactionStateError), match=task.transactional_id):
        client.end_transaction(driver, commit=True, together_with=[task])
    client.end_transaction(driver, commit=False)
    assert client.fetch_offsets(group) == {}


def test_a_transaction_that_times_out_is_aborted_by_the_broker(broker, client, topic):
    partition = TopicPartition(topic, 0)
    producer = init(client, broker.name("x"), timeout_ms=1000)
    client.add_partitions_to_transaction(producer, [partition])
    write(client, producer, partition, "late")
    deadline = time.monotonic() + 30
    while client.bounds(partition).last_stable_offset == 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    with pytest.raises((ProducerFencedError, InvalidTransactionStateError)):
        client.end_transaction(producer, commit=True)
    assert committed_values(client, partition) == []


def test_transactions_are_described_and_listed(broker, client, topic):
    prefix = broker.name("q")
    partition = TopicPartition(topic, 0)
    before_ms = int(time.time() * 1000) - 10_000
    open_one = begin(client, f"{prefix}-open", partition)
    ended = begin(client, f"{prefix}-ended", partition)
    client.end_transaction(ended, commit=False)
    idle = init(client, f"{prefix}-idle", timeout_ms=5000)
    found = client.describe_transactions([f"{prefix}-open", f"{prefix}-idle", "nobody"])
    assert sorted(found) == [f"{prefix}-idle", f"{prefix}-open"]
    one = found[f"{prefix}-open"]
    assert (one.state, one.producer_id, one.partitions) == (
        TransactionState.ONGOING, open_one.producer_id, (partition,),
    )  # fmt: skip
    assert one.start_time_ms > before_ms
    assert (found[f"{prefix}-idle"].state, found[f"{prefix}-idle"].timeout_ms) == (TransactionState.EMPTY, 5000)
    assert found[f"{prefix}-idle"].start_time_ms == -1
    assert found[f"{prefix}-idle"].producer_id == idle.producer_id
    listed = client.list_transactions(prefix=f"{prefix}-")
    assert [(one.transactional_id, one.state) for one in listed] == [
        (f"{prefix}-ended", TransactionState.COMPLETE_ABORT),
        (f"{prefix}-idle", TransactionState.EMPTY),
        (f"{prefix}-open", TransactionState.ONGOING),
    ]
    ongoing = client.list_transactions(prefix=f"{prefix}-", states=[TransactionState.ONGOING])
    assert [one.transactional_id for one in ongoing] == [f"{prefix}-open"]
    assert client.abort_transaction(f"{prefix}-open") is True
    assert client.abort_transaction(f"{prefix}-open") is False


def test_wrong_producers_and_timeouts(broker, client, topic):
    stranger = TransactionalProducer(transactional_id=broker.name("nobody"), producer_id=1, producer_epoch=0)
    for call in (
        lambda: client.add_partitions_to_transaction(stranger, [TopicPartition(topic, 0)]),
        lambda: client.end_transaction(stranger, commit=True),
        lambda: client.abort_transaction(stranger.transactional_id),
    ):
        with pytest.raises(UnknownTransactionalIdError):
            call()
    with pytest.raises(InvalidTransactionTimeoutError):
        client.init_producer(broker.name("x"), timeout_ms=900_001)
    producer = init(client, broker.name("x"), timeout_ms=900_000)
    with pytest.raises(InvalidTransactionStateError):
        client.end_transaction(producer, commit=True)
    with pytest.raises(UnknownTopicError):
        client.add_partitions_to_transaction(producer, [TopicPartition("no-such-topic", 0)])


def test_aborting_without_an_open_transaction_succeeds_and_fences(broker, client, topic):
    producer, other = init(client, broker.name("x")), init(client, broker.name("x"))
    client.end_transaction(producer, commit=False)
    client.end_transaction(producer, commit=False, together_with=[other])
    with pytest.raises(ProducerFencedError):
        client.add_partitions_to_transaction(other, [TopicPartition(topic, 0)])


def test_each_end_bumps_the_epoch(broker, client, topic):
    producer = begin(client, broker.name("x"), TopicPartition(topic, 0))
    client.end_transaction(producer, commit=True)
    found = client.describe_transactions([producer.transactional_id])[producer.transactional_id]
    assert (found.state, found.producer_epoch) == (TransactionState.COMPLETE_COMMIT, producer.producer_epoch + 1)
    with pytest.raises(ProducerFencedError):
        client.add_partitions_to_transaction(producer, [TopicPartition(topic, 0)])


def test_a_partition_that_was_not_added_is_refused(broker, client, topic):
    producer = init(client, broker.name("x"))
    refusal = pytest.raises(Exception, match=r"not added to the transaction|INVALID_TXN_STATE|TRANSACTION_ABORTABLE")
    with broker.client(delivery__timeout__ms=3000) as impatient, refusal:
        impatient.add_partitions_to_transaction(producer, [TopicPartition(topic, 0)])
        write(impatient, producer, TopicPartition(topic, 1), "hanging")
    assert client.bounds(TopicPartition(topic, 1)).log_end_offset == 0


def test_a_group_keeps_its_offsets_until_its_deletion(broker, client, topic):
    group = broker.name("g")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    client.commit_offsets(group, {first: GroupOffset(offset=5, metadata="ü"), second: GroupOffset(offset=0)})
    found = client.fetch_offsets(group)
    assert {partition: (one.offset, one.metadata) for partition, one in found.items()} == {
        first: (5, "ü"), second: (0, ""),
    }  # fmt: skip
    assert list(client.fetch_offsets(group, [second])) == [second]
    assert group in client.list_groups()
    with pytest.raises(OffsetMetadataTooLargeError):
        client.commit_offsets(group, {first: GroupOffset(offset=5, metadata="x" * 5000)})
    with pytest.raises(UnknownTopicError):
        client.commit_offsets(group, {TopicPartition("no-such-topic", 0): GroupOffset(offset=5)})
    client.delete_group(group)
    assert client.fetch_offsets(group) == {}
    with pytest.raises(UnknownGroupError):
        client.delete_group(group)
    assert group not in client.list_groups()
