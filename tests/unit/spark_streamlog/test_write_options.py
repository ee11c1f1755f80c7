"""The sink's options: what is taken, what is refused, and in which words."""

import pickle

import pytest

from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import DEFAULT_WRITE_BATCH_BYTES, MAX_PARTITION_COUNT
from spark_streamlog.errors import ConditionError
from spark_streamlog.write_options import Delivery, parse_write_options


def parsed(**options):
    return parse_write_options({"path": "/data/log", **options})


def refusal(options):
    with pytest.raises(ConditionError) as caught:
        parse_write_options({"path": "/data/log", **options})
    assert caught.value.condition == "STREAMLOG_INVALID_OPTIONS"
    return str(caught.value)


def test_a_path_is_enough():
    options = parsed()
    assert str(options.target) == "/data/log"
    assert options.topic is None
    assert options.new_topic_partition_count is None
    assert options.delivery is Delivery.AT_LEAST_ONCE
    assert options.producer.compression is CompressionType.NONE
    assert options.producer.max_batch_bytes == DEFAULT_WRITE_BATCH_BYTES


def test_option_names_ignore_case_and_values_keep_it():
    options = parse_write_options({"PATH": "/Data", "Topic": "Orders", "TOPIC.partitions": "3"})
    assert (str(options.target), options.topic, options.new_topic_partition_count) == ("/Data", "Orders", 3)


def test_options_travel_to_the_tasks():
    options = parsed(topic="t")
    assert pickle.loads(pickle.dumps(options)) == options


def test_what_spark_and_a_source_may_add_is_passed_over():
    parsed(checkpointLocation="/c", queryName="q", includeHeaders="true")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_codec_is_one_of_kafkas(codec):
    assert parsed(**{"kafka.compression.type": codec}).producer.compression is CompressionType[codec.upper()]


def test_a_level_goes_with_its_codec():
    options = {
        "kafka.compression.type": "zstd",
        "kafka.compression.zstd.level": "7",
        "kafka.compression.gzip.level": "1",
    }
    assert parsed(**options).producer.compression_level == 7
    assert parsed(**{"kafka.compression.zstd.level": "7"}).producer.compression_level is None


def test_batch_and_request_sizes_are_taken():
    producer = parsed(**{"kafka.batch.size": "16384", "kafka.max.request.size": "2000000"}).producer
    assert (producer.max_batch_bytes, producer.max_request_bytes) == (16384, 2_000_000)
    assert parsed(**{"kafka.batch.size": "0"}).producer.max_batch_bytes == 1  # Kafka's word for: do not batch


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.acks", "all"), ("kafka.acks", "-1"), ("kafka.acks", "1"), ("kafka.linger.ms", "5"),
        ("kafka.retries", "3"), ("kafka.client.id", "me"), ("kafka.enable.idempotence", "true"),
        ("delivery", "At-Least-Once"), ("kafka.max.in.flight.requests.per.connection", "5"),
    ],
)  # fmt: skip
def test_settings_that_are_fulfilled_anyway_are_accepted(name, value):
    parsed(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("kafka.acks", "2", "kafka.acks must be one of all, -1, 1, 0"),
        ("kafka.compression.type", "brotli", "kafka.compression.type must be one of none, gzip, snappy, lz4, zstd"),
        ("kafka.compression.gzip.level", "0", "kafka.compression.gzip.level must be -1 or from 1 to 9"),
        ("kafka.compression.zstd.level", "23", "zstd.level must be a whole number from -131072 to 22"),
        ("kafka.batch.size", "-1", "kafka.batch.size must be a whole number"),
        ("kafka.linger.ms", "soon", "kafka.linger.ms must be a whole number"),
        ("kafka.key.serializer", "x", "kafka.key.serializer is not supported"),
        ("kafka.value.serializer", "x", "kafka.value.serializer is not supported"),
        ("kafka.interceptor.classes", "x", "kafka.interceptor.classes is not supported"),
        ("kafka.partitioner.class", "x", "kafka.partitioner.class is not supported"),
        ("kafka.transactional.id", "x", "kafka.transactional.id is not supported"),
        ("kafka.enable.idempotence", "false", "kafka.enable.idempotence cannot be switched off"),
        ("kafka.compresion.type", "lz4", "kafka.compresion.type is not an option of the streamlog sink"),
        ("kafka.bootstrap.servers", "h:9092", "path names a directory and kafka.bootstrap.servers brokers"),
        ("topic", " ", "topic is empty"),
        ("topic", "", "topic is empty"),
        ("topic", "a/b", "topic: Topic name is invalid: 'a/b' contains"),
        ("topic", "..", "topic: Topic name is invalid: '..' is not allowed"),
        ("topic", "x" * 250, "longer than the max allowed length 249"),
        ("topic", "__consumer_offsets", "'__consumer_offsets' is internal: only the log itself writes to it"),
        ("topic.partitions", "0", "topic.partitions must be a whole number from 1"),
        ("topic.partitions", str(MAX_PARTITION_COUNT + 1), f"to {MAX_PARTITION_COUNT}"),
        ("delivery", "exactly-once", "delivery=exactly-once is not available in this version"),
        ("delivery", "at-most-once", "delivery must be one of at-least-once"),
        ("topik", "t", "did you mean topic?"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_by_name(name, value, words):
    assert words in refusal({name: value})


def test_all_complaints_come_at_once():
    message = refusal({"kafka.acks": "2", "kafka.value.serializer": "x", "topik": "t"})
    assert message.startswith("[STREAMLOG_INVALID_OPTIONS] 3 option(s)")


def test_the_largest_partition_count_is_taken():
    assert parsed(**{"topic.partitions": str(MAX_PARTITION_COUNT)}).new_topic_partition_count == MAX_PARTITION_COUNT
