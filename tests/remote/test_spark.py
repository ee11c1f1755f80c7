"""`format("streamlog")` with `kafka.bootstrap.servers` at a broker: batch and stream, read and write.

What needs no Spark to be seen is in `test_source`; so of these only a few run by default.
"""

import pytest
from pyspark.sql import functions as F
from support.brokers.reachable_broker import PEMS
from support.clients.transacting import begin, write

from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record

pytestmark = pytest.mark.spark


@pytest.fixture
def options(broker, topic):
    return {"kafka.bootstrap.servers": broker.bootstrap(), "subscribe": topic}


def fill(client, topic, count, *, first=0, partitions=2):
    for partition in range(partitions):
        records = [
            Record(key=b"k", value=b"%d" % number, timestamp_ms=1000 + number, headers=(("h", b"x"),))
            for number in range(first, first + count)
            if number % partitions == partition
        ]
        client.append(TopicPartition(topic, partition), build_batch(records))


def values(frame):
    return sorted(int(row.value) for row in frame.selectExpr("CAST(value AS STRING) AS value").collect())


def save(frame, broker, topic, **given):
    writer = frame.write.format("streamlog").mode("append").option("topic", topic)
    settings = {f"kafka.{name}": value for name, value in broker.settings().items()} | given
    writer.options(**settings).save()


@pytest.mark.long
def test_a_batch_reads_every_column(spark, client, topic, options):
    fill(client, topic, 100)
    frame = spark.read.format("streamlog").options(**options, includeHeaders="true").load()
    assert values(frame) == list(range(100))
    row = frame.where("CAST(value AS STRING) = '7'").first()
    assert (bytes(row.key), row.topic, row.partition, row.offset) == (b"k", topic, 1, 3)
    assert (row.timestampType, row.headers[0].key, bytes(row.headers[0].value)) == (0, "h", b"x")


@pytest.mark.long
def test_a_batch_between_offsets_and_timestamps(spark, client, topic, options):
    fill(client, topic, 100)
    bounded = {
        "startingOffsets": f'{{"{topic}":{{"0":10,"1":-2}}}}', "endingOffsets": f'{{"{topic}":{{"0":20,"1":5}}}}',
    }  # fmt: skip
    frame = spark.read.format("streamlog").options(**options, **bounded).load()
    assert frame.groupBy("partition").count().orderBy("partition").collect() == [(0, 10), (1, 5)]
    by_time = spark.read.format("streamlog").options(**options, startingTimestamp="1090", minPartitions="6").load()
    assert values(by_time) == list(range(90, 100))


@pytest.mark.long
def test_a_batch_over_tls_with_a_login(spark, broker, client, topic):
    fill(client, topic, 10)
    given = {f"kafka.{name}": value for name, value in broker.settings("SASL_SSL").items()}
    assert given["kafka.ssl.truststore.location"] == str(PEMS / "authority.pem")
    assert values(spark.read.format("streamlog").options(**given, subscribe=topic).load()) == list(range(10))


def test_a_batch_is_written_and_read_again(spark, broker, topic, options):
    frame = spark.range(2000).select(F.col("id").cast("string").alias("value"), F.col("id").cast("string").alias("key"))
    save(frame, broker, topic, **{"kafka.compression.type": "zstd"})
    assert values(spark.read.format("streamlog").options(**options).load()) == list(range(2000))


@pytest.mark.long
def test_a_write_creates_the_topic(spark, broker, client):
    name = broker.name("made")
    save(spark.range(10).select(F.col("id").cast("string").alias("value")), broker, name, **{"topic.partitions": "3"})
    assert client.describe_topics([name])[name].partition_count == 3


@pytest.mark.long
def test_a_record_that_is_too_large_is_refused(spark, broker, client, topic):
    client.alter_topic_configs(topic, {"max.message.bytes": "2000"})
    frame = spark.range(1).select(F.lit("x" * 5000).alias("value"))
    with pytest.raises(Exception, match=r"STREAMLOG_RECORD_TOO_LARGE.*max\.message\.bytes"):
        save(frame, broker, topic)


@pytest.mark.long
def test_a_missing_topic_and_an_unreachable_broker(spark, options):
    with pytest.raises(Exception, match="STREAMLOG_UNKNOWN_TOPICS"):
        spark.read.format("streamlog").options(**options | {"subscribe": "nope"}).load().count()
    gone = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500", "subscribe": "t"}
    with pytest.raises(Exception, match=r"STREAMLOG_BROKER_UNAVAILABLE.*127.0.0.1:1 cannot be reached"):
        spark.read.format("streamlog").options(**gone).load().count()


def test_a_stream_copies_a_topic_and_continues_from_its_checkpoint(spark, broker, client, topic, options, tmp_path):
    target = broker.name("copy")
    client.create_topic(target, partition_count=2, configs={"retention.ms": "-1"})

    def run():
        frame = spark.readStream.format("streamlog").options(
            **options, startingOffsets="earliest", maxOffsetsPerTrigger="60"
        )
        writer = frame.load().select("key", "value").writeStream.format("streamlog").trigger(availableNow=True)
        settings = {f"kafka.{name}": value for name, value in broker.settings().items()}
        settings |= {"topic": target, "checkpointLocation": str(tmp_path / "checkpoint")}
        query = writer.options(**settings).start()
        assert query.awaitTermination(120)
        assert query.exception() is None

    fill(client, topic, 200)
    run()
    fill(client, topic, 50, first=200)
    run()
    copied = spark.read.format("streamlog").options(**options | {"subscribe": target}).load()
    assert values(copied) == list(range(250))


@pytest.mark.long
def test_aborted_records_are_read_only_with_read_uncommitted(spark, broker, client, topic, options):
    partition = TopicPartition(topic, 0)
    for value, is_commit in (("0", False), ("1", True)):
        producer = begin(client, broker.name("x"), partition)
        write(client, producer, partition, value)
        client.end_transaction(producer, commit=is_commit)
    assert values(spark.read.format("streamlog").options(**options).load()) == [1]
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    assert values(spark.read.format("streamlog").options(**options, **uncommitted).load()) == [0, 1]
