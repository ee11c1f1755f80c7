"""`format("kafka")` in streams: read and write; and copies between it and `format("streamlog")` at the same broker."""

import json

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from support.clients.confluent_clients import SECONDS, a_producer, an_admin, make_topic, read_all, send
from support.spark.spark_kafka_process import ProcessFailed

DAY_MS = 86_400_000
BEGIN_MS = 1_700_000_000_000


def options(broker, topic, **given):
    """Of a stream that begins at the earliest offsets; `__` in a name stands for a dot."""
    named = {name.replace("__", "."): value for name, value in given.items()}
    base = {"kafka.bootstrap.servers": broker.bootstrap(), "subscribe": topic, "startingOffsets": "earliest"}
    return base | named


def fill(broker, topic, values, partition=None):
    place = {} if partition is None else {"partition": partition}
    send(a_producer(broker), topic, [{"value": f"{value}", **place} for value in values])


def read_values(spark, folder):
    return sorted(int(row["value"]) for row in spark.files(folder=folder))


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "files")


def test_a_stream_reads_existing_records_and_continues_from_its_checkpoint(spark, broker, folder):
    topic = make_topic(broker, 2)
    fill(broker, topic, range(100))
    reading = options(broker, topic, maxOffsetsPerTrigger=30)
    sizes = spark.stream_to_files(options=reading, folder=folder)
    assert sum(sizes) == 100
    assert max(sizes) <= 30
    assert read_values(spark, folder) == list(range(100))

    admin = an_admin(broker)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS)
    fill(broker, topic, range(100, 110), partition=2)
    fill(broker, topic, range(110, 120), partition=0)
    assert sum(spark.stream_to_files(options=reading, folder=folder)) == 20
    assert read_values(spark, folder) == list(range(120))
    assert sum(spark.stream_to_files(options=reading, folder=folder)) == 0
    assert read_values(spark, folder) == list(range(120))


def test_a_stream_starts_at_offsets_or_timestamps(spark, broker, tmp_path):
    topic = make_topic(broker, 2)
    records = [
        {"value": f"{number}{day}", "partition": number, "timestamp": BEGIN_MS + day * DAY_MS}
        for number in range(2)
        for day in range(10)
    ]
    send(a_producer(broker), topic, records)
    times = {topic: {"0": BEGIN_MS + 9 * DAY_MS, "1": BEGIN_MS + 7 * DAY_MS}}
    for n, (given, expected) in enumerate(
        (
            ({"startingOffsets": json.dumps({topic: {"0": 8, "1": -2}})}, [8, 9, *range(10, 20)]),
            ({"startingTimestamp": BEGIN_MS + 8 * DAY_MS}, [8, 9, 18, 19]),
            ({"startingOffsetsByTimestamp": json.dumps(times)}, [9, 17, 18, 19]),
        )
    ):  # fmt: skip
        place = str(tmp_path / f"files{n}")
        spark.stream_to_files(options=options(broker, topic, minPartitions=5, **given), folder=place)
        assert read_values(spark, place) == expected


def test_a_running_stream_reads_new_records_and_survives_a_broker_restart(spark, broker, folder):
    topic = make_topic(broker, 2)
    query = f"q-{topic}"
    spark.stream_to_files(options=options(broker, topic, includeHeaders=True), folder=folder, name=query)
    for first in (0, 10, 20):
        if first == 20:
            broker.restart()
        fill(broker, topic, range(first, first + 10))
        spark.catch_up(name=query)
        assert read_values(spark, folder) == list(range(first + 10))
    assert sum(spark.stop(name=query)) == 30


def test_a_stream_finds_new_topics_of_its_pattern(spark, broker, folder):
    topic = make_topic(broker)
    fill(broker, topic, range(5))
    reading = options(broker, topic, subscribePattern=f"{topic}|no-such-.*")
    del reading["subscribe"]
    spark.stream_to_files(options=reading, folder=folder)
    assert read_values(spark, folder) == list(range(5))


def test_data_loss_fails_a_stream_unless_fail_on_data_loss_is_false(spark, broker, folder):
    topic = make_topic(broker)
    fill(broker, topic, range(10))
    reading = options(broker, topic)
    spark.stream_to_files(options=reading, folder=folder)
    fill(broker, topic, range(10, 30))
    admin = an_admin(broker)
    admin.delete_records([TopicPartition(topic, 0, 20)])[TopicPartition(topic, 0)].result(SECONDS)
    with pytest.raises(ProcessFailed, match=r"(?i)lost|data loss|failOnDataLoss"):
        spark.stream_to_files(options=reading, folder=folder)
    spark.stream_to_files(options=reading | {"failOnDataLoss": "false"}, folder=folder)
    assert read_values(spark, folder) == [*range(10), *range(20, 30)]


def test_a_read_committed_stream_skips_markers_and_aborted_records(spark, broker, folder):
    topic = make_topic(broker)
    producer = a_producer(broker, transactional__id=broker.name("x"))
    producer.init_transactions(30)
    for round_ in range(6):
        producer.begin_transaction()
        send(producer, topic, [f"{round_ * 3 + n}" for n in range(3)])
        (producer.abort_transaction if round_ % 2 else producer.commit_transaction)(30)
    reading = options(broker, topic, kafka__isolation__level="read_committed", maxOffsetsPerTrigger=4)
    spark.stream_to_files(options=reading, folder=folder)
    assert read_values(spark, folder) == [0, 1, 2, 6, 7, 8, 12, 13, 14]


@pytest.mark.parametrize(("source", "sink"), [("kafka", "kafka"), ("streamlog", "kafka"), ("kafka", "streamlog")])
def test_a_stream_copies_one_topic_to_another(spark, broker, tmp_path, source, sink):
    origin, target = make_topic(broker, 3), make_topic(broker, 3)
    records = [
        {
            "key": f"k{n}",
            "value": None if n % 50 == 0 else f"value ü {n}",
            "headers": [("h", f"{n}".encode()), ("e", b"")],
        }
        for n in range(300)
    ]
    send(a_producer(broker, compression__codec="lz4"), origin, records)
    reading = options(broker, origin, maxOffsetsPerTrigger=120)
    writing = {"kafka.bootstrap.servers": broker.bootstrap(), "topic": target}
    asked = {"source": source, "reading": reading, "sink": sink, "writing": writing, "checkpoint": str(tmp_path / "c")}
    assert sum(spark.copy(**asked)) == 300
    assert contents(broker, target) == contents(broker, origin)

    send(a_producer(broker), origin, [{"key": "late", "value": "one"}])
    assert sum(spark.copy(**asked)) == 1
    assert contents(broker, target) == contents(broker, origin)
    if sink == "kafka":
        return
    # Both read it alike, with the markers of our sink's transactions in between.
    whole = {"kafka.bootstrap.servers": broker.bootstrap(), "subscribe": target, "includeHeaders": "true"}
    theirs, ours = (
        spark.read(
            format=each, options=whole | {"kafka.isolation.level": "read_committed"} if each == "kafka" else whole
        )
        for each in ("kafka", "streamlog")
    )
    assert len(theirs) == 301
    assert sorted(theirs, key=_place) == sorted(ours, key=_place)


def _place(row):
    return row["partition"], row["offset"]


def contents(broker, topic):
    """Of each partition, in order: what a copy keeps."""
    found = {}
    for message in read_all(broker, topic, isolation__level="read_committed"):
        record = (message.key(), message.value(), message.headers())
        found.setdefault(message.partition(), []).append(record)
    return found
