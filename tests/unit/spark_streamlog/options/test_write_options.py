"""The sink's options: what is taken, what is refused, and in which words."""

import pickle

import pytest

from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import (
    DEFAULT_WRITE_BATCH_BYTES,
    MAX_APPLICATION_ID_CHARACTERS,
    MAX_PARTITION_COUNT,
    MAX_TRANSACTION_TIMEOUT_MS,
)
from broker_core.topic_producer import TopicCreation
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.write_options import ApplicationVersion, Delivery, NewTopics, parse_write_options


def parsed(kind=QueryKind.BATCH, **options):
    return parse_write_options({"path": "/data/log", **options}, kind)


def refusal(options, kind=QueryKind.BATCH):
    with pytest.raises(ConditionError) as caught:
        parse_write_options({"path": "/data/log", **options}, kind)
    assert caught.value.condition == "STREAMLOG_INVALID_OPTIONS"
    return str(caught.value)


def test_a_path_is_the_only_required_option():
    options = parsed()
    assert str(options.target) == "/data/log"
    assert options.topic is None
    assert options.new_topics == NewTopics(creation=TopicCreation.AUTO, partition_count=None, configs={})
    assert options.delivery is Delivery.EXACTLY_ONCE
    assert options.application is None
    assert options.transaction_timeout_ms == MAX_TRANSACTION_TIMEOUT_MS
    assert options.producer.compression is CompressionType.NONE
    assert options.producer.max_batch_bytes == DEFAULT_WRITE_BATCH_BYTES


def test_option_names_are_case_insensitive_and_values_keep_their_case():
    options = parse_write_options({"PATH": "/Data", "Topic": "Orders", "TOPIC.partitions": "3"}, QueryKind.STREAM)
    assert (str(options.target), options.topic, options.new_topics.partition_count) == ("/Data", "Orders", 3)


def test_write_options_can_be_pickled():
    options = parsed(topic="t")
    assert pickle.loads(pickle.dumps(options)) == options


def test_options_of_spark_and_of_the_source_are_ignored():
    parsed(checkpointLocation="/c", queryName="q", includeHeaders="true")


def test_only_a_stream_uses_the_checkpoint_location():
    assert parsed(QueryKind.STREAM, checkpointLocation="/c").checkpoint_location == "/c"
    assert parsed(QueryKind.BATCH, checkpointLocation="/c").checkpoint_location is None


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", " At-Least-Once "])
def test_at_least_once_delivery_accepts_a_transaction_timeout(delivery):
    options = parsed(delivery=delivery, **{"kafka.transaction.timeout.ms": "86400000"})
    assert options.delivery.value == delivery.strip().lower()
    assert options.transaction_timeout_ms == 86_400_000


def test_txn_app_id_and_txn_version_identify_a_write_as_in_delta():
    options = parsed(txnAppId="Orders", txnVersion=str(2**63 - 1))
    assert options.application == ApplicationVersion(app_id="Orders", version=2**63 - 1)
    assert parsed(txnAppId="x" * MAX_APPLICATION_ID_CHARACTERS, txnVersion="0").application is not None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"txnVersion": "-1"}, "txnVersion must be a whole number from 0"),
        ({"txnVersion": str(2**63)}, "txnVersion must be a whole number from 0"),
        ({"txnVersion": "v1"}, "txnVersion must be a whole number from 0"),
        ({"txnAppId": " "}, "txnAppId must have 1 to 256 characters and must not be blank"),
        ({"txnAppId": "x" * (MAX_APPLICATION_ID_CHARACTERS + 1)}, "txnAppId must have 1 to 256 characters"),
        ({"delivery": "at-least-once"}, "txnAppId and txnVersion need delivery=exactly-once"),
    ],
)
def test_an_invalid_txn_app_id_or_txn_version_is_refused(given, words):
    message = refusal({"txnAppId": "orders", "txnVersion": "1", **given})
    assert words in message
    assert "1 option(s)" in message


def test_a_stream_refuses_txn_app_id_and_txn_version():
    message = refusal({"txnAppId": "orders", "txnVersion": "1"}, QueryKind.STREAM)
    assert "txnAppId and txnVersion are for batch writes" in message


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_compression_type_is_one_of_kafkas(codec):
    assert parsed(**{"kafka.compression.type": codec}).producer.compression is CompressionType[codec.upper()]


def test_the_compression_level_is_that_of_the_codec():
    options = {
        "kafka.compression.type": "zstd",
        "kafka.compression.zstd.level": "7",
        "kafka.compression.gzip.level": "1",
    }
    assert parsed(**options).producer.compression_level == 7
    assert parsed(**{"kafka.compression.zstd.level": "7"}).producer.compression_level is None


def test_batch_and_request_sizes_are_producer_settings():
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
def test_settings_that_the_sink_always_fulfils_are_accepted(name, value):
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
        ("kafka.enable.idempotence", "false", "kafka.enable.idempotence cannot be false"),
        ("kafka.compresion.type", "lz4", "kafka.compresion.type is not an option of the streamlog sink"),
        ("kafka.bootstrap.servers", "h:9092", "path names a directory and kafka.bootstrap.servers names brokers"),
        ("topic", " ", "topic is empty"),
        ("topic", "", "topic is empty"),
        ("topic", "a/b", "topic: Topic name is invalid: 'a/b' contains"),
        ("topic", "..", "topic: Topic name is invalid: '..' is not allowed"),
        ("topic", "x" * 250, "longer than the max allowed length 249"),
        ("topic", "__consumer_offsets", "'__consumer_offsets' is an internal topic: only the log"),
        ("topic.partitions", "0", "topic.partitions must be a whole number from 1"),
        ("topic.partitions", str(MAX_PARTITION_COUNT + 1), f"to {MAX_PARTITION_COUNT}"),
        ("topic.create", "maybe", "topic.create must be one of auto, true, false"),
        ("topic.config.retention.msx", "1", "topic.config.*: Unknown topic config name: retention.msx. Did you mean"),
        ("topic.config.retention.ms", "soon", "topic.config.*: Invalid value soon for configuration retention.ms"),
        ("topic.config.", "soon", "topic.config. is not an option of the streamlog sink"),
        ("delivery", "at-most-once", "delivery must be one of exactly-once, at-least-once"),
        ("kafka.transaction.timeout.ms", "0", "kafka.transaction.timeout.ms must be a whole number from 1 to 86400000"),
        ("kafka.transaction.timeout.ms", "86400001", "from 1 to 86400000, not '86400001'"),
        ("txnAppId", "orders", "txnAppId and txnVersion must be set together"),
        ("txnVersion", "1", "txnAppId and txnVersion must be set together"),
        ("topik", "t", "did you mean topic?"),
        ("partitions", "3", "did you mean topic.partitions?"),
        ("subscribe", "t", "subscribe is for reading: set the option topic to the topic to write to"),
        ("subscribePattern", "t.*", "subscribePattern is for reading"),
        ("assign", '{"t":[0]}', "assign is for reading"),
    ],
)  # fmt: skip
def test_an_unsupported_option_is_refused_by_name(name, value, words):
    assert words in refusal({name: value})


def test_topic_options_define_how_a_missing_topic_is_created():
    given = {"topic.create": "TRUE", "topic.partitions": "3", "Topic.Config.Retention.MS": "-1"}
    assert parsed(**given).new_topics == NewTopics(
        creation=TopicCreation.ALWAYS, partition_count=3, configs={"retention.ms": "-1"}
    )


def test_topic_options_are_ignored_if_topics_are_never_created():
    options = parsed(**{"topic.create": "false", "topic.partitions": "3", "topic.config.retention.ms": "-1"})
    assert options.new_topics.creation is TopicCreation.NEVER
    assert options.ignored == ("topic.config.retention.ms", "topic.partitions")


def test_all_complaints_are_reported_together():
    message = refusal({"kafka.acks": "2", "kafka.value.serializer": "x", "topik": "t"})
    assert message.startswith("[STREAMLOG_INVALID_OPTIONS] 3 option(s)")


def test_the_largest_partition_count_is_accepted():
    assert parsed(**{"topic.partitions": str(MAX_PARTITION_COUNT)}).new_topics.partition_count == MAX_PARTITION_COUNT
