"""kafka-python: transactions and their fencing."""

import time

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, ProducerFencedError
from support.clients.kafka_python_clients import (
    SECONDS,
    a_consumer,
    a_producer,
    committed_values,
    make_topic,
    send,
    subscribe,
    take,
    values_of,
    write,
)

COMMITTED = {"isolation_level": "read_committed"}


@pytest.fixture
def transactional(broker):
    """A function that creates initialised producers, which are closed at the end."""
    opened = []

    def make(name=None, **given):
        producer = a_producer(broker, transactional_id=name or broker.name("x"), **given)
        opened.append(producer)
        producer = producer.__enter__()
        producer.init_transactions()
        return producer

    yield make
    for producer in opened:
        producer.__exit__(None, None, None)


def test_read_committed_consumers_see_committed_records_only(broker, transactional):
    topic, producer = make_topic(broker, partition_count=2), transactional()
    for round_number in range(4):
        producer.begin_transaction()
        send(producer, topic, [{"value": b"%d" % round_number, "partition": number} for number in (0, 1)])
        if round_number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    assert committed_values(broker, topic) == [b"0", b"2"] * 2
    assert values_of(broker, topic) == [b"0", b"1", b"2", b"3"] * 2


def test_an_open_transaction_blocks_later_records(broker, transactional):
    topic, producer = make_topic(broker), transactional()
    with a_consumer(broker, **COMMITTED) as reader:
        reader.assign([TopicPartition(topic, 0)])
        write(broker, topic, [b"before"])
        producer.begin_transaction()
        send(producer, topic, [b"inside"])
        write(broker, topic, [b"behind"])
        assert [record.value for record in take(reader, 1)] == [b"before"]
        assert reader.poll(300) == {}
        assert reader.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 1}
        assert values_of(broker, topic) == [b"before", b"inside", b"behind"]
        producer.commit_transaction()
        assert [record.value for record in take(reader, 2)] == [b"inside", b"behind"]


def test_many_transactions_one_after_the_other_keep_their_order(broker, transactional):
    topic, producer, expected = make_topic(broker), transactional(), []
    for number in range(20):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, n) for n in range(3)]
        send(producer, topic, values)
        if number % 3 == 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected += values
    assert committed_values(broker, topic) == expected


def test_offsets_are_committed_with_the_records_of_the_transaction_or_not_at_all(broker, transactional):
    source, target, group, producer = make_topic(broker), make_topic(broker), broker.name("g"), transactional()
    partition = TopicPartition(source, 0)
    write(broker, source, [b"%d" % n for n in range(6)])

    def transform(count, end):
        with a_consumer(broker, group, **COMMITTED) as reader:
            subscribe(reader, source)
            records = take(reader, count)
            producer.begin_transaction()
            send(producer, target, [b"x" + record.value for record in records])
            offsets = {partition: OffsetAndMetadata(records[-1].offset + 1, "", -1)}
            producer.send_offsets_to_transaction(offsets, reader.group_metadata())
            end()
        with a_consumer(broker, group, **COMMITTED) as reader:
            return committed_values(broker, target), reader.committed(partition)

    first = [b"x0", b"x1"]
    assert transform(2, producer.commit_transaction) == (first, 2)
    assert transform(2, producer.abort_transaction) == (first, 2)
    assert transform(4, producer.commit_transaction) == ([b"x%d" % n for n in range(6)], 6)


def test_a_second_producer_with_the_same_id_fences_the_first_and_aborts_its_transaction(broker, transactional):
    topic, name = make_topic(broker), broker.name("x")
    first = transactional(name)
    first.begin_transaction()
    send(first, topic, [b"left"])
    second = transactional(name)
    assert committed_values(broker, topic) == []
    with pytest.raises(ProducerFencedError):
        first.commit_transaction()
    second.begin_transaction()
    send(second, topic, [b"kept"])
    second.commit_transaction()
    assert committed_values(broker, topic) == [b"kept"]
    assert values_of(broker, topic) == [b"left", b"kept"]


def test_a_transaction_that_times_out_is_aborted(broker, transactional):
    topic, producer = make_topic(broker), transactional(transaction_timeout_ms=300)
    producer.begin_transaction()
    send(producer, topic, [b"late"])
    write(broker, topic, [b"behind"])
    deadline = time.monotonic() + SECONDS
    while values_of(broker, topic, **COMMITTED) != [b"behind"]:
        assert time.monotonic() < deadline, "still open"
        time.sleep(0.1)
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    assert values_of(broker, topic) == [b"late", b"behind"]


def test_a_timeout_above_the_brokers_maximum_is_refused(transactional):
    with pytest.raises(KafkaError, match="InvalidTransactionTimeoutError"):
        transactional(transaction_timeout_ms=900_001)
