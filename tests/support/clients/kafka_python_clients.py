"""kafka-python at the broker of a test: clients with short waits, and all that a topic holds."""

from __future__ import annotations

import time
from contextlib import contextmanager

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from support.brokers.reachable_broker import PASSWORD, PEMS, USER
from support.builders.wire_batches import wait_for_markers

SECONDS = 20
_IMPATIENT = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200, "retry_backoff_ms": 20}
_READING = {"fetch_max_wait_ms": 50, "auto_offset_reset": "earliest", "enable_auto_commit": False}


def settings_of(broker, listener="PLAINTEXT", **given):
    """What a client needs for a listener."""
    found = {"bootstrap_servers": broker.bootstrap(listener), "security_protocol": listener, **_IMPATIENT}
    if listener.startswith("SASL"):
        found |= {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    if listener.endswith("SSL"):
        found |= {"ssl_cafile": str(PEMS / "authority.pem")}
    return found | given


@contextmanager
def an_admin(broker, listener="PLAINTEXT", **given):
    client = KafkaAdminClient(**settings_of(broker, listener, **given))
    try:
        yield client
    finally:
        client.close()


@contextmanager
def a_producer(broker, listener="PLAINTEXT", **given):
    producer = KafkaProducer(**settings_of(broker, listener, **given))
    try:
        yield producer
    finally:
        producer.close(timeout=SECONDS)


def an_open_consumer(broker, group=None, listener="PLAINTEXT", **given):
    """One that the test closes."""
    return KafkaConsumer(**settings_of(broker, listener, **{"group_id": group, **_READING, **given}))


@contextmanager
def a_consumer(broker, group=None, listener="PLAINTEXT", **given):
    consumer = an_open_consumer(broker, group, listener, **given)
    try:
        yield consumer
    finally:
        consumer.close(autocommit=False)


def subscribe(consumer, topic, listener=None):
    """Subscribes a consumer that knows the topic: a member of this client (3.0) that leads a group before it does gives
    out nothing, now and then for ever.

    Then the client must hear of the topic once more. It compares the partitions that it assigned with those that it has
    heard of since it subscribed, and joins again when they differ. If a poll ends during that second join, the client
    takes no notice of its answer: it sends no heartbeats, and each commit fails with RebalanceInProgressError, at a
    Kafka 4.3.1 as well."""
    assert consumer.partitions_for_topic(topic)
    consumer.subscribe([topic], listener=listener)
    assert topic in consumer.topics()


def make_topic(broker, partition_count=1, **config):
    """A new topic; its name."""
    name = broker.name()
    configs = {"retention.ms": "-1", **{key.replace("__", "."): str(value) for key, value in config.items()}}
    with an_admin(broker) as admin:
        options = {"num_partitions": partition_count, "replication_factor": 1, "configs": configs}
        admin.create_topics({name: options}, wait_for_metadata=True)
    return name


def send(producer, topic, records):
    """Sends records, each a value or the arguments of send; where each was written."""
    futures = [
        producer.send(topic, **(record if isinstance(record, dict) else {"value": record})) for record in records
    ]
    producer.flush(SECONDS)
    return [future.get(SECONDS) for future in futures]


def write(broker, topic, records, listener="PLAINTEXT", **given):
    with a_producer(broker, listener, **given) as producer:
        return send(producer, topic, records)


def read_all(broker, topic, listener="PLAINTEXT", **given):
    """Every record from the beginning to the end, partition by partition in the order of their offsets."""
    with a_consumer(broker, listener=listener, **given) as reader:
        partitions = [TopicPartition(topic, number) for number in sorted(reader.partitions_for_topic(topic))]
        reader.assign(partitions)
        reader.seek_to_beginning()
        ends, found, deadline = reader.end_offsets(partitions), [], time.monotonic() + SECONDS
        while any(reader.position(partition) < end for partition, end in ends.items()):
            assert time.monotonic() < deadline, f"{len(found)} records and no end after {SECONDS} s"
            for records in reader.poll(200).values():
                found += records
        return sorted(found, key=lambda record: record.partition)


def values_of(broker, topic, **given):
    return [record.value for record in read_all(broker, topic, **given)]


def committed_values(broker, topic, **given):
    """What read-committed readers see, once every transaction has ended."""
    wait_for_markers(broker, topic)
    return values_of(broker, topic, **({"isolation_level": "read_committed"} | given))


def take(consumer, count):
    """The next `count` records, in the order in which they came."""
    found, deadline = [], time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records after {SECONDS} s"
        for records in consumer.poll(100, max_records=count - len(found)).values():
            found += records
    return found


def poll_until(condition, *consumers):
    """Polls consumers, which must have nothing to read, until the condition holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s"
        for consumer in consumers:
            assert consumer.poll(20) == {}, "something to read"


def numbers_of(consumer):
    """The partitions that it has been given."""
    return sorted(partition.partition for partition in consumer.assignment())
