"""kafka-python: records are read as they were written."""

import time

import pytest
from kafka import TopicPartition
from kafka.errors import InvalidRecordError, MessageSizeTooLargeError, OffsetOutOfRangeError
from kafka.partitioner.default import murmur2
from support.builders.wire_batches import stored_headers
from support.clients.kafka_python_clients import (
    SECONDS,
    a_consumer,
    a_producer,
    an_admin,
    make_topic,
    poll_until,
    read_all,
    send,
    take,
    values_of,
    write,
)

from broker_core.record.partitioner import partition_for_key

CODECS = {None: 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CREATE_TIME, LOG_APPEND_TIME = 0, 1


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_read_as_they_were_sent(broker, codec):
    topic = make_topic(broker)
    sent = [
        {"key": b"k%d" % n, "value": b"value %d " % n * 20, "headers": [("n", b"%d" % n)], "timestamp_ms": 10**12 + n}
        for n in range(300)
    ]
    write(broker, topic, sent, compression_type=codec, linger_ms=20)
    found = [
        {"key": r.key, "value": r.value, "headers": list(r.headers), "timestamp_ms": r.timestamp}
        for r in read_all(broker, topic)
    ]
    assert found == sent
    assert {int(header.compression_type) for header in stored_headers(broker, topic)} == {CODECS[codec]}


def test_null_and_empty_keys_and_values_differ(broker):
    topic = make_topic(broker)
    # This client refuses to send a record without key and value.
    sent = [(b"", b""), (None, b"v"), (b"k", None), (b"", None), (None, b""), (b"k", b"")]
    write(broker, topic, [{"key": key, "value": value} for key, value in sent])
    assert [(record.key, record.value) for record in read_all(broker, topic)] == sent


def test_headers_keep_their_order_and_duplicates(broker):
    topic = make_topic(broker)
    headers = [("b", b"1"), ("a", b"2"), ("b", b""), ("", b"nameless"), ("ünïcödé", bytes(range(256)))]
    write(broker, topic, [{"value": b"v", "headers": headers}, {"value": b"w"}])
    assert [list(record.headers) for record in read_all(broker, topic)] == [headers, []]


def test_a_topic_has_create_time_or_log_append_time(broker):
    created, appended = make_topic(broker), make_topic(broker, message__timestamp__type="LogAppendTime")
    before = int(time.time() * 1000)
    for topic in (created, appended):
        write(broker, topic, [{"value": b"v", "timestamp_ms": 1_000_000 + n} for n in range(3)])
    assert [(r.timestamp_type, r.timestamp) for r in read_all(broker, created)] == [
        (CREATE_TIME, 1_000_000 + n) for n in range(3)
    ]
    found = read_all(broker, appended)
    assert [record.timestamp_type for record in found] == [LOG_APPEND_TIME] * 3
    assert all(before <= record.timestamp <= time.time() * 1000 for record in found)


def test_many_records_in_large_batches_keep_their_order(broker):
    topic = make_topic(broker)
    sent = [b"%05d" % n * 20 for n in range(5000)]
    written = write(broker, topic, sent, linger_ms=1000, batch_size=500_000)
    assert [record.offset for record in written] == list(range(5000))
    assert values_of(broker, topic) == sent
    # By default some 160 fit into a batch. A slow machine sends one before it is full.
    assert max(header.record_count for header in stored_headers(broker, topic)) > 300


def test_a_record_just_below_the_limit_is_accepted_and_a_larger_one_is_refused(broker):
    topic = make_topic(broker)
    large = bytes(1_000_000)
    with a_producer(broker, max_request_size=3_000_000) as producer:
        send(producer, topic, [large])
        with pytest.raises(MessageSizeTooLargeError):
            send(producer, topic, [bytes(2_000_000)])
    assert values_of(broker, topic) == [large]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_level_of_acknowledgement_writes_everything(broker, acks):
    topic = make_topic(broker)
    sent = [b"%d" % n for n in range(100)]
    written = write(broker, topic, sent, acks=acks, enable_idempotence=False)
    if acks != 0:
        assert [record.offset for record in written] == list(range(100))
    deadline = time.monotonic() + SECONDS
    while len(values_of(broker, topic)) < 100 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert values_of(broker, topic) == sent


def test_an_idempotent_producer_keeps_order_over_many_requests_in_flight(broker):
    topic = make_topic(broker)
    sent = [b"%d" % n * 20 for n in range(1000)]
    with a_producer(broker, enable_idempotence=True, linger_ms=0, batch_size=500) as producer:
        assert [record.offset for record in send(producer, topic, sent)] == list(range(1000))
    assert values_of(broker, topic) == sent
    headers = stored_headers(broker, topic)
    assert len(headers) > 20
    assert len({header.producer_id for header in headers}) == 1
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


def test_keys_choose_partitions_by_their_hash(broker):
    topic = make_topic(broker, partition_count=7)
    keys = [b"%d" % n for n in range(200)] + [b"k" * n for n in range(20)]
    write(broker, topic, [{"key": key, "value": key} for key in keys])
    found = {record.key: record.partition for record in read_all(broker, topic)}
    assert found == {key: partition_for_key(key, 7) for key in keys}
    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in keys}
    assert set(found.values()) == set(range(7))


def test_producing_creates_the_topic(broker):
    topic = broker.name()
    write(broker, topic, [b"first"])
    assert values_of(broker, topic) == [b"first"]


def test_subscribing_creates_the_topic(broker):
    topic = broker.name()
    # This client (3.0) does not pass allow_auto_create_topics=False to its requests, so only this case is tested.
    with a_consumer(broker, broker.name("g")) as reader, an_admin(broker) as admin:
        assert topic not in admin.list_topics()
        reader.subscribe([topic])
        poll_until(lambda: topic in admin.list_topics(), reader)
        assert [len(found["partitions"]) for found in admin.describe_topics([topic])] == [1]


def test_a_consumer_seeks_by_offset_and_by_time(broker):
    topic = make_topic(broker, partition_count=2)
    base, zero, one = 1_700_000_000_000, TopicPartition(topic, 0), TopicPartition(topic, 1)
    write(broker, topic, [{"value": b"%d" % n, "partition": 0, "timestamp_ms": base + 1000 * n} for n in range(10)])
    with a_consumer(broker) as reader:

        def at(timestamp, partition=zero):
            found = reader.offsets_for_times({partition: timestamp})[partition]
            return found and (found.offset, found.timestamp - base)

        assert [at(base + ms) for ms in (0, 1, 4000, 8999)] == [(0, 0), (1, 1000), (4, 4000), (9, 9000)]
        assert at(base + 9001) is None
        assert at(base, one) is None
        assert reader.beginning_offsets([zero, one]) == {zero: 0, one: 0}
        assert reader.end_offsets([zero, one]) == {zero: 10, one: 0}
        reader.assign([zero])
        reader.seek(zero, 4)
        assert [record.value for record in take(reader, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
        reader.seek_to_beginning(zero)
        assert [record.offset for record in take(reader, 10)] == list(range(10))
        reader.seek_to_end(zero)
        assert reader.position(zero) == 10


def test_an_offset_out_of_range_is_reset_as_the_consumer_configures(broker):
    topic = make_topic(broker)
    write(broker, topic, [b"a", b"b"])
    partition = TopicPartition(topic, 0)
    with a_consumer(broker) as earliest, a_consumer(broker, auto_offset_reset="none") as strict:
        for reader in (earliest, strict):
            reader.assign([partition])
            reader.seek(partition, 77)
        assert [record.value for record in take(earliest, 2)] == [b"a", b"b"]
        with pytest.raises(OffsetOutOfRangeError):
            take(strict, 1)


def test_a_paused_partition_returns_no_records_until_it_is_resumed(broker):
    topic = make_topic(broker, partition_count=2)
    partitions = [TopicPartition(topic, number) for number in (0, 1)]
    with a_consumer(broker) as reader:
        reader.assign(partitions)
        reader.pause(partitions[0])
        write(broker, topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(10)])
        assert [record.value for record in take(reader, 5)] == [b"1", b"3", b"5", b"7", b"9"]
        assert reader.poll(300) == {}
        reader.resume(partitions[0])
        assert [record.value for record in take(reader, 5)] == [b"0", b"2", b"4", b"6", b"8"]


@pytest.mark.parametrize("sessions", [True, False])
def test_a_consumer_with_a_small_limit_still_gets_larger_batches(broker, sessions):
    topic = make_topic(broker)
    sent = [b"%d" % n * 3000 for n in range(10)]
    write(broker, topic, sent, linger_ms=50, batch_size=20_000)
    limits = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000}
    assert values_of(broker, topic, enable_incremental_fetch_sessions=sessions, **limits) == sent


def test_a_waiting_fetch_is_answered_when_a_record_arrives(broker):
    topic = make_topic(broker)
    with a_consumer(broker, fetch_max_wait_ms=20_000, request_timeout_ms=40_000) as reader:
        reader.assign([TopicPartition(topic, 0)])
        reader.seek_to_beginning()
        assert reader.poll(500) == {}
        begun = time.monotonic()
        write(broker, topic, [b"now"])
        assert [record.value for record in take(reader, 1)] == [b"now"]
        assert time.monotonic() - begun < 15


def test_ten_bad_records_of_a_batch_are_told_apart_from_the_others(broker):
    topic = make_topic(broker, **{"cleanup.policy": "compact"})
    with a_producer(broker, linger_ms=200, retries=0) as producer:
        sent = [producer.send(topic, b"v", None if n % 10 == 3 else b"%d" % n) for n in range(100)]
        producer.flush(SECONDS)
        errors = [future.exception for future in sent]
    bad = [number for number, error in enumerate(errors) if isinstance(error, InvalidRecordError)]
    assert bad == list(range(3, 100, 10))
    assert len({type(error) for error in errors}) == 2
    assert not list(read_all(broker, topic))
