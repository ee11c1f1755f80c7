"""confluent-kafka: transactions and their fencing."""

import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition
from support.clients.confluent_clients import (
    SECONDS,
    a_consumer,
    a_producer,
    committed_values,
    make_topic,
    numbers_of,
    poll_until,
    read_all,
    send,
    take,
    values_of,
)

UNCOMMITTED = {"isolation.level": "read_uncommitted"}


def a_transactional_producer(broker, name=None, **given):
    """An initialised producer."""
    producer = a_producer(broker, transactional__id=name or broker.name("x"), **given)
    producer.init_transactions(SECONDS)
    return producer


def test_read_committed_consumers_see_committed_records_only(broker):
    topic = make_topic(broker, partition_count=2)
    producer = a_transactional_producer(broker)
    for round_number in range(4):
        producer.begin_transaction()
        send(producer, topic, [{"value": b"%d" % round_number, "partition": number} for number in (0, 1)])
        if round_number % 2:
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
    assert committed_values(broker, topic) == [b"0", b"2"] * 2
    assert values_of(broker, topic, **UNCOMMITTED) == [b"0", b"1", b"2", b"3"] * 2
    # The marker after each transaction takes an offset too.
    assert [message.offset() for message in read_all(broker, topic, **UNCOMMITTED)] == [0, 2, 4, 6] * 2


def test_an_open_transaction_blocks_later_records(broker):
    topic = make_topic(broker)
    producer = a_transactional_producer(broker)
    reader = a_consumer(broker)
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    send(a_producer(broker), topic, [b"before"])
    producer.begin_transaction()
    send(producer, topic, [b"inside"])
    send(a_producer(broker), topic, [b"behind"])
    assert [message.value() for message in take(reader, 1)] == [b"before"]
    assert reader.poll(0.3) is None
    assert values_of(broker, topic, **UNCOMMITTED) == [b"before", b"inside", b"behind"]
    producer.commit_transaction(SECONDS)
    assert [message.value() for message in take(reader, 2)] == [b"inside", b"behind"]
    reader.close()


def test_interleaved_transactions_of_two_producers_end_independently(broker):
    topic = make_topic(broker)
    one, two = a_transactional_producer(broker), a_transactional_producer(broker)
    for producer in (one, two):
        producer.begin_transaction()
    for n in range(6):
        send((one, two)[n % 2], topic, [b"%d" % n])
    one.abort_transaction(SECONDS)
    assert values_of(broker, topic) == []
    two.commit_transaction(SECONDS)
    assert committed_values(broker, topic) == [b"1", b"3", b"5"]


def test_many_transactions_one_after_the_other_keep_their_order(broker):
    topic = make_topic(broker)
    producer, expected = a_transactional_producer(broker), []
    for number in range(30):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, n) for n in range(3)]
        send(producer, topic, values)
        if number % 3 == 2:
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
            expected += values
    assert committed_values(broker, topic) == expected


def test_an_empty_transaction_writes_nothing(broker):
    topic = make_topic(broker)
    producer = a_transactional_producer(broker)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end(SECONDS)
    assert values_of(broker, topic, **UNCOMMITTED) == []


def test_offsets_are_committed_with_the_records_of_the_transaction_or_not_at_all(broker):
    source, target, group = make_topic(broker), make_topic(broker), broker.name("g")
    send(a_producer(broker), source, [b"%d" % n for n in range(6)])
    producer = a_transactional_producer(broker)

    def transform(count, end):
        reader = a_consumer(broker, group)
        reader.subscribe([source])
        producer.begin_transaction()
        messages = take(reader, count)
        send(producer, target, [b"x" + message.value() for message in messages])
        producer.send_offsets_to_transaction(
            reader.position(reader.assignment()), reader.consumer_group_metadata(), SECONDS
        )
        end(SECONDS)
        reader.close()

    def committed():
        reader = a_consumer(broker, group)
        [found] = reader.committed([TopicPartition(source, 0)], timeout=SECONDS)
        reader.close()
        return found.offset

    transform(2, producer.commit_transaction)
    assert (committed(), committed_values(broker, target)) == (2, [b"x0", b"x1"])
    transform(2, producer.abort_transaction)
    assert (committed(), committed_values(broker, target)) == (2, [b"x0", b"x1"])
    transform(4, producer.commit_transaction)
    assert (committed(), committed_values(broker, target)) == (6, [b"x%d" % n for n in range(6)])


def test_offsets_of_a_former_member_are_refused(broker):
    source, group = make_topic(broker), broker.name("g")
    member = a_consumer(broker, group)
    member.subscribe([source])
    poll_until(lambda: numbers_of(member) == [0], member)
    metadata = member.consumer_group_metadata()
    member.close()
    producer = a_transactional_producer(broker)
    producer.begin_transaction()
    send(producer, source, [b"v"])
    with pytest.raises(KafkaException) as caught:
        producer.send_offsets_to_transaction([TopicPartition(source, 0, 1)], metadata, SECONDS)
    error = caught.value.args[0]
    assert error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
    assert error.txn_requires_abort()
    producer.abort_transaction(SECONDS)
    assert committed_values(broker, source) == []


def test_a_second_producer_with_the_same_id_fences_the_first_and_aborts_its_transaction(broker):
    topic, name = make_topic(broker), broker.name("x")
    first = a_transactional_producer(broker, name)
    first.begin_transaction()
    send(first, topic, [b"left"])
    second = a_transactional_producer(broker, name)
    assert committed_values(broker, topic) == []
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(SECONDS)
    assert caught.value.args[0].code() == KafkaError._FENCED
    assert caught.value.args[0].fatal()
    second.begin_transaction()
    send(second, topic, [b"kept"])
    second.commit_transaction(SECONDS)
    assert committed_values(broker, topic) == [b"kept"]
    assert values_of(broker, topic, **UNCOMMITTED) == [b"left", b"kept"]


def test_a_transaction_that_times_out_is_aborted(broker):
    topic = make_topic(broker)
    producer = a_transactional_producer(broker, transaction__timeout__ms=1000)
    producer.begin_transaction()
    send(producer, topic, [b"late"])
    send(a_producer(broker), topic, [b"behind"])
    deadline = time.monotonic() + SECONDS
    while values_of(broker, topic) != [b"behind"]:
        assert time.monotonic() < deadline, "still open"
        time.sleep(0.1)
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(SECONDS)
    assert caught.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert values_of(broker, topic, **UNCOMMITTED) == [b"late", b"behind"]


def test_a_timeout_above_the_brokers_maximum_is_refused(broker):
    producer = a_producer(broker, transactional__id=broker.name("x"), transaction__timeout__ms=900_001)
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(SECONDS)
    assert caught.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT
