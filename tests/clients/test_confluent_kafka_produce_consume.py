"""confluent-kafka: records are read as they were written."""

import time
import zlib

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    TopicPartition,
)
from support.builders.wire_batches import stored_headers
from support.clients.confluent_clients import (
    SECONDS,
    a_consumer,
    a_producer,
    make_topic,
    poll_until,
    read_all,
    send,
    take,
    values_of,
)

from broker_core.record.partitioner import partition_for_key

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_read_as_they_were_sent(broker, codec):
    topic = make_topic(broker)
    sent = [
        {"key": b"k%d" % n, "value": b"value %d " % n * 20, "headers": [("n", b"%d" % n)], "timestamp": 10**12 + n}
        for n in range(500)
    ]
    # Linger instead of flush, for a large batch: librdkafka does not compress a batch that would not get smaller.
    send(a_producer(broker, compression__type=codec, linger__ms=50), topic, sent)
    found = [
        {"key": m.key(), "value": m.value(), "headers": m.headers(), "timestamp": m.timestamp()[1]}
        for m in read_all(broker, topic)
    ]
    assert found == sent
    assert {int(header.compression_type) for header in stored_headers(broker, topic)} == {CODECS[codec]}


@pytest.mark.parametrize("codec", CODECS)
def test_a_topic_with_its_own_codec_recompresses_batches(broker, codec):
    name = {"none": "uncompressed"}.get(codec, codec)
    topic = make_topic(broker, compression__type=name)
    sent = [b"value %d " % n * 20 for n in range(100)]
    send(a_producer(broker, compression__type="gzip" if codec != "gzip" else "lz4", linger__ms=50), topic, sent)
    assert values_of(broker, topic) == sent
    assert {int(header.compression_type) for header in stored_headers(broker, topic)} == {CODECS[codec]}


def test_null_and_empty_keys_and_values_differ(broker):
    topic = make_topic(broker)
    sent = [(None, None), (b"", b""), (None, b"v"), (b"k", None), (b"", None), (None, b""), (b"k", b"")]
    send(a_producer(broker), topic, [{"key": key, "value": value} for key, value in sent])
    assert [(message.key(), message.value()) for message in read_all(broker, topic)] == sent


def test_headers_keep_their_order_duplicates_and_nulls(broker):
    topic = make_topic(broker)
    headers = [("b", b"1"), ("a", None), ("b", b""), ("", b"nameless"), ("ünïcödé", bytes(range(256)))]
    send(a_producer(broker), topic, [{"value": b"v", "headers": headers}, {"value": b"w"}])
    first, second = read_all(broker, topic)
    assert first.headers() == headers
    assert second.headers() is None


def test_a_topic_has_create_time_or_log_append_time(broker):
    created, appended = make_topic(broker), make_topic(broker, message__timestamp__type="LogAppendTime")
    before = int(time.time() * 1000)
    for topic in (created, appended):
        send(a_producer(broker), topic, [{"value": b"v", "timestamp": 1_000_000 + n} for n in range(3)])
    assert [m.timestamp() for m in read_all(broker, created)] == [
        (TIMESTAMP_CREATE_TIME, 1_000_000 + n) for n in range(3)
    ]
    kinds, times = zip(*[message.timestamp() for message in read_all(broker, appended)], strict=True)
    assert set(kinds) == {TIMESTAMP_LOG_APPEND_TIME}
    assert all(before <= moment <= time.time() * 1000 for moment in times)


def test_many_records_in_large_batches_keep_their_order(broker):
    topic = make_topic(broker)
    sent = [b"%06d" % n * 15 for n in range(20_000)]
    producer = a_producer(broker, linger__ms=1000, batch__size=900_000)
    offsets = [report.offset() for report in send(producer, topic, sent)]
    assert offsets == list(range(20_000))
    assert values_of(broker, topic) == sent
    # By default some 160 fit into a batch. A slow machine sends one before it is full.
    assert max(header.record_count for header in stored_headers(broker, topic)) > 300


def test_a_record_just_below_the_limit_is_accepted_and_a_larger_one_is_refused(broker):
    topic = make_topic(broker)
    producer = a_producer(broker, message__max__bytes=3_000_000)
    large = bytes(1_000_000)
    send(producer, topic, [large])
    assert refusals_of(producer, topic, value=bytes(2_000_000)) == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert values_of(broker, topic) == [large]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement_writes_everything(broker, acks):
    topic = make_topic(broker)
    sent = [b"%d" % n for n in range(100)]
    reports = send(a_producer(broker, acks=acks), topic, sent)
    if acks != "0":
        assert [report.offset() for report in reports] == list(range(100))
    deadline = time.monotonic() + SECONDS
    while len(values_of(broker, topic)) < 100 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert values_of(broker, topic) == sent


def test_an_idempotent_producer_keeps_order_over_many_requests_in_flight(broker):
    topic = make_topic(broker)
    producer = a_producer(broker, enable__idempotence=True, linger__ms=0, batch__num__messages=5)
    sent = [b"%d" % n for n in range(1000)]
    assert [report.offset() for report in send(producer, topic, sent)] == list(range(1000))
    assert values_of(broker, topic) == sent
    headers = stored_headers(broker, topic)
    assert len(headers) > 100
    assert len({header.producer_id for header in headers}) == 1
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


@pytest.mark.parametrize(
    ("partitioner", "expected"),
    [
        ("consistent", lambda key: zlib.crc32(key) % 7),
        ("murmur2", lambda key: partition_for_key(key, 7)),
    ],
)
def test_keys_choose_partitions_by_their_hash(broker, partitioner, expected):
    topic = make_topic(broker, partition_count=7)
    keys = [b"%d" % n for n in range(200)] + [b"k" * n for n in range(1, 20)]
    send(a_producer(broker, partitioner=partitioner), topic, [{"key": key, "value": key} for key in keys])
    found = {message.key(): message.partition() for message in read_all(broker, topic)}
    assert found == {key: expected(key) for key in keys}
    assert set(found.values()) == set(range(7))


def test_producing_creates_the_topic(broker):
    topic = broker.name()
    send(a_producer(broker), topic, [b"first"])
    assert values_of(broker, topic) == [b"first"]


def test_a_consumer_of_a_missing_topic_gets_an_error_and_creates_no_topic(broker):
    topic = broker.name()
    reader = a_consumer(broker, broker.name("g"))
    reader.subscribe([topic])
    errors, deadline = [], time.monotonic() + SECONDS
    while not errors and time.monotonic() < deadline:
        message = reader.poll(0.1)
        if message is not None:
            errors.append(message.error().code())
    assert errors == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert topic not in reader.list_topics(timeout=SECONDS).topics
    reader.close()


def test_a_consumer_seeks_by_offset_and_by_time(broker):
    topic = make_topic(broker, partition_count=2)
    base = 1_700_000_000_000
    records = [{"value": b"%d" % n, "partition": 0, "timestamp": base + 1000 * n} for n in range(10)]
    send(a_producer(broker, linger__ms=0), topic, records)
    reader = a_consumer(broker)

    def offset_at(timestamp, partition=0):
        asked = [TopicPartition(topic, partition, timestamp)]
        return reader.offsets_for_times(asked, timeout=SECONDS)[0].offset

    assert [offset_at(base + ms) for ms in (-5, 0, 1, 4000, 8999)] == [0, 0, 1, 4, 9]
    assert offset_at(base + 9001) == OFFSET_END
    assert offset_at(base, partition=1) == OFFSET_END
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), SECONDS) == (0, 10)
    assert reader.get_watermark_offsets(TopicPartition(topic, 1), SECONDS) == (0, 0)
    reader.assign([TopicPartition(topic, 0, offset_at(base + 4000))])
    assert [message.value() for message in take(reader, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    reader.seek(TopicPartition(topic, 0, 2))
    assert [message.offset() for message in take(reader, 8)] == list(range(2, 10))
    reader.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert take(reader, 1)[0].offset() == 0
    reader.close()


def test_an_offset_out_of_range_is_reset_as_the_consumer_configures(broker):
    topic = make_topic(broker)
    send(a_producer(broker), topic, [b"a", b"b"])
    earliest, strict = a_consumer(broker), a_consumer(broker, auto__offset__reset="error")
    earliest.assign([TopicPartition(topic, 0, 77)])
    assert [message.value() for message in take(earliest, 2)] == [b"a", b"b"]
    strict.assign([TopicPartition(topic, 0, 77)])
    error = strict.poll(SECONDS).error()
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    assert "out of range" in error.str()
    earliest.close()
    strict.close()


def test_a_paused_partition_returns_no_records_until_it_is_resumed(broker):
    topic = make_topic(broker, partition_count=2)
    reader = a_consumer(broker)
    partitions = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in (0, 1)]
    reader.assign(partitions)
    reader.pause(partitions[:1])
    send(a_producer(broker), topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(10)])
    assert [message.value() for message in take(reader, 5)] == [b"1", b"3", b"5", b"7", b"9"]
    assert reader.poll(0.3) is None
    reader.resume(partitions[:1])
    assert [message.value() for message in take(reader, 5)] == [b"0", b"2", b"4", b"6", b"8"]
    reader.close()


def test_a_consumer_with_a_small_limit_still_gets_larger_batches(broker):
    topic = make_topic(broker)
    sent = [b"%d" % n * 3000 for n in range(10)]
    send(a_producer(broker, linger__ms=100), topic, sent)
    limits = {"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1_000_000, "receive.message.max.bytes": 1_100_000}
    assert values_of(broker, topic, **limits) == sent


def test_a_waiting_fetch_is_answered_when_a_record_arrives(broker):
    topic = make_topic(broker)
    reader, producer = a_consumer(broker, fetch__wait__max__ms=20_000), a_producer(broker)
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    poll_until(lambda: reader.position([TopicPartition(topic, 0)]) is not None, reader)
    assert reader.poll(0.5) is None
    begun = time.monotonic()
    send(producer, topic, [b"now"])
    assert reader.poll(SECONDS).value() == b"now"
    assert time.monotonic() - begun < 15
    reader.close()


def refusals_of(producer, topic, **given):
    """Sends one record and returns the code of the error that its report must have."""
    codes = []
    producer.produce(topic, on_delivery=lambda error, _: codes.append(error.code()), **given)
    assert producer.flush(SECONDS) == 0
    return codes


def test_a_partition_that_does_not_exist_is_refused(broker):
    topic = make_topic(broker, partition_count=2)
    assert refusals_of(a_producer(broker), topic, value=b"v", partition=9) == [KafkaError._UNKNOWN_PARTITION]
    assert values_of(broker, topic) == []


def test_a_compacted_topic_requires_keys(broker):
    topic = make_topic(broker, cleanup__policy="compact")
    producer = a_producer(broker)
    assert refusals_of(producer, topic, value=b"keyless") == [KafkaError.INVALID_RECORD]
    send(producer, topic, [{"key": b"k", "value": b"v"}])
    assert values_of(broker, topic) == [b"v"]


def test_ten_bad_records_of_a_batch_are_named_and_the_others_can_be_sent_again(broker):
    topic = make_topic(broker, cleanup__policy="compact")
    producer = a_producer(broker, linger__ms=200, batch__num__messages=100)
    outcomes = {}

    def produce(number, key):
        producer.produce(
            topic,
            b"%d" % number,
            key,
            on_delivery=lambda error, message: outcomes.update({number: error and error.code()}),
        )

    for number in range(100):
        produce(number, None if number % 10 == 3 else b"%d" % number)
    producer.flush(SECONDS)
    bad = {number for number, code in outcomes.items() if code == KafkaError.INVALID_RECORD}
    assert bad == set(range(3, 100, 10))
    others = {number for number, code in outcomes.items() if code == KafkaError._INVALID_DIFFERENT_RECORD}
    assert others == set(range(100)) - bad
    for number in others:
        produce(number, b"%d" % number)
    producer.flush(SECONDS)
    assert {number for number, code in outcomes.items() if code is None} == others
    assert {int(value) for value in values_of(broker, topic)} == others
