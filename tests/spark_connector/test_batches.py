"""`format("kafka")` in batches: read and write."""

import json

import pytest
from support.brokers.reachable_broker import PASSWORD, PEMS, USER
from support.clients.confluent_clients import a_producer, make_topic, read_all, send
from support.spark.spark_kafka_process import ProcessFailed

DAY_MS = 86_400_000
BEGIN_MS = 1_700_000_000_000
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def options(broker, topic, **given):
    """Of a reader; `__` in a name stands for a dot."""
    named = {name.replace("__", "."): value for name, value in given.items()}
    return {"kafka.bootstrap.servers": broker.bootstrap(), "subscribe": topic} | named


def read(spark, broker, topic, **given):
    return spark.read(format="kafka", options=options(broker, topic, **given))


def values(rows):
    return sorted(row["value"] for row in rows)


@pytest.fixture
def days(broker):
    """Two partitions with a record a day, ten days each."""
    topic = make_topic(broker, 2)
    records = [
        {"value": f"{number}/{day}", "partition": number, "timestamp": BEGIN_MS + day * DAY_MS}
        for number in range(2)
        for day in range(10)
    ]
    send(a_producer(broker), topic, records)
    return topic


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_column_of_another_producers_records_is_read(spark, broker, codec):
    topic = make_topic(broker, 2)
    records = [
        {"key": f"k{n}", "value": f"{codec} {n}", "headers": [("h", b"1"), ("h", None)], "timestamp": BEGIN_MS + n}
        for n in range(50)
    ]
    records += [{"key": None, "value": "no key"}, {"key": "gone", "value": None}, {"key": "", "value": ""}]
    send(a_producer(broker, compression__codec=codec), topic, records)
    rows = read(spark, broker, topic, includeHeaders=True)
    theirs = [
        {
            "key": _text(message.key()), "value": _text(message.value()), "topic": topic,
            "partition": message.partition(), "offset": message.offset(), "timestamp": message.timestamp()[1],
            "headers": [{"key": key, "value": _text(value)} for key, value in message.headers() or ()] or None,
        }
        for message in read_all(broker, topic)
    ]  # fmt: skip
    assert len(rows) == 53
    assert sorted(rows, key=_place) == sorted(theirs, key=_place)


def _text(data):
    return None if data is None else data.decode()


def _place(row):
    return row["partition"], row["offset"]


def test_a_batch_reads_between_offsets_or_timestamps(spark, broker, days):
    offsets = [json.dumps({days: {"0": first, "1": second}}) for first, second in ((3, -2), (5, 2))]
    rows = read(spark, broker, days, startingOffsets=offsets[0], endingOffsets=offsets[1])
    assert values(rows) == ["0/3", "0/4", "1/0", "1/1"]
    whole = {"startingTimestamp": BEGIN_MS + 7 * DAY_MS, "endingTimestamp": BEGIN_MS + 8 * DAY_MS}
    assert values(read(spark, broker, days, **whole)) == ["0/7", "1/7"]
    times = [
        json.dumps({days: {"0": BEGIN_MS + a * DAY_MS + 1, "1": BEGIN_MS + b * DAY_MS}}) for a, b in ((1, 9), (3, 20))
    ]
    rows = read(spark, broker, days, startingOffsetsByTimestamp=times[0], endingOffsetsByTimestamp=times[1])
    assert values(rows) == ["0/2", "0/3", "1/9"]
    late = {"startingTimestamp": BEGIN_MS + 20 * DAY_MS}
    with pytest.raises(ProcessFailed, match="No offset matched"):
        read(spark, broker, days, **late, startingOffsetsByTimestampStrategy="error")
    assert read(spark, broker, days, **late, startingOffsetsByTimestampStrategy="latest") == []


def test_min_partitions_does_not_change_the_rows(spark, broker, days):
    assert spark.partition_count(options=options(broker, days, minPartitions=7)) >= 7
    rows = read(spark, broker, days, minPartitions=7)
    assert values(rows) == sorted(f"{number}/{day}" for number in range(2) for day in range(10))


def test_topics_are_selected_by_pattern_and_partitions_by_assign(spark, broker, days):
    other = make_topic(broker)
    send(a_producer(broker), other, [b"other"])
    base = {"kafka.bootstrap.servers": broker.bootstrap()}
    by_pattern = spark.read(format="kafka", options=base | {"subscribePattern": f"{days}|{other}"})
    assert {row["topic"] for row in by_pattern} == {days, other}
    assert len(by_pattern) == 21
    assigned = spark.read(format="kafka", options=base | {"assign": json.dumps({days: [1]})})
    assert values(assigned) == [f"1/{day}" for day in range(10)]


def test_records_are_written_with_all_their_columns(spark, broker):
    first, second = make_topic(broker, 3), make_topic(broker)
    records = [
        {
            "topic": first if n % 3 else second, "partition": n % 3 if n % 3 else 0, "key": f"k{n}",
            "value": None if n == 7 else f"value ü {n}", "headers": [{"key": "h", "value": f"{n}"}],
        }
        for n in range(30)
    ]  # fmt: skip
    spark.write(format="kafka", options={"kafka.bootstrap.servers": broker.bootstrap()}, records=records)
    written = [
        (message.topic(), message.partition(), message.key().decode(), _text(message.value()), message.headers())
        for topic in (first, second)
        for message in read_all(broker, topic)
    ]
    assert sorted(written, key=str) == sorted(
        [
            (r["topic"], r["partition"], r["key"], r["value"], [("h", r["headers"][0]["value"].encode())])
            for r in records
        ],
        key=str,
    )


def test_keys_choose_the_same_partitions_as_kafkas_producer(spark, broker):
    topic = make_topic(broker, 7)
    records = [{"key": f"key {n}", "value": "spark"} for n in range(100)]
    writing = {"kafka.bootstrap.servers": broker.bootstrap(), "topic": topic, "kafka.compression.type": "zstd"}
    spark.write(format="kafka", options=writing, records=records)
    murmur = a_producer(broker, partitioner="murmur2_random")
    send(murmur, topic, [{"key": record["key"], "value": "other"} for record in records])
    places = {"spark": {}, "other": {}}
    for message in read_all(broker, topic):
        places[message.value().decode()][message.key()] = message.partition()
    assert len(places["spark"]) == 100
    assert places["spark"] == places["other"]


def test_read_committed_hides_aborted_and_open_transactions(spark, broker):
    topic = make_topic(broker)
    producer = a_producer(broker, transactional__id=broker.name("x"))
    producer.init_transactions(30)
    for name, end in (("a", producer.commit_transaction), ("b", producer.abort_transaction), ("c", None)):
        producer.begin_transaction()
        send(producer, topic, [f"{name}{n}" for n in range(3)])
        if end:
            end(30)
    committed = {"kafka__isolation__level": "read_committed"}
    assert values(read(spark, broker, topic, **committed)) == ["a0", "a1", "a2"]
    assert len(read(spark, broker, topic)) == 9
    producer.commit_transaction(30)
    assert values(read(spark, broker, topic, **committed)) == ["a0", "a1", "a2", "c0", "c1", "c2"]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_a_client_logs_in_over_tls_and_reads_and_writes(spark, broker, mechanism):
    topic = make_topic(broker)
    module = SCRAM.replace("scram.Scram", "plain.Plain") if mechanism == "PLAIN" else SCRAM
    secure = {
        "kafka.bootstrap.servers": broker.bootstrap("SASL_SSL"), "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism, "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(PEMS / "authority.pem"),
        "kafka.sasl.jaas.config": f'{module} username="{USER}" password="{PASSWORD}";',
    }  # fmt: skip
    spark.write(format="kafka", options=secure | {"topic": topic}, records=[{"value": mechanism}])
    assert values(spark.read(format="kafka", options=secure | {"subscribe": topic})) == [mechanism]
    wrong = {"kafka.sasl.jaas.config": f'{module} username="{USER}" password="wrong";'}
    with pytest.raises(ProcessFailed, match=r"Authentication failed|SaslAuthenticationException|invalid credentials"):
        spark.read(format="kafka", options=secure | wrong | {"subscribe": topic})
